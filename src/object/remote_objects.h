// Objects of an S3 service elsewhere, read with the operator's credentials: a client of GetObject
// that believes nothing it is answered. Owned by the program; one executor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "net/http_client.h"
#include "object/remote_config.h"

namespace firebreak::object {

struct RemoteSettings {
  std::string endpoint;
  std::string region = "us-east-1";
  std::string credentials_file;
  std::vector<RemoteGrant> grants;
};

// One object on its way in. Destroyed before its end it is not fetched further.
class RemoteObject {
 public:
  RemoteObject(std::unique_ptr<net::HttpClientStream> stream, std::uint64_t limit)
      : stream_(std::move(stream)), limit_(limit) {}
  // Empty at the end. Code::exhausted beyond the limit.
  net::Task<Result<std::string>> read(Deadline deadline);

 private:
  std::unique_ptr<net::HttpClientStream> stream_;
  std::uint64_t limit_;
  std::uint64_t received_ = 0;
};

class RemoteObjects {
 public:
  // The credentials are read now, to tell what is wrong with them, and for each object anew.
  static Result<std::unique_ptr<RemoteObjects>> open(RemoteSettings settings,
                                                     const core::Clock& clock);

  // The tenant's own or a folder of it; other buckets are not looked for there.
  bool has(const core::TenantId& tenant, const std::string& bucket) const;
  // Reasons: bucket_not_found, object_not_found, object_archived, object_denied, bucket_elsewhere.
  net::Task<Result<std::unique_ptr<RemoteObject>>> get(core::TenantId tenant, std::string bucket,
                                                       std::string key, std::uint64_t limit,
                                                       Deadline deadline) const;

 private:
  RemoteObjects(RemoteSettings settings, const core::Clock& clock)
      : settings_(std::move(settings)), clock_(clock) {}
  Result<net::HttpCall> request(const std::string& bucket, const std::string& key) const;

  RemoteSettings settings_;
  const core::Clock& clock_;
};

}  // namespace firebreak::object
