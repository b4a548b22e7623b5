#include "api/aws/aws_api.h"

#include "api/guard.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

constexpr auto kCallDeadline = std::chrono::minutes(5);
constexpr auto kReplyDeadline = std::chrono::seconds(30);

AwsError refused(const wire::SigV4Refusal& refusal) {
  using Kind = wire::SigV4Refusal::Kind;
  switch (refusal.kind) {
    case Kind::missing:
      return {AuthFailure::missing, refusal.message};
    case Kind::malformed:
      return {AuthFailure::malformed, refusal.message};
    case Kind::skewed:
      return {AuthFailure::skewed, refusal.message};
    case Kind::expired:
      return {AuthFailure::expired, refusal.message};
    case Kind::mismatch:
      return {AuthFailure::mismatch, refusal.message};
  }
  return {AuthFailure::malformed, refusal.message};
}

bool is_hash(std::string_view text) {
  return text.size() == 64 && from_hex(text).has_value();
}

AwsError ended_session() {
  return {AuthFailure::ended_session, "The security token included in the request is expired"};
}

}  // namespace

void AwsApi::add(const std::string& name, std::unique_ptr<AwsService> service) {
  services_[name] = std::move(service);
}

bool AwsApi::claims(const net::HttpRequest& request, const net::Target& target) const {
  if (wire::find_header(request.headers, "authorization").starts_with("AWS4-HMAC-SHA256"))
    return true;
  const std::string first = target.segments.empty() ? "" : target.segments[0];
  return target.has_query("X-Amz-Algorithm") || first == "2025-09-09" || first == "2017-03-31" ||
         first == "s3";
}

std::vector<Surface> AwsApi::surface() const {
  std::vector<Surface> all;
  for (const auto& [name, service] : services_)
    for (const Surface& operation : service->surface())
      all.push_back({name + ":" + operation.name, operation.carries});
  return all;
}

AwsService& AwsApi::service_for(const std::string& name, const net::Target& target) {
  if (auto at = services_.find(name); at != services_.end()) return *at->second;
  const bool s3 = !target.segments.empty() && target.segments[0] == "s3";
  return *services_.at(s3 ? "s3" : "lambda");
}

net::Task<AwsResult<>> AwsApi::read_body(AwsService& service, AwsCall& call) {
  const std::size_t limit = service.body_limit();
  if (limit == 0) co_return AwsResult<>();
  // A body that is declared too long is refused before it is sent.
  const auto declared = parse_u64(call.header("content-length"));
  Result<std::string> body = std::string();
  if (!declared || *declared <= limit) {
    body = co_await call.exchange.read_all(limit, call.deadline);
  } else {
    body = fail(Code::exhausted, "too long");
  }
  if (!body && body.error().code == Code::exhausted)
    co_return refuse("RequestEntityTooLargeException", 413,
                     "Request must be smaller than " + std::to_string(limit) + " bytes");
  if (!body) co_return std::unexpected(body.error());
  call.body = *std::move(body);
  co_return AwsResult<>();
}

net::Task<AwsResult<>> AwsApi::admit(AwsService& service, const wire::SigV4Request& request,
                                     AwsCall& call) {
  auto signer = keys_.signer(call.claim.access_key_id, call.claim.session_token);
  if (!signer) {
    co_return std::unexpected(
        signer.error().code == Code::denied
            ? ended_session()
            : AwsError(AuthFailure::unknown_key,
                       "The security token included in the request is invalid."));
  }
  FB_CO_TRY(co_await read_body(service, call));
  std::string hash = call.claim.payload_hash;
  if (service.body_limit() == 0) {
    if (hash.empty() && call.claim.presigned) hash = wire::kUnsignedPayload;
    if (hash.empty())
      co_return refuse("InvalidRequest", 400,
                       "Missing required header for this request: x-amz-content-sha256");
  } else if (hash.empty() || is_hash(hash)) {
    // botocore sends no hash: the body's own is what was signed.
    const std::string actual = wire::sha256_hex(call.body);
    if (hash.empty()) hash = actual;
    if (hash != actual)
      co_return std::unexpected(AwsError(
          AuthFailure::mismatch, "x-amz-content-sha256 is not the hash of the request's body"));
  } else if (hash != wire::kUnsignedPayload) {
    co_return std::unexpected(
        AwsError(AuthFailure::malformed, "x-amz-content-sha256 must be a SHA-256"));
  }
  const std::int64_t now = core::to_unix_ms(clock_.now()) / 1000;
  auto checked = wire::check_sigv4(request, call.claim, signer->secret, hash, now);
  if (!checked) co_return std::unexpected(refused(checked.error()));
  call.signing_key = wire::sigv4_signing_key(signer->secret, call.claim);
  call.caller = std::move(signer->caller);
  if (call.caller.session) {
    auto role = roles_.admit(call.caller);
    if (!role) co_return std::unexpected(ended_session());
    call.role = *std::move(role);
  }
  call.exchange.note_caller(true);
  co_return AwsResult<>();
}

net::Task<void> AwsApi::handle(net::HttpExchange& exchange, net::Target target) {
  const net::HttpRequest& http = exchange.request();
  const wire::SigV4Request request{http.method, http.target, http.authority, http.headers};
  auto claim = wire::read_sigv4(request);
  AwsService& service = service_for(claim ? claim->service : "", target);
  AwsCall call{.exchange = exchange,
               .target = std::move(target),
               .caller = {},
               .role = nullptr,
               .claim = claim ? *claim : wire::SigV4Claim{},
               .signing_key = {},
               .request_id = core::new_uuid(),
               .body = {},
               .deadline = Deadline::in(kCallDeadline)};
  AwsResult<> done = claim ? AwsResult<>() : AwsResult<>(std::unexpected(refused(claim.error())));
  if (claim && !services_.contains(claim->service)) {
    done = std::unexpected(AwsError(
        AuthFailure::malformed,
        "Credential is scoped to the service '" + claim->service + "', which is not served here"));
  }
  const obs::Exceptions exceptions(log_, metrics_);
  if (done) done = co_await caught(admit(service, request, call), exceptions, "aws");
  if (done) done = co_await caught(service.handle(call), exceptions, "aws");
  if (done) co_return;

  const AwsError& error = done.error();
  if (error.error.code == Code::internal || error.error.code == Code::corrupt)
    log_.error("aws", {{"service", call.claim.service}, {"error", error.error.text()}});
  if (error.auth) exchange.note_caller(false);
  if (exchange.started()) co_return;
  AwsReply reply = service.render(error, call.request_id);
  metrics_.add("firebreak_aws_errors_total", obs::label("status", std::to_string(reply.status)));
  if (http.method == "HEAD") reply.body.clear();
  (void)co_await exchange.reply(reply.status, std::move(reply.headers), std::move(reply.body),
                                Deadline::in(kReplyDeadline));
}

}  // namespace firebreak::api
