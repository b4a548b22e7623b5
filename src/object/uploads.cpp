// Uploads in parts: each part is a file of its own, and completing copies them into one.
#include <unistd.h>

#include "base/sys.h"
#include "object/object_files.h"
#include "object/object_store.h"

namespace firebreak::object {
namespace {

std::unexpected<Error> no_upload() {
  return fail(Code::not_found, Reason{"upload_not_found"},
              "The specified upload does not exist. The upload ID may be invalid, or the upload "
              "may have been aborted or completed.");
}

Result<> copy_into(const std::string& path, Draft& draft) {
  FB_TRY_ASSIGN(const UniqueFd part, sys::open(path, O_RDONLY));
  std::string piece(1UL << 20, '\0');
  for (;;) {
    const ssize_t count = ::read(part.get(), piece.data(), piece.size());
    if (count < 0) return fail_errno("reading a part");
    if (count == 0) return {};
    FB_TRY(draft.write(std::string_view(piece).substr(0, static_cast<std::size_t>(count))));
  }
}

}  // namespace

Result<Upload> ObjectStore::create_upload(const core::TenantId& tenant, const std::string& bucket,
                                          const std::string& key,
                                          std::map<std::string, std::string> headers) {
  FB_TRY(check_key(key));
  Upload upload{.id = sys::random_hex(24),
                .bucket = bucket,
                .key = key,
                .created = clock_.now(),
                .headers = std::move(headers),
                .parts = {}};
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(Bucket * home, find_bucket(tenant, bucket));
  if (home->uploads.size() >= 1000)
    return fail(Code::exhausted, "This bucket has too many uploads under way",
                Repair{"abort some"});
  FB_TRY(write_upload(bucket_dir(tenant, bucket), upload));
  home->uploads[upload.id] = upload;
  return upload;
}

Result<Upload> ObjectStore::find_upload(const core::TenantId& tenant, const std::string& bucket,
                                        const std::string& key, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const Bucket* home, find_bucket(tenant, bucket));
  auto found = home->uploads.find(id);
  if (found == home->uploads.end() || found->second.key != key) return no_upload();
  return found->second;
}

Result<PartInfo> ObjectStore::publish_part(std::unique_ptr<Draft> draft, const Upload& upload,
                                           PartInfo part) {
  FB_TRY(commit(*draft));
  part.size = draft->written_;
  part.file = draft->file_;
  part.modified = clock_.now();
  const std::string dir = bucket_dir(draft->tenant_, upload.bucket);
  std::optional<PartInfo> before;
  {
    const std::lock_guard lock(mutex_);
    FB_TRY_ASSIGN(Bucket * home, find_bucket(draft->tenant_, upload.bucket));
    auto found = home->uploads.find(upload.id);
    if (found == home->uploads.end()) return no_upload();
    Upload changed = found->second;
    if (auto old = changed.parts.find(part.number); old != changed.parts.end())
      before = old->second;
    changed.parts[part.number] = part;
    FB_TRY(write_upload(dir, changed));
    found->second = std::move(changed);
    draft->published_ = true;
  }
  if (before) {
    ::unlink((dir + "/" + before->file).c_str());
    release(draft->tenant_, before->size, 1);
  }
  return part;
}

Result<ObjectInfo> ObjectStore::complete(const core::TenantId& tenant, const Upload& upload,
                                         const std::vector<PartInfo>& parts, std::string etag) {
  std::uint64_t size = 0;
  for (const PartInfo& part : parts) size += part.size;
  if (size > limits_.object_bytes)
    return fail(Code::exhausted, "The object would be larger than an object may be");
  FB_TRY_ASSIGN(auto draft, begin(tenant, upload.bucket, size));
  const std::string dir = bucket_dir(tenant, upload.bucket);
  for (const PartInfo& part : parts) FB_TRY(copy_into(dir + "/" + part.file, *draft));
  ObjectInfo info{.key = upload.key, .etag = std::move(etag), .headers = upload.headers};
  FB_TRY_ASSIGN(ObjectInfo made, publish(std::move(draft), upload.bucket, std::move(info)));
  FB_TRY(abort(tenant, upload));
  return made;
}

Result<> ObjectStore::abort(const core::TenantId& tenant, const Upload& upload) {
  const std::string dir = bucket_dir(tenant, upload.bucket);
  Upload gone;
  {
    const std::lock_guard lock(mutex_);
    FB_TRY_ASSIGN(Bucket * home, find_bucket(tenant, upload.bucket));
    auto found = home->uploads.find(upload.id);
    if (found == home->uploads.end()) return no_upload();
    if (::unlink((dir + "/" + upload_name(upload.id)).c_str()) != 0)
      return fail_errno("ending an upload");
    gone = std::move(found->second);
    home->uploads.erase(found);
  }
  for (const auto& [number, part] : gone.parts) {
    ::unlink((dir + "/" + part.file).c_str());
    release(tenant, part.size, 1);
  }
  return {};
}

}  // namespace firebreak::object
