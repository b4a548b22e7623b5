// Routes of secrets: what is taken out of everything that the tenant's guests send.
#include "api/native/native_api.h"

namespace firebreak::api {
namespace {

json::object to_json(const control::SecretBook::Listed& secret) {
  return {{"name", secret.name}, {"setAt", core::to_unix_ms(secret.set)}};
}

net::Task<Result<>> set_secret(control::SecretBook& secrets, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  JsonReader reader(body);
  std::string value = reader.string("value");
  FB_CO_TRY(reader.result());
  FB_CO_TRY(co_await secrets.set(call.tenant(), call.param("name"), std::move(value)));
  co_return co_await call.reply_json(200, json::object{{"name", call.param("name")}});
}

}  // namespace

void NativeApi::add_secret_routes() {
  control::SecretBook& secrets = secrets_;
  router_.add({"GET", "/v1/secrets", "List the names of secrets; values are never given back",
               false, Carries::nothing, [&secrets](Call& call) -> net::Task<Result<>> {
                 json::array items;
                 for (const auto& secret : secrets.list(call.tenant()))
                   items.push_back(to_json(secret));
                 co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
               }});
  router_.add({"PUT", "/v1/secrets/{name}",
               "Register a secret: it is taken out of what guests send from now on", false,
               Carries::nothing, [&secrets](Call& call) { return set_secret(secrets, call); }});
  router_.add({"DELETE", "/v1/secrets/{name}", "Forget a secret; it is no longer looked for", false,
               Carries::nothing, [&secrets](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY(co_await secrets.remove(call.tenant(), call.param("name")));
                 co_return co_await call.reply_json(200, json::object{});
               }});
}

}  // namespace firebreak::api
