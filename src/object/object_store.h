// Objects in buckets on the local disk, per tenant, for the S3 façade. A published object survives
// a power cut whole; an unpublished one leaves nothing. Blocking: call it off the event loop. Owned
// by the program; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::object {

struct ObjectLimits {
  std::uint64_t tenant_bytes = 10UL << 30;  // objects and parts of uploads
  std::uint64_t object_bytes = 5UL << 30;
  std::size_t tenant_objects = 100'000;  // objects and parts of uploads
  std::size_t buckets = 100;
};

struct ObjectInfo {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;  // without quotes
  core::Time modified{};
  std::map<std::string, std::string> headers;  // content-type, x-amz-meta-..., checksums
  std::string file;                            // of its bytes, in the bucket's directory
};

struct BucketInfo {
  std::string name;
  core::Time created{};
};

struct PartInfo {
  std::uint32_t number = 0;
  std::uint64_t size = 0;
  std::string etag;
  core::Time modified{};
  std::string file;
};

struct Upload {
  std::string id;
  std::string bucket;
  std::string key;
  core::Time created{};
  std::map<std::string, std::string> headers;
  std::map<std::uint32_t, PartInfo> parts;
};

class ObjectStore;

// Bytes on their way in: a file that nobody sees, counted against the tenant's limit from the
// start. Destroyed before it was published it leaves nothing behind.
class Draft {
 public:
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  // Code::exhausted beyond the size it was begun with.
  Result<> write(std::string_view bytes);
  std::uint64_t size() const { return written_; }

 private:
  friend class ObjectStore;
  Draft(ObjectStore& store, core::TenantId tenant, std::string path, std::string file,
        UniqueFd handle, std::uint64_t reserved)
      : store_(store),
        tenant_(std::move(tenant)),
        path_(std::move(path)),
        file_(std::move(file)),
        handle_(std::move(handle)),
        reserved_(reserved) {}

  ObjectStore& store_;
  core::TenantId tenant_;
  std::string path_;
  std::string file_;
  UniqueFd handle_;
  std::uint64_t reserved_;
  std::uint64_t written_ = 0;
  bool published_ = false;
};

class ObjectStore {
 public:
  ObjectStore(std::string directory, ObjectLimits limits, const core::Clock& clock)
      : directory_(std::move(directory)), limits_(limits), clock_(clock) {}

  // Reads what there is, and removes what a crash left half done.
  Result<> load();

  const ObjectLimits& limits() const { return limits_; }

  // --- buckets. Names are the tenant's own: two tenants may use the same.
  // conflict: it exists.
  Result<> create_bucket(const core::TenantId& tenant, const std::string& name);
  Result<> remove_bucket(const core::TenantId& tenant,
                         const std::string& name);  // conflict: not empty
  std::optional<BucketInfo> bucket(const core::TenantId& tenant, const std::string& name) const;
  std::vector<BucketInfo> buckets(const core::TenantId& tenant) const;

  // --- objects. not_found: no such bucket or key; the message tells which.
  // Code::exhausted: no room for so many bytes.
  Result<std::unique_ptr<Draft>> begin(const core::TenantId& tenant, const std::string& bucket,
                                       std::uint64_t size);
  // `info`: key, etag and headers; the rest is filled in. conflict: it exists, and must not.
  Result<ObjectInfo> publish(std::unique_ptr<Draft> draft, const std::string& bucket,
                             ObjectInfo info, bool must_be_new = false);
  Result<ObjectInfo> find(const core::TenantId& tenant, const std::string& bucket,
                          const std::string& key) const;
  // Its bytes, also when it is replaced or removed meanwhile.
  Result<UniqueFd> open(const core::TenantId& tenant, const std::string& bucket,
                        const ObjectInfo& info) const;
  // Removing what is not there is fine.
  Result<> remove(const core::TenantId& tenant, const std::string& bucket, const std::string& key);

  struct Query {
    std::string prefix;
    std::string delimiter;
    std::string after;  // keys (or common prefixes) behind this one
    std::size_t most = 1000;
  };
  struct Listing {
    std::vector<ObjectInfo> objects;
    std::vector<std::string> prefixes;
    std::string next;  // where the next one goes on; empty at the end
  };
  Result<Listing> list(const core::TenantId& tenant, const std::string& bucket,
                       const Query& query) const;

  // --- uploads in parts
  Result<Upload> create_upload(const core::TenantId& tenant, const std::string& bucket,
                               const std::string& key, std::map<std::string, std::string> headers);
  Result<Upload> find_upload(const core::TenantId& tenant, const std::string& bucket,
                             const std::string& key, const std::string& id) const;
  // A part with the same number is replaced.
  Result<PartInfo> publish_part(std::unique_ptr<Draft> draft, const Upload& upload, PartInfo part);
  // The parts named, in order, as one object. Code::invalid: a part is missing or another one.
  Result<ObjectInfo> complete(const core::TenantId& tenant, const Upload& upload,
                              const std::vector<PartInfo>& parts, std::string etag);
  Result<> abort(const core::TenantId& tenant, const Upload& upload);

 private:
  friend class Draft;
  struct Bucket {
    BucketInfo info;
    std::map<std::string, ObjectInfo> objects;
    std::map<std::string, Upload> uploads;
  };
  struct Tenant {
    std::map<std::string, Bucket> buckets;
    std::uint64_t bytes = 0;  // kept and reserved
    std::size_t count = 0;
  };

  std::string bucket_dir(const core::TenantId& tenant, const std::string& bucket) const;
  Result<> load_bucket(const core::TenantId& tenant, const std::string& name);
  Result<> load_uploads(const core::TenantId& tenant, const std::string& name, Bucket& bucket);
  // Under the lock.
  Result<Bucket*> find_bucket(const core::TenantId& tenant, const std::string& name);
  Result<const Bucket*> find_bucket(const core::TenantId& tenant, const std::string& name) const;
  void release(const core::TenantId& tenant, std::uint64_t bytes, std::size_t count);
  Result<> commit(Draft& draft);

  std::string directory_;
  ObjectLimits limits_;
  const core::Clock& clock_;
  mutable std::mutex mutex_;  // of tenants_ and records; never held over bytes of objects
  std::map<core::TenantId, Tenant> tenants_;
};

// 3 to 63 of a-z, 0-9, '.', '-', beginning and ending with a letter or digit; no address.
Result<> check_bucket_name(std::string_view name);
// 1 to 1024 bytes of UTF-8 without NUL.
Result<> check_key(std::string_view key);

}  // namespace firebreak::object
