#include "control/roles.h"

#include <filesystem>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sys.h"
#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using core::MicrovmState;

class SetClock final : public core::Clock {
 public:
  core::Time now() const override { return at; }
  core::Time at = core::from_unix_ms(1'800'000'000'000);
};

const core::RolePolicy kAll{
    {{.sid = "", .allow = true, .actions = {"*"}, .resources = {"*"}, .prefixes = {}}}};

class RolesTest : public testing::Test {
 protected:
  RolesTest() {
    std::filesystem::create_directories(dir_);
    auto store = store::open_sqlite_store({.path = dir_ + "/store.db"});
    EXPECT_TRUE(store) << store.error().text();
    db_.emplace(io_.get_executor(), *std::move(store));
    keys_.emplace(*db_, clock_, wire::SealingKey{});
    open();
    a_ = *run(keys_->create_tenant("a", {}));
    b_ = *run(keys_->create_tenant("b", {}));
  }
  ~RolesTest() override {
    db_.reset();
    std::filesystem::remove_all(dir_);
  }

  // As a new server does.
  void open() {
    roles_.emplace(*db_, clock_, log_, live_, &*keys_, core::Seconds(3300));
    EXPECT_TRUE(run(roles_->load()));
  }

  template <class T>
  T run(net::Task<T> task) {
    return run_task(io_, std::move(task));
  }

  LivePtr live(const std::string& role, MicrovmState state = MicrovmState::running) {
    core::Microvm record;
    record.id = core::new_microvm_id();
    record.tenant = a_.id;
    record.role = role;
    record.state = state;
    auto vm = std::make_shared<LiveMicrovm>(io_.get_executor(), record, core::ImageVersion{},
                                            core::SizeClass{});
    live_.add(vm);
    return vm;
  }

  // Whom the guest's credentials make a caller of; nothing when it has none.
  std::optional<Caller> caller(const json::object& metadata) {
    const json::value* text = metadata.if_contains("credentials");
    if (text == nullptr) return std::nullopt;
    const json::object keys = *parse_json_object(text->as_string());
    auto signer = keys_->signer(std::string(keys.at("AccessKeyId").as_string()),
                                std::string(keys.at("Token").as_string()));
    if (!signer) return std::nullopt;
    EXPECT_EQ(signer->secret, keys.at("SecretAccessKey").as_string());
    return signer->caller;
  }

  std::string dir_ = std::filesystem::temp_directory_path() / ("fb-roles-" + sys::random_hex(8));
  net::asio::io_context io_;
  SetClock clock_;
  obs::Log log_{STDERR_FILENO, obs::LogFormat::text, obs::Level::error};
  std::optional<store::Database> db_;
  std::optional<KeyRing> keys_;
  LiveMicrovms live_;
  std::optional<Roles> roles_;
  core::Tenant a_;
  core::Tenant b_;
};

TEST_F(RolesTest, ARoleIsItsTenantsAlsoAfterARestart) {
  ASSERT_TRUE(run(roles_->put(a_.id, "one", kAll)));
  ASSERT_TRUE(run(roles_->put(a_.id, "two", {})));
  const std::string id = roles_->find(a_.id, "one")->id;
  open();
  ASSERT_TRUE(roles_->find(a_.id, "one"));
  EXPECT_EQ(roles_->find(a_.id, "one")->id, id);
  EXPECT_EQ(roles_->find(a_.id, "one")->policy, kAll);
  EXPECT_EQ(roles_->list(a_.id).size(), 2U);
  EXPECT_FALSE(roles_->find(b_.id, "one"));
  EXPECT_TRUE(roles_->list(b_.id).empty());
  EXPECT_EQ(run(roles_->remove(b_.id, "one")).error().code, Code::not_found);
  EXPECT_EQ(run(roles_->put(a_.id, "no name", {})).error().code, Code::invalid);
}

