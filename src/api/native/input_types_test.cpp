// Every call of the native API with values of wrong types in every place of its body and its query,
// against the handlers themselves: a caller's mistake is told, and is never a failure of the
// server's. The calls and their members come from the tables that the API itself uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/fake_exchange_test_support.h"
#include "api/native/fields.h"
#include "api/native/native_api.h"
#include "api/wrong_json_test_support.h"
#include "base/text.h"
#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::api {
namespace {

class NoTokens final : public ingress::EndpointTokens {
 public:
  net::Task<Result<ingress::IssuedToken>> issue(core::TenantId, core::MicrovmId,
                                                ingress::TokenRequest) override {
    co_return none();
  }
  net::Task<Result<std::vector<core::AccessToken>>> list(core::TenantId, core::MicrovmId) override {
    co_return none();
  }
  net::Task<Result<>> revoke(core::TenantId, core::MicrovmId, core::TokenId) override {
    co_return none();
  }

 private:
  static std::unexpected<Error> none() { return fail(Code::not_found, "there is no such microVM"); }
};

json::value sample(const Field& field) {
  const std::string_view type = field.type.substr(0, field.type.find('|'));
  const auto members = [&field] {
    json::object out;
    for (const Field& member : field.members) out[member.name] = sample(member);
    return out;
  };
  const auto element = [&field]() -> json::value {
    return sample({.name = "", .type = field.of.empty() ? "string" : field.of, .about = ""});
  };
  if (type == "integer") return 1;
  if (type == "boolean") return true;
  if (type == "array")
    return json::array{field.members.empty() ? element() : json::value(members())};
  if (type == "object") return field.members.empty() ? json::object{{"a", element()}} : members();
  return "x";
}

class NativeInputs : public control::FakeWorld {
 protected:
  NativeInputs() {
    // It may have neither microVMs nor images: nothing is started, however right the request is.
    const core::TenantLimits none{.microvms = 0, .images = 0, .launches_per_second = 1'000'000};
    const auto tenant = control::run_task(io_, keys_.create_tenant("a", none));
    const auto other = control::run_task(io_, keys_.create_tenant("b", none));
    EXPECT_TRUE(tenant && other);
    other_ = other->id.str();
    const auto key =
        control::run_task(io_, keys_.issue(tenant->id, "k", core::KeyKind::administrator));
    EXPECT_TRUE(key);
    api_key_ = key->api_key;
  }

  std::string path_of(const Route& route) const {
    std::string path = route.pattern;
    for (auto at = path.find('{'); at != std::string::npos; at = path.find('{')) {
      const auto end = path.find('}', at);
      const std::string name = path.substr(at, end - at + 1);
      path.replace(at, name.size(), name == "{tenant}" ? other_ : "x");
    }
    return path;
  }

  void expect_told(const std::string& method, const std::string& target, const std::string& body) {
    FakeExchange exchange(method, target, body);
    exchange.head().headers.push_back({"authorization", "Bearer " + api_key_});
    const auto answer = [&]() -> net::Task<bool> {
      co_await api_.handle(exchange, *net::parse_target(target));
      co_return true;
    };
    (void)control::run_task(io_, answer());
    const std::string sent = method + " " + target + " " + body.substr(0, 1000);
    EXPECT_NE(exchange.status, 0) << sent;
    EXPECT_NE(exchange.status, 401) << sent;
    EXPECT_NE(exchange.status, 500) << sent << "\n" << exchange.answer;
    if (exchange.status >= 400) EXPECT_TRUE(parse_json_object(exchange.answer)) << sent;
  }

  control::KeyRing keys_{*db_, clock_, wire::SealingKey{}};
  control::Supervisor supervisor_{*services_};
  control::Images images_{*services_, supervisor_.pool(), "", {}, dir_ + "/builds"};
  std::unique_ptr<image::LayerCache> layers_ = *image::LayerCache::open(dir_ + "/layers");
  std::unique_ptr<image::CacheMounts> mounts_ = *image::CacheMounts::open(dir_ + "/mounts");
  net::asio::thread_pool pool_{1};
  control::Builds builds_{
      *services_, images_, supervisor_.egress(), supervisor_.capacity(), *layers_,
      *mounts_,   pool_,   {.directory = dir_}};
  NoTokens tokens_;
  ingress::EndpointAddress endpoints_;
  session::Guests guests_{supervisor_};
  std::unique_ptr<session::SandboxMachines> machines_ =
      session::make_sandbox_machines(supervisor_, guests_);
  session::Sandboxes sandboxes_{*services_, *machines_};
  control::SecretBook secrets_{*db_, clock_, wire::SealingKey{}};
  NativeApi api_{supervisor_,
                 guests_,
                 sandboxes_,
                 keys_,
                 secrets_,
                 images_,
                 builds_,
                 pool_,
                 tokens_,
                 endpoints_,
                 [](bool) -> net::Task<Result<control::CheckReport>> {
                   co_return fail(Code::unavailable, "not in this test");
                 }};
  std::string api_key_;
  std::string other_;
};

TEST_F(NativeInputs, AWrongTypeAnywhereInABodyIsTheCallersMistake) {
  std::size_t calls = 0;
  for (const Route& route : api_.router().routes()) {
    const CallFields& fields = fields_of(route.method, route.pattern);
    if (fields.body.empty()) continue;
    ++calls;
    json::object body;
    for (const Field& field : fields.body) body[field.name] = sample(field);
    for (const std::string& wrong : wrong_values())
      for (const std::string& sent : with_each_replaced(body, wrong))
        expect_told(route.method, path_of(route), sent);
  }
  EXPECT_GT(calls, 15U);
}

TEST_F(NativeInputs, AWrongQueryIsTheCallersMistake) {
  for (const Route& route : api_.router().routes()) {
    // These wait for what happens next, or for a WebSocket.
    if (route.pattern.ends_with("/events") || route.pattern.ends_with("/pty") ||
        route.pattern.ends_with("/tunnel"))
      continue;
    const CallFields& fields = fields_of(route.method, route.pattern);
    for (const Field& field : fields.query) {
      for (std::string wrong : wrong_values()) {
        if (wrong.size() > 100) continue;
        std::string target =
            path_of(route) + "?" + std::string(field.name) + "=" + percent_encode(wrong, "");
        for (const Field& more : fields.query)
          if (more.required && more.name != field.name)
            target += "&" + std::string(more.name) + "=x";
        expect_told(route.method, target, "");
      }
    }
  }
}

}  // namespace
}  // namespace firebreak::api
