// Routes of endpoint tokens: issue, list, revoke.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "control/version_config.h"
#include "image/image_config_json.h"

namespace firebreak::api {
namespace {

using ingress::EndpointTokens;

core::MicrovmId id_of(const Call& call) {
  return core::MicrovmId(call.param("id"));
}

json::object to_json(const core::AccessToken& token) {
  json::object object{{"id", token.id.str()},
                      {"kind", core::to_string(token.kind)},
                      {"ports", core::to_text(token.ports)},
                      {"createdAt", core::to_unix_ms(token.created)},
                      {"expiresAt", core::to_unix_ms(token.expires)}};
  if (token.revoked) object["revokedAt"] = core::to_unix_ms(*token.revoked);
  return object;
}

// The first that EXPOSE names in its Dockerfile; 0: none.
std::uint16_t image_port(const control::Supervisor& supervisor, const Call& call) {
  const control::LivePtr vm = supervisor.live().find(call.tenant(), id_of(call));
  if (!vm) return 0;
  const auto config = control::config_of(vm->version());
  return config ? image::first_port(*config) : std::uint16_t{0};
}

// "ports": "8080,9000-9010", 8080, or "*".
Result<core::PortSet> parse_port_member(const json::object& body, std::uint16_t fallback) {
  const json::value* ports = body.if_contains("ports");
  if (ports == nullptr && fallback != 0) return core::parse_ports(std::to_string(fallback));
  if (ports == nullptr)
    return fail(Code::invalid, "ports is missing, and the image exposes none",
                Repair{"name one, as 8080, "
                       "\"8080,9000-9010\" or \"*\""});
  if (ports->is_string()) return core::parse_ports(std::string_view(ports->as_string()));
  return core::parse_ports(json::serialize(*ports));
}

Result<ingress::TokenRequest> parse_token_request(const json::object& body, std::uint16_t exposed) {
  JsonReader reader(body);
  ingress::TokenRequest request;
  request.kind = core::parse_token_kind(reader.string_or("kind", "endpoint"))
                     .value_or(core::TokenKind::endpoint);
  request.life = core::Seconds(reader.u64_or("expiresSeconds", 3600));
  FB_TRY(reader.result());
  if (request.kind == core::TokenKind::shell) {
    if (body.contains("ports")) return fail(Code::invalid, "a shell token has no ports");
    return request;
  }
  FB_TRY_ASSIGN(request.ports, parse_port_member(body, exposed));
  request.port = ingress::port_of_token(request.ports, exposed);
  return request;
}

net::Task<Result<>> issue(const control::Supervisor& supervisor, EndpointTokens& tokens,
                          Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(ingress::TokenRequest request,
                   parse_token_request(body, image_port(supervisor, call)));
  const bool shell = request.kind == core::TokenKind::shell;
  const std::uint16_t port = shell ? ingress::kShellPort : request.port;
  FB_CO_TRY_ASSIGN(const ingress::IssuedToken issued,
                   co_await tokens.issue(call.tenant(), id_of(call), std::move(request)));
  json::object answer = to_json(issued.record);
  answer["token"] = issued.token;
  answer["port"] = port;
  co_return co_await call.reply_json(201, answer);
}

net::Task<Result<>> list(EndpointTokens& tokens, Call& call) {
  FB_CO_TRY_ASSIGN(const auto found, co_await tokens.list(call.tenant(), id_of(call)));
  json::array items;
  for (const core::AccessToken& token : found) items.push_back(to_json(token));
  co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
}

net::Task<Result<>> revoke(EndpointTokens& tokens, Call& call) {
  const core::TokenId id(call.param("token"));
  FB_CO_TRY(co_await tokens.revoke(call.tenant(), id_of(call), id));
  co_return co_await call.reply_json(200, json::object{{"id", id.str()}});
}

}  // namespace

void NativeApi::add_token_routes() {
  EndpointTokens& t = tokens_;
  router_.add({"POST", "/v1/microvms/{id}/tokens", "Token for the endpoint, or for a shell", false,
               Carries::nothing, [&s = supervisor_, &t](Call& call) { return issue(s, t, call); }});
  router_.add({"GET", "/v1/microvms/{id}/tokens", "Tokens that were issued and have not expired",
               false, Carries::nothing, [&t](Call& call) { return list(t, call); }});
  router_.add({"DELETE", "/v1/microvms/{id}/tokens/{token}",
               "Revoke: refused from the next request on", false, Carries::nothing,
               [&t](Call& call) { return revoke(t, call); }});
}

}  // namespace firebreak::api
