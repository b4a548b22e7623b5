#include "object/object_store.h"

#include <algorithm>
#include <set>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "object/object_files.h"

namespace firebreak::object {
namespace {

constexpr core::Seconds kUploadLife{7L * 24 * 3600};

std::unexpected<Error> no_bucket() {
  return fail(Code::not_found, Reason{"bucket_not_found"}, "The specified bucket does not exist");
}

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

Result<> check_bucket_name(std::string_view name) {
  const bool good = name.size() >= 3 && name.size() <= 63 && is_lower_or_digit(name.front()) &&
                    is_lower_or_digit(name.back()) && !name.contains("..") &&
                    std::ranges::all_of(
                        name, [](char c) { return is_lower_or_digit(c) || c == '.' || c == '-'; });
  const bool address =
      std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  if (good && (!address || std::ranges::count(name, '.') != 3)) return {};
  return fail(Code::invalid, "The specified bucket is not valid.");
}

Result<> check_key(std::string_view key) {
  if (key.empty() || key.size() > 1024 || key.contains('\0'))
    return fail(Code::invalid, "A key has 1 to 1024 bytes");
  return {};
}

// ------------------------------------------------------------------------------------------- draft

Draft::~Draft() {
  if (published_) return;
  ::unlink(path_.c_str());
  store_.release(tenant_, reserved_, 1);
}

Result<> Draft::write(std::string_view bytes) {
  if (bytes.size() > reserved_ - written_)
    return fail(Code::exhausted, "more bytes came than were announced");
  FB_TRY(sys::write_all(handle_.get(), bytes));
  written_ += bytes.size();
  return {};
}

// -------------------------------------------------------------------------------------------- load

std::string ObjectStore::bucket_dir(const core::TenantId& tenant, const std::string& bucket) const {
  return directory_ + "/" + tenant.str() + "/" + bucket;
}

Result<> ObjectStore::load() {
  FB_TRY(sys::mkdirs(directory_, 0700));
  FB_TRY_ASSIGN(const auto tenants, sys::list_dir(directory_));
  for (const std::string& name : tenants) {
    const core::TenantId tenant(name);
    FB_TRY_ASSIGN(const auto buckets, sys::list_dir(directory_ + "/" + name));
    for (const std::string& bucket : buckets) FB_TRY(load_bucket(tenant, bucket));
  }
  return {};
}

Result<> ObjectStore::load_bucket(const core::TenantId& tenant, const std::string& name) {
  const std::string dir = bucket_dir(tenant, name);
  struct stat st{};
  if (::stat(dir.c_str(), &st) != 0) return fail_errno("reading the bucket " + name);
  Bucket bucket{.info = {name, core::from_unix_ms(st.st_ctim.tv_sec * 1000)}};
  if (auto created = sys::read_file(dir + "/created"))
    bucket.info.created = core::from_unix_ms(static_cast<std::int64_t>(
        parse_u64(*created).value_or(static_cast<std::uint64_t>(st.st_ctim.tv_sec) * 1000)));
  FB_TRY(load_uploads(tenant, name, bucket));
  FB_TRY_ASSIGN(const auto files, sys::list_dir(dir));
  std::set<std::string> named;
  Tenant& owner = tenants_[tenant];
  for (const std::string& file : files) {
    if (!file.starts_with("object-") || !file.ends_with(".json")) continue;
    FB_TRY_ASSIGN(ObjectInfo info, read_record(dir + "/" + file));
    named.insert(info.file);
    owner.bytes += info.size;
    ++owner.count;
    bucket.objects[info.key] = std::move(info);
  }
  for (const auto& [id, upload] : bucket.uploads) {
    for (const auto& [number, part] : upload.parts) {
      named.insert(part.file);
      owner.bytes += part.size;
      ++owner.count;
    }
  }
  for (const std::string& file : files) {
    if (file.starts_with("data-") && !named.contains(file)) ::unlink((dir + "/" + file).c_str());
  }
  owner.buckets[name] = std::move(bucket);
  return {};
}

Result<> ObjectStore::load_uploads(const core::TenantId& tenant, const std::string& name,
                                   Bucket& bucket) {
  const std::string dir = bucket_dir(tenant, name);
  FB_TRY_ASSIGN(const auto files, sys::list_dir(dir));
  for (const std::string& file : files) {
    if (!file.starts_with("upload-") || !file.ends_with(".json")) continue;
    FB_TRY_ASSIGN(Upload upload, read_upload(dir + "/" + file));
    if (upload.created + kUploadLife < clock_.now()) {
      ::unlink((dir + "/" + file).c_str());
    } else {
      bucket.uploads[upload.id] = std::move(upload);
    }
  }
  return {};
}

// ----------------------------------------------------------------------------------------- buckets

Result<ObjectStore::Bucket*> ObjectStore::find_bucket(const core::TenantId& tenant,
                                                      const std::string& name) {
  auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return no_bucket();
  auto found = owner->second.buckets.find(name);
  if (found == owner->second.buckets.end()) return no_bucket();
  return &found->second;
}

Result<const ObjectStore::Bucket*> ObjectStore::find_bucket(const core::TenantId& tenant,
                                                            const std::string& name) const {
  auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return no_bucket();
  auto found = owner->second.buckets.find(name);
  if (found == owner->second.buckets.end()) return no_bucket();
  return &found->second;
}

Result<> ObjectStore::create_bucket(const core::TenantId& tenant, const std::string& name) {
  FB_TRY(check_bucket_name(name));
  const core::Time now = clock_.now();
  const std::lock_guard lock(mutex_);
  Tenant& owner = tenants_[tenant];
  if (owner.buckets.contains(name))
    return fail(Code::conflict, "The bucket exists already and is yours");
  if (owner.buckets.size() >= limits_.buckets)
    return fail(Code::exhausted, "You have as many buckets as you may have");
  // Rare and short: the directory is made under the lock, so that nobody sees half of it.
  const std::string dir = bucket_dir(tenant, name);
  FB_TRY(sys::mkdirs(dir, 0700));
  FB_TRY(sys::replace_file(dir + "/created", std::to_string(core::to_unix_ms(now)), 0600));
  FB_TRY(sys::fsync_dir(directory_ + "/" + tenant.str()));
  owner.buckets[name] = Bucket{.info = {name, now}};
  return {};
}

Result<> ObjectStore::remove_bucket(const core::TenantId& tenant, const std::string& name) {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(Bucket * bucket, find_bucket(tenant, name));
  if (!bucket->objects.empty() || !bucket->uploads.empty())
    return fail(Code::conflict, "The bucket you tried to delete is not empty");
  FB_TRY(sys::remove_tree(bucket_dir(tenant, name)));
  tenants_[tenant].buckets.erase(name);
  return {};
}

std::optional<BucketInfo> ObjectStore::bucket(const core::TenantId& tenant,
                                              const std::string& name) const {
  const std::lock_guard lock(mutex_);
  auto found = find_bucket(tenant, name);
  if (!found) return std::nullopt;
  return (*found)->info;
}

std::vector<BucketInfo> ObjectStore::buckets(const core::TenantId& tenant) const {
  const std::lock_guard lock(mutex_);
  std::vector<BucketInfo> list;
  if (auto owner = tenants_.find(tenant); owner != tenants_.end()) {
    for (const auto& [name, bucket] : owner->second.buckets) list.push_back(bucket.info);
  }
  return list;
}

// ----------------------------------------------------------------------------------------- objects

void ObjectStore::release(const core::TenantId& tenant, std::uint64_t bytes, std::size_t count) {
  const std::lock_guard lock(mutex_);
  Tenant& owner = tenants_[tenant];
  owner.bytes -= bytes;
  owner.count -= count;
}

Result<std::unique_ptr<Draft>> ObjectStore::begin(const core::TenantId& tenant,
                                                  const std::string& bucket, std::uint64_t size) {
  {
    const std::lock_guard lock(mutex_);
    FB_TRY(find_bucket(tenant, bucket));
    Tenant& owner = tenants_[tenant];
    if (size > limits_.tenant_bytes - std::min(owner.bytes, limits_.tenant_bytes) ||
        owner.count >= limits_.tenant_objects)
      return fail(Code::exhausted, Reason{"storage_full"},
                  "Your objects would be more than you may keep",
                  Repair{"delete some, or ask for more room"});
    owner.bytes += size;
    ++owner.count;
  }
  const std::string file = new_data_name();
  std::string path = bucket_dir(tenant, bucket) + "/" + file;
  auto handle = sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!handle) {
    release(tenant, size, 1);
    return std::unexpected(handle.error());
  }
  return std::unique_ptr<Draft>(
      new Draft(*this, tenant, std::move(path), file, *std::move(handle), size));
}

// The bytes are on the disk; what was announced and did not come is given back.
Result<> ObjectStore::commit(Draft& draft) {
  if (::fsync(draft.handle_.get()) != 0) return fail_errno("writing an object");
  if (draft.reserved_ != draft.written_) {
    release(draft.tenant_, draft.reserved_ - draft.written_, 0);
    draft.reserved_ = draft.written_;
  }
  return {};
}

Result<ObjectInfo> ObjectStore::publish(std::unique_ptr<Draft> draft, const std::string& bucket,
                                        ObjectInfo info, bool must_be_new) {
  FB_TRY(check_key(info.key));
  FB_TRY(commit(*draft));
  info.size = draft->written_;
  info.file = draft->file_;
  info.modified = clock_.now();
  const std::string dir = bucket_dir(draft->tenant_, bucket);
  std::optional<ObjectInfo> before;
  {
    // Two writers of one key: the record on the disk and the one in memory are the same one's.
    const std::lock_guard lock(mutex_);
    FB_TRY_ASSIGN(Bucket * home, find_bucket(draft->tenant_, bucket));
    if (must_be_new && home->objects.contains(info.key))
      return fail(Code::conflict, "The object exists already");
    FB_TRY(write_record(dir, info));
    auto& slot = home->objects[info.key];
    if (!slot.file.empty()) before = slot;
    slot = info;
    draft->published_ = true;
  }
  if (before) {
    ::unlink((dir + "/" + before->file).c_str());
    release(draft->tenant_, before->size, 1);
  }
  return info;
}

Result<ObjectInfo> ObjectStore::find(const core::TenantId& tenant, const std::string& bucket,
                                     const std::string& key) const {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const Bucket* home, find_bucket(tenant, bucket));
  auto found = home->objects.find(key);
  if (found == home->objects.end())
    return fail(Code::not_found, Reason{"object_not_found"}, "The specified key does not exist.");
  return found->second;
}

