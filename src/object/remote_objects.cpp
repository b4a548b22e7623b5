#include "object/remote_objects.h"

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"
#include "wire/crypto.h"
#include "wire/xml.h"

namespace firebreak::object {
namespace {

constexpr std::size_t kMaxErrorBody = 64UL << 10;
constexpr auto kConnectTime = std::chrono::seconds(20);

std::unexpected<Error> too_large(std::uint64_t limit) {
  return fail(Code::exhausted, "the object is larger than " + std::to_string(limit) + " bytes");
}

// The code in an error's body; empty when there is none to be read.
net::Task<std::string> error_code(net::HttpClientStream& stream, Deadline deadline) {
  std::string body;
  for (;;) {
    auto bytes = co_await stream.read(deadline);
    if (!bytes || bytes->empty()) break;
    body += *bytes;
    if (body.size() > kMaxErrorBody) co_return std::string();
  }
  auto root = wire::parse_xml(body);
  std::string code = root && root->name == "Error" ? root->child_text("Code") : "";
  const bool word = code.size() <= 64 && std::ranges::all_of(code, [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
                    });
  co_return word ? code : std::string();
}

std::unexpected<Error> refusal(int status, const std::string& code, const std::string& bucket,
                               const std::string& key) {
  const std::string named = code.empty() ? "status " + std::to_string(status) : code;
  if (code == "NoSuchBucket")
    return fail(Code::not_found, Reason{"bucket_not_found"},
                "the bucket " + bucket + " does not exist");
  if (status == 404)
    return fail(Code::not_found, Reason{"object_not_found"},
                "the bucket " + bucket + " has no object " + key);
  if (code == "InvalidObjectState")
    return fail(Code::invalid, Reason{"object_archived"}, "the object " + key + " is archived");
  // A redirect leads to another region, or to somebody else: it is not followed.
  if (status / 100 == 3 || code == "AuthorizationHeaderMalformed")
    return fail(Code::denied, Reason{"bucket_elsewhere"},
                "the bucket " + bucket + " is not in the region of this server's S3 endpoint (" +
                    named + ")");
  if (status / 100 == 4)
    return fail(Code::denied, Reason{"object_denied"},
                "the S3 endpoint refuses to give the object " + key + " of the bucket " + bucket +
                    " (" + named + ")");
  return fail(Code::unavailable, "the S3 endpoint fails (" + named + ")", Repair{"try again"});
}

}  // namespace

net::Task<Result<std::string>> RemoteObject::read(Deadline deadline) {
  FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
  received_ += bytes.size();
  if (received_ > limit_) co_return too_large(limit_);
  co_return bytes;
}

Result<std::unique_ptr<RemoteObjects>> RemoteObjects::open(RemoteSettings settings,
                                                           const core::Clock& clock) {
  FB_TRY(check_remote_endpoint(settings.endpoint));
  std::unique_ptr<RemoteObjects> objects(new RemoteObjects(std::move(settings), clock));
  FB_TRY(objects->request("bucket", "key"));
  return objects;
}

bool RemoteObjects::has(const core::TenantId& tenant, const std::string& bucket) const {
  return std::ranges::any_of(
      settings_.grants, [&](const RemoteGrant& grant) { return grant.covers(tenant, bucket); });
}

Result<net::HttpCall> RemoteObjects::request(const std::string& bucket,
                                             const std::string& key) const {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(settings_.credentials_file));
  auto credentials = parse_credentials(text);
  if (!credentials) return fail(credentials.error(), settings_.credentials_file);
  net::HttpCall call{.method = "GET",
                     .target = "/" + bucket + "/" + percent_encode(key),
                     .host = settings_.endpoint.substr(settings_.endpoint.find("//") + 2),
                     .headers = {},
                     .body = {}};
  const wire::SigV4Request unsigned_request{call.method, call.target, call.host, call.headers};
  call.headers = wire::sign_sigv4(unsigned_request, *credentials, settings_.region, "s3",
                                  wire::sha256_hex(""), core::to_unix_ms(clock_.now()) / 1000);
  return call;
}

net::Task<Result<std::unique_ptr<RemoteObject>>> RemoteObjects::get(core::TenantId tenant,
                                                                    std::string bucket,
                                                                    std::string key,
                                                                    std::uint64_t limit,
                                                                    Deadline deadline) const {
  const bool granted = std::ranges::any_of(settings_.grants, [&](const RemoteGrant& grant) {
    return grant.covers(tenant, bucket, key);
  });
  if (!granted)
    co_return fail(Code::denied, Reason{"object_denied"},
                   "the object " + key + " of the bucket " + bucket +
                       " is outside what this account may read");
  // What is wrong with the operator's file is for the operator.
  auto call = request(bucket, key);
  if (!call)
    co_return fail(Code::internal, "the server's credentials for S3 cannot be read",
                   call.error().text());
  const Deadline connecting = deadline.earlier(Deadline::in(kConnectTime));
  // Whatever keeps it from answering, a deadline too, is not the artifact's fault.
  const auto silent = [](const Error& error) {
    Error told =
        fail(Code::unavailable, "the S3 endpoint does not answer", Repair{"try again later"})
            .error();
    told.detail = error.text();
    return std::unexpected(std::move(told));
  };
  auto connected = co_await net::connect_url(settings_.endpoint, "", connecting);
  if (!connected) co_return silent(connected.error());
  auto started = co_await net::HttpClientStream::start(*std::move(connected), *std::move(call),
                                                       false, connecting);
  if (!started) co_return silent(started.error());
  std::unique_ptr<net::HttpClientStream> stream = *std::move(started);
  const auto head = co_await stream->head(connecting);
  if (!head) co_return silent(head.error());
  if (head->status != 200) {
    const std::string code = co_await error_code(*stream, connecting);
    co_return refusal(head->status, code, bucket, key);
  }
  const auto length = parse_u64(wire::find_header(head->headers, "content-length"));
  if (length && *length > limit) co_return too_large(limit);
  co_return std::make_unique<RemoteObject>(std::move(stream), limit);
}

}  // namespace firebreak::object