TEST_F(RolesTest, TheOperatorsRolesAreEverybodysUntilATenantHasItsOwn) {
  roles_->set_common({{"shared", kAll}});
  const std::string id = roles_->find(b_.id, "shared")->id;
  open();
  roles_->set_common({{"shared", kAll}});
  EXPECT_EQ(roles_->find(b_.id, "shared")->id, id);
  EXPECT_EQ(run(roles_->remove(a_.id, "shared")).error().code, Code::conflict);
  ASSERT_TRUE(run(roles_->put(a_.id, "shared", {})));
  EXPECT_NE(roles_->find(a_.id, "shared")->id, id);
  EXPECT_EQ(roles_->list(a_.id).size(), 1U);
  EXPECT_EQ(roles_->find(b_.id, "shared")->id, id);
}

TEST_F(RolesTest, AGuestGetsCredentialsOfItsRoleWithAnEnd) {
  ASSERT_TRUE(run(roles_->put(a_.id, "one", kAll)));
  const LivePtr vm = live("one");
  const json::object metadata = roles_->metadata(*vm);
  EXPECT_EQ(metadata.at("instance_id"), json::value(vm->record().id.str()));
  EXPECT_EQ(metadata.at("role"), json::value("execution_role"));
  const json::object told = *parse_json_object(metadata.at("credentials").as_string());
  EXPECT_EQ(told.at("Code"), json::value("Success"));
  EXPECT_EQ(told.at("Type"), json::value("AWS-HMAC"));
  EXPECT_EQ(told.at("LastUpdated"), json::value("2027-01-15T08:00:00Z"));
  EXPECT_EQ(told.at("Expiration"), json::value("2027-01-15T08:55:00Z"));
  EXPECT_EQ(vm->refresh_at(), clock_.at + core::Seconds(1650));
  const auto who = caller(metadata);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->tenant.id, a_.id);
  EXPECT_EQ(who->session->role, "one");
  EXPECT_EQ(who->session->microvm, vm->record().id);
  EXPECT_EQ((*roles_->admit(*who))->policy, kAll);
  clock_.at += core::Seconds(3300);
  EXPECT_FALSE(caller(metadata));
}

TEST_F(RolesTest, WithoutARoleThereIsOnlyWhoAndWhere) {
  const LivePtr vm = live("");
  const json::object metadata = roles_->metadata(*vm);
  EXPECT_EQ(metadata, (json::object{{"instance_id", vm->record().id.str()},
                                    {"region", "local-1"},
                                    {"account", a_.id.str()}}));
  rewrite(*vm, [](core::Microvm& record) { record.config = R"({"lambda":{},"region":"eu-1"})"; });
  EXPECT_EQ(roles_->metadata(*vm).at("region"), json::value("eu-1"));
  EXPECT_FALSE(roles_->metadata(*live("gone")).contains("role"));
}

TEST_F(RolesTest, CredentialsEndWithTheirMicrovm) {
  ASSERT_TRUE(run(roles_->put(a_.id, "one", kAll)));
  const LivePtr vm = live("one", MicrovmState::pending);
  const auto who = caller(roles_->metadata(*vm));
  ASSERT_TRUE(who);
  for (const MicrovmState state :
       {MicrovmState::pending, MicrovmState::running, MicrovmState::suspended}) {
    rewrite_state(*vm, state);
    EXPECT_TRUE(roles_->admit(*who)) << to_string(state);
  }
  rewrite_state(*vm, MicrovmState::terminating);
  EXPECT_EQ(roles_->admit(*who).error().code, Code::denied);
  vm->set_in_last_hook(true);
  EXPECT_TRUE(roles_->admit(*who));
  live_.remove(vm->record().id);
  EXPECT_EQ(roles_->admit(*who).error().code, Code::denied);
}

TEST_F(RolesTest, APolicyChangesAtOnceAndARoleMadeAgainIsAnother) {
  ASSERT_TRUE(run(roles_->put(a_.id, "one", kAll)));
  const auto who = caller(roles_->metadata(*live("one")));
  ASSERT_TRUE(who);
  ASSERT_TRUE(run(roles_->put(a_.id, "one", {})));
  EXPECT_EQ((*roles_->admit(*who))->policy, core::RolePolicy{});
  ASSERT_TRUE(run(roles_->remove(a_.id, "one")));
  EXPECT_EQ(roles_->admit(*who).error().code, Code::denied);
  ASSERT_TRUE(run(roles_->put(a_.id, "one", kAll)));
  EXPECT_EQ(roles_->admit(*who).error().code, Code::denied);
}

}  // namespace
}  // namespace firebreak::control