Result<UniqueFd> ObjectStore::open(const core::TenantId& tenant, const std::string& bucket,
                                   const ObjectInfo& info) const {
  return sys::open(bucket_dir(tenant, bucket) + "/" + info.file, O_RDONLY);
}

Result<> ObjectStore::remove(const core::TenantId& tenant, const std::string& bucket,
                             const std::string& key) {
  const std::string dir = bucket_dir(tenant, bucket);
  ObjectInfo gone;
  {
    const std::lock_guard lock(mutex_);
    FB_TRY_ASSIGN(Bucket * home, find_bucket(tenant, bucket));
    auto found = home->objects.find(key);
    if (found == home->objects.end()) return {};
    gone = found->second;
    if (::unlink((dir + "/" + record_name(key)).c_str()) != 0)
      return fail_errno("deleting an object");
    home->objects.erase(found);
  }
  FB_TRY(sys::fsync_dir(dir));
  ::unlink((dir + "/" + gone.file).c_str());
  release(tenant, gone.size, 1);
  return {};
}

Result<ObjectStore::Listing> ObjectStore::list(const core::TenantId& tenant,
                                               const std::string& bucket,
                                               const Query& query) const {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const Bucket* home, find_bucket(tenant, bucket));
  Listing listing;
  auto at = home->objects.lower_bound(query.prefix);
  if (!query.after.empty() && query.after >= query.prefix)
    at = home->objects.upper_bound(query.after);
  std::string last;
  while (at != home->objects.end() && at->first.starts_with(query.prefix)) {
    const auto cut = query.delimiter.empty() ? std::string::npos
                                             : at->first.find(query.delimiter, query.prefix.size());
    const bool group = cut != std::string::npos;
    const std::string common = group ? at->first.substr(0, cut + query.delimiter.size()) : "";
    // A page ended inside this group: it has been told.
    const bool told = group && !query.after.empty() && query.after.starts_with(common);
    if (!told) {
      if (listing.objects.size() + listing.prefixes.size() == query.most) {
        listing.next = last;
        return listing;
      }
      if (group) {
        listing.prefixes.push_back(common);
      } else {
        listing.objects.push_back(at->second);
      }
      last = group ? common : at->first;
    }
    if (!group) {
      ++at;
      continue;
    }
    // Behind everything that begins with the common prefix, however the next key goes on.
    while (at != home->objects.end() && at->first.starts_with(common)) ++at;
  }
  return listing;
}

}  // namespace firebreak::object
