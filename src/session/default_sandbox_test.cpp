// Whose default sandboxes are found, shown and ended. They sleep: an engine without guests is
// enough.
#include "session/default_sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"
#include "wire/crypto.h"

namespace firebreak::session {
namespace {

using control::run_task;
using testing::UnorderedElementsAre;

net::Task<bool> to_its_end(net::Task<void> task) {
  co_await std::move(task);
  co_return true;
}

class DefaultSandbox : public control::FakeWorld {
 protected:
  DefaultSandbox() {
    const core::Image image{.id = core::ImageId("image-a"), .tenant = tenant_.id, .name = "a"};
    const core::ImageVersion version{.image = image.id, .number = 1};
    auto made = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(tenant_));
      FB_TRY(store.create_image(image));
      return store.create_version(version);
    }));
    EXPECT_TRUE(made) << made.error().text();
    key_ = add(owner("k1"));
    other_key_ = add(owner("k2"));
    session_ = add(owner("k1", "s1"));
    other_session_ = add(owner("k1", "s2"));
    plain_ = add(std::nullopt);
    supervisor_.emplace(*services_);
    auto started = run_task(io_, supervisor_->start());
    EXPECT_TRUE(started) << started.error().text();
    sandboxes_.emplace(*supervisor_);
  }
  ~DefaultSandbox() override {
    sandboxes_.reset();
    (void)run_task(io_, to_its_end(supervisor_->stop(Deadline::in(std::chrono::seconds(5)))));
    supervisor_.reset();
  }

  SandboxOwner owner(const std::string& key, const std::string& session = "") const {
    return {tenant_, core::KeyId(key), session};
  }

  // A sandbox that sleeps, as an earlier server has left it.
  core::MicrovmId add(const std::optional<SandboxOwner>& of) {
    core::Microvm record;
    record.id = core::new_microvm_id();
    record.tenant = tenant_.id;
    record.endpoint = core::EndpointId(core::new_uuid());
    record.image = core::ImageId("image-a");
    record.image_version = 1;
    record.memory_mib = 512;
    record.intent = core::Intent::launch;
    record.started = record.state_since = clock_.now();
    if (of)
      record.tags["firebreak-default-of"] =
          of->key.str() +
          (of->session.empty() ? "" : "/" + wire::sha256_hex(of->session).substr(0, 32));
    auto created = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY_ASSIGN(const auto made, store.create_microvm(record, core::TenantLimits{}));
      core::Microvm now = made.microvm;
      for (const auto state : {core::MicrovmState::running, core::MicrovmState::suspending,
                               core::MicrovmState::suspended}) {
        FB_TRY_ASSIGN(now, store.change({.id = now.id,
                                         .expected = now.revision,
                                         .state = state,
                                         .intent = core::Intent::none,
                                         .at = clock_.now()}));
      }
      return {};
    }));
    EXPECT_TRUE(created) << created.error().text();
    host_.suspended.insert(record.id.str());
    return record.id;
  }

  core::MicrovmState state_of(const core::MicrovmId& id) {
    auto record = run_task(io_, supervisor_->get(tenant_.id, id));
    EXPECT_TRUE(record) << record.error().text();
    return record ? record->state : core::MicrovmState::pending;
  }

  const core::Tenant tenant_{core::TenantId("tenant-a"), "a", {}, {}};
  core::MicrovmId key_, other_key_, session_, other_session_, plain_;
  std::optional<control::Supervisor> supervisor_;
  std::optional<DefaultSandboxes> sandboxes_;
};

TEST_F(DefaultSandbox, EachOwnerFindsItsOwnAgainAfterARestart) {
  const auto find = [&](const SandboxOwner& of) { return run_task(io_, sandboxes_->find(of)); };
  EXPECT_EQ(find(owner("k1")), key_);
  EXPECT_EQ(find(owner("k2")), other_key_);
  EXPECT_EQ(find(owner("k1", "s1")), session_);
  EXPECT_EQ(find(owner("k1", "s2")), other_session_);
  const auto none = find(owner("k3"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found);
}

TEST_F(DefaultSandbox, OwnersSeeTheirOwnAndThePlainOnes) {
  auto listed = run_task(io_, sandboxes_->list(owner("k1", "s1"), ""));
  ASSERT_TRUE(listed) << listed.error().text();
  std::vector<core::MicrovmId> ids;
  for (const core::Microvm& microvm : listed->sandboxes) ids.push_back(microvm.id);
  EXPECT_THAT(ids, UnorderedElementsAre(session_, plain_));
  EXPECT_TRUE(run_task(io_, sandboxes_->resolve(owner("k1", "s1"), plain_.str())));
  EXPECT_TRUE(run_task(io_, sandboxes_->resolve(owner("k1", "s1"), session_.str())));
  for (const core::MicrovmId& id : {key_, other_key_, other_session_})
    EXPECT_FALSE(run_task(io_, sandboxes_->resolve(owner("k1", "s1"), id.str())));
}

TEST_F(DefaultSandbox, TheEndOfASessionEndsItsSandboxAlone) {
  EXPECT_TRUE(run_task(io_, to_its_end(sandboxes_->end(owner("k1", "s1")))));
  EXPECT_EQ(state_of(session_), core::MicrovmState::terminated);
  for (const core::MicrovmId& id : {key_, other_key_, other_session_, plain_})
    EXPECT_EQ(state_of(id), core::MicrovmState::suspended);
}

TEST_F(DefaultSandbox, ASessionThatNobodyUsesIsEndedAfterItsTime) {
  for (const auto& of : {owner("k1"), owner("k1", "s1"), owner("k1", "s2")})
    EXPECT_TRUE(run_task(io_, sandboxes_->find(of)));
  clock_.pass(std::chrono::minutes(59));
  sandboxes_->touch(owner("k1", "s2"));
  clock_.pass(std::chrono::minutes(2));
  EXPECT_TRUE(run_task(io_, to_its_end(sandboxes_->sweep())));
  EXPECT_EQ(state_of(session_), core::MicrovmState::terminated);
  EXPECT_EQ(state_of(other_session_), core::MicrovmState::suspended);
  EXPECT_EQ(state_of(key_), core::MicrovmState::suspended);
}

}  // namespace
}  // namespace firebreak::session
