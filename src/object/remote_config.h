// What the operator says about an S3 service elsewhere: where it is, who we are there, and which of
// its folders each tenant may read. Values; pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/ids.h"
#include "wire/sigv4.h"

namespace firebreak::object {

// A bucket, or a folder of it, that a tenant may read. All tenants share the operator's
// credentials, so nothing that is not granted can be named.
struct RemoteGrant {
  std::string account;  // "*": of every tenant; bucket or folder then hold "{account}"
  std::string bucket;
  std::string folder;  // "" or with a '/' at its end

  bool covers(const core::TenantId& tenant, std::string_view bucket_name) const;
  // Keys that a server could take for another one ("a/../b") are in no folder.
  bool covers(const core::TenantId& tenant, std::string_view bucket_name,
              std::string_view key) const;
  friend bool operator==(const RemoteGrant&, const RemoteGrant&) = default;
};

// "ACCOUNT=BUCKET,ACCOUNT=BUCKET/FOLDER,*=BUCKET/{account}".
Result<std::vector<RemoteGrant>> parse_remote_grants(std::string_view text);

// The profile "default" of a credentials file as AWS's tools have it.
Result<wire::SigV4Key> parse_credentials(std::string_view text);

// "http://HOST[:PORT]" or "https://..."; without a path.
Result<> check_remote_endpoint(std::string_view url);

}  // namespace firebreak::object
