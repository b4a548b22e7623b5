#include "api/lambda/artifacts.h"

#include <unistd.h>

#include "image/context_upload.h"

namespace firebreak::api {
namespace {

constexpr std::size_t kPiece = 256UL << 10;
// A slow store may take long, but not for ever without a byte.
constexpr auto kIdle = std::chrono::seconds(60);

std::unexpected<Error> not_an_archive(Error error) {
  error.code = Code::invalid;
  error.reason = Reason{"archive_invalid"}.word;
  return std::unexpected(std::move(error));
}

Result<control::BuildRequest::Context> finish(image::ContextUpload& upload) {
  auto context = upload.finish();
  if (!context) return not_an_archive(context.error());
  if ((*context)->find("Dockerfile") == nullptr)
    return fail(Code::not_found, Reason{"archive_without_dockerfile"},
                "the zip has no Dockerfile at its root");
  return control::BuildRequest::Context(*std::move(context));
}

}  // namespace

net::Task<Result<control::BuildRequest::Context>> Artifacts::fetch(core::TenantId tenant,
                                                                   ArtifactPlace place,
                                                                   Deadline deadline) const {
  FB_CO_TRY(allow(tenant, place));
  if (remote_ != nullptr && remote_->has(tenant, place.bucket))
    co_return co_await read_remote(std::move(tenant), std::move(place), deadline);
  auto read = [&] { return read_own(tenant, place); };
  co_return co_await net::run_blocking(pool_, read);
}

// With what the build role allows now, as the read itself would be.
Result<> Artifacts::allow(const core::TenantId& tenant, const ArtifactPlace& place) const {
  if (place.role.empty()) return {};
  const control::RolePtr role = roles_.find(tenant, place.role);
  const std::string resource = "arn:aws:s3:::" + place.bucket + "/" + place.key;
  if (role &&
      core::decide(role->policy, {.action = "s3:GetObject", .resource = resource, .prefix = {}}) ==
          core::RoleVerdict::allowed)
    return {};
  return fail(Code::denied, Reason{"object_denied"},
              "the build role " + place.role + " does not allow s3:GetObject on " + resource);
}

Result<Artifacts::Context> Artifacts::read_own(const core::TenantId& tenant,
                                               const ArtifactPlace& place) const {
  if (!own_.bucket(tenant, place.bucket))
    return fail(Code::not_found, Reason{"bucket_not_found"},
                "the bucket " + place.bucket + " does not exist");
  const auto info = own_.find(tenant, place.bucket, place.key);
  if (!info)
    return fail(Code::not_found, Reason{"object_not_found"},
                "the bucket " + place.bucket + " has no object " + place.key);
  FB_TRY_ASSIGN(const UniqueFd file, own_.open(tenant, place.bucket, *info));
  FB_TRY_ASSIGN(auto upload, image::ContextUpload::create(directory_));
  std::string piece(kPiece, '\0');
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), at);
    if (got < 0) return fail_errno("reading the artifact");
    if (got == 0) break;
    at += got;
    if (auto fed = upload->feed({piece.data(), static_cast<std::size_t>(got)}); !fed)
      return not_an_archive(fed.error());
  }
  return finish(*upload);
}

net::Task<Result<Artifacts::Context>> Artifacts::read_remote(core::TenantId tenant,
                                                             ArtifactPlace place,
                                                             Deadline deadline) const {
  auto object = co_await remote_->get(tenant, place.bucket, place.key,
                                      image::ContextLimits{}.max_archive, deadline);
  if (!object && object.error().code == Code::exhausted) co_return not_an_archive(object.error());
  if (!object) co_return std::unexpected(object.error());
  FB_CO_TRY_ASSIGN(auto upload, image::ContextUpload::create(directory_));
  std::string waiting;
  auto take = [&]() -> Result<> {
    auto fed = upload->feed(waiting);
    waiting.clear();
    return fed;
  };
  for (bool more = true; more;) {
    auto bytes = co_await (*object)->read(deadline.earlier(Deadline::in(kIdle)));
    if (!bytes && bytes.error().code == Code::exhausted) co_return not_an_archive(bytes.error());
    if (!bytes) {
      Error error =
          fail(Code::unavailable, "the S3 endpoint broke off", Repair{"try again later"}).error();
      error.detail = bytes.error().text();
      co_return std::unexpected(std::move(error));
    }
    more = !bytes->empty();
    waiting += *bytes;
    if (more && waiting.size() < kPiece) continue;
    if (auto fed = co_await net::run_blocking(pool_, take); !fed)
      co_return not_an_archive(fed.error());
  }
  auto end = [&] { return finish(*upload); };
  co_return co_await net::run_blocking(pool_, end);
}

}  // namespace firebreak::api
