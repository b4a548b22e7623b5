// The native API around a fake host, with a key of each kind. One thread; test code only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/fake_exchange_test_support.h"
#include "api/native/native_api.h"
#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::api {

class UnusedTokens final : public ingress::EndpointTokens {
 public:
  net::Task<Result<ingress::IssuedToken>> issue(core::TenantId, core::MicrovmId,
                                                ingress::TokenRequest) override {
    co_return fail(Code::unavailable, "not in this test");
  }
  net::Task<Result<std::vector<core::AccessToken>>> list(core::TenantId, core::MicrovmId) override {
    co_return fail(Code::unavailable, "not in this test");
  }
  net::Task<Result<>> revoke(core::TenantId, core::MicrovmId, core::TokenId) override {
    co_return fail(Code::unavailable, "not in this test");
  }
};

class NativeWorld : public control::FakeWorld {
 protected:
  NativeWorld() {
    const core::TenantLimits none{.microvms = 0, .images = 0, .launches_per_second = 1'000'000};
    const auto tenant = control::run_task(io_, keys_.create_tenant("a", none));
    const auto other = control::run_task(io_, keys_.create_tenant("b", none));
    EXPECT_TRUE(tenant && other);
    other_ = other->id.str();
    using enum core::KeyKind;
    for (const core::KeyKind kind :
         {owner, core::KeyKind::agent, approver, auditor, administrator}) {
      const auto made = control::run_task(
          io_, keys_.issue(tenant->id, "k", kind, kind == core::KeyKind::agent ? "x" : ""));
      EXPECT_TRUE(made) << made.error().text();
      api_keys_[kind] = made->api_key;
    }
  }

  // The path of a route, with something in each of its places.
  std::string path_of(const Route& route) const {
    std::string path = route.pattern;
    for (auto at = path.find('{'); at != std::string::npos; at = path.find('{')) {
      const auto end = path.find('}', at);
      const std::string name = path.substr(at, end - at + 1);
      path.replace(at, name.size(), name == "{tenant}" ? other_ : "x");
    }
    return path;
  }

  struct Said {
    int status = 0;
    std::string text;
  };
  Said ask(core::KeyKind kind, const std::string& method, const std::string& target,
           const std::string& body) {
    FakeExchange exchange(method, target, body);
    exchange.head().headers.push_back({"authorization", "Bearer " + api_keys_.at(kind)});
    const auto answer = [&]() -> net::Task<bool> {
      co_await api_.handle(exchange, *net::parse_target(target));
      co_return true;
    };
    (void)control::run_task(io_, answer());
    return {exchange.status, exchange.answer};
  }

  std::string other_;  // an account
  std::map<core::KeyKind, std::string> api_keys_;
  control::KeyRing keys_{*db_, clock_, wire::SealingKey{}};
  control::Supervisor supervisor_{*services_};
  control::Images images_{*services_, supervisor_.pool(), "", {}, dir_ + "/builds"};
  std::unique_ptr<image::LayerCache> layers_ = *image::LayerCache::open(dir_ + "/layers");
  std::unique_ptr<image::CacheMounts> mounts_ = *image::CacheMounts::open(dir_ + "/mounts");
  net::asio::thread_pool pool_{1};
  control::Builds builds_{
      *services_, images_, supervisor_.egress(), supervisor_.capacity(), *layers_,
      *mounts_,   pool_,   {.directory = dir_}};
  UnusedTokens tokens_;
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
};

}  // namespace firebreak::api
