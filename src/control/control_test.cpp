#include <filesystem>
#include <functional>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "base/text.h"
#include "control/app_log.h"
#include "control/build_log.h"
#include "control/host_limits.h"
#include "control/key_ring.h"
#include "control/task_test_support.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ControlTest : public testing::Test {
 protected:
  ControlTest() { std::filesystem::create_directories(dir_); }
  ~ControlTest() override { std::filesystem::remove_all(dir_); }

  // What a task returns.
  template <class T>
  T run(net::Task<T> task) {
    return run_task(io_, std::move(task));
  }

  net::asio::io_context io_;
  std::string dir_ = std::filesystem::temp_directory_path() / ("fb-control-" + sys::random_hex(8));
};

// ---- keys

wire::SealingKey master(int fill) {
  wire::SealingKey key{};
  key.fill(static_cast<std::byte>(fill));
  return key;
}

class Keys : public ControlTest {
 protected:
  Keys() {
    auto store = store::open_sqlite_store({.path = dir_ + "/store.db"});
    EXPECT_TRUE(store) << store.error().text();
    db_.emplace(io_.get_executor(), *std::move(store));
    ring_.emplace(*db_, clock_, master(1));
  }
  core::Tenant tenant(const std::string& name) {
    auto made = run(ring_->create_tenant(name, {}));
    EXPECT_TRUE(made) << made.error().text();
    return made.value_or(core::Tenant{});
  }
  IssuedKey issue(const core::TenantId& tenant, core::KeyKind kind = core::KeyKind::owner) {
    auto issued = run(ring_->issue(tenant, "k", kind));
    EXPECT_TRUE(issued) << issued.error().text();
    return issued.value_or(IssuedKey{});
  }

  core::SystemClock clock_;
  std::optional<store::Database> db_;
  std::optional<KeyRing> ring_;
};

TEST_F(Keys, AnIssuedKeyIsItsTenants) {
  const core::Tenant a = tenant("a");
  const core::Tenant b = tenant("b");
  const IssuedKey of_a = issue(a.id);
  const IssuedKey of_b = issue(b.id, core::KeyKind::administrator);
  const auto caller = ring_->authenticate(of_a.api_key);
  ASSERT_TRUE(caller) << caller.error().text();
  EXPECT_EQ(caller->tenant, a);
  EXPECT_EQ(caller->key, of_a.key);
  EXPECT_FALSE(caller->key.admin());
  EXPECT_TRUE(ring_->authenticate(of_b.api_key)->key.admin());
  EXPECT_THAT(ring_->keys(a.id), ElementsAre(of_a.key));
}

TEST_F(Keys, NothingSecretIsKept) {
  const IssuedKey issued = issue(tenant("a").id);
  EXPECT_NE(issued.key.api_key_hash, issued.api_key);
  EXPECT_THAT(issued.key.sealed_secret, testing::Not(HasSubstr(issued.secret_access_key)));
  ring_.reset();
  db_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
    const auto bytes = sys::read_file(entry.path(), 64UL << 20);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->find(issued.api_key), std::string::npos) << entry.path();
    EXPECT_EQ(bytes->find(issued.secret_access_key), std::string::npos) << entry.path();
  }
}

TEST_F(Keys, AWrongKeyIsRefusedWithoutSayingWhy) {
  const IssuedKey issued = issue(tenant("a").id);
  const auto wrong = ring_->authenticate(issued.api_key + "x");
  const auto none = ring_->authenticate("");
  const auto hash = ring_->authenticate(issued.key.api_key_hash);
  ASSERT_FALSE(wrong || none || hash);
  EXPECT_EQ(wrong.error().code, Code::unauthenticated);
  EXPECT_EQ(wrong.error().message, none.error().message);
  EXPECT_EQ(wrong.error().message, hash.error().message);
}

TEST_F(Keys, ARevokedKeyIsRefusedAtOnceAndAfterARestart) {
  const core::Tenant a = tenant("a");
  const IssuedKey gone = issue(a.id);
  const IssuedKey stays = issue(a.id);
  ASSERT_TRUE(run(ring_->revoke(a.id, gone.key.id)));
  for (int i = 0; i < 2; ++i) {
    const auto refused = ring_->authenticate(gone.api_key);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, ring_->authenticate("").error().message);
    EXPECT_EQ(ring_->signer(gone.key.id.str()).error().code, Code::unauthenticated);
    EXPECT_TRUE(ring_->authenticate(stays.api_key));
    ring_.emplace(*db_, clock_, master(1));
    ASSERT_TRUE(run(ring_->load()));
  }
}

TEST_F(Keys, SessionsEndWithTheirTimeAndWithTheirKey) {
  const core::Tenant a = tenant("a");
  const IssuedKey issued = issue(a.id);
  const RoleSession role{"role", "AROA1", "name", {}};
  auto session = ring_->issue_session(a.id, issued.key.id, role, core::Seconds(900));
  ASSERT_TRUE(session);
  auto signer = ring_->signer(session->access_key_id, session->token);
  ASSERT_TRUE(signer);
  EXPECT_EQ(signer->secret, session->secret_access_key);
  EXPECT_EQ(signer->caller.tenant.id, a.id);
  EXPECT_EQ(signer->caller.key, issued.key);
  EXPECT_EQ(signer->caller.session, role);
  // The token belongs to its id, and neither goes alone.
  EXPECT_EQ(ring_->signer(session->access_key_id).error().code, Code::unauthenticated);
  EXPECT_EQ(ring_->signer("ASIAOTHER", session->token).error().code, Code::unauthenticated);
  EXPECT_EQ(ring_->signer(session->access_key_id, "bm8=").error().code, Code::unauthenticated);
  auto ended = ring_->issue_session(a.id, issued.key.id, role, core::Seconds(-1));
  EXPECT_EQ(ring_->signer(ended->access_key_id, ended->token).error().code, Code::denied);
  ASSERT_TRUE(run(ring_->revoke(a.id, issued.key.id)));
  EXPECT_EQ(ring_->signer(session->access_key_id, session->token).error().code, Code::denied);
}

TEST_F(Keys, SessionsAreMadeByAKeyOfTheirTenantOrForAMicrovm) {
  const core::Tenant a = tenant("a");
  const core::Tenant b = tenant("b");
  const auto code = [this](const core::TenantId& of, const core::KeyId& key, const char* microvm) {
    const RoleSession session{"role", "AROA1", "name", core::MicrovmId(microvm)};
    const auto issued = ring_->issue_session(of, key, session, core::Seconds(900));
    const auto signer = ring_->signer(issued->access_key_id, issued->token);
    return signer ? std::string(signer->caller.tenant.name) : signer.error().message;
  };
  EXPECT_EQ(code(a.id, {}, "microvm-1"), "a");
  EXPECT_EQ(code(a.id, {}, ""), "the session has ended");
  EXPECT_EQ(code(a.id, issue(b.id).key.id, ""), "the session has ended");
  EXPECT_EQ(code(core::TenantId("999999999999"), {}, "microvm-1"), "the session has ended");
}

TEST_F(Keys, AForeignKeyCannotBeRevoked) {
  const core::Tenant a = tenant("a");
  const core::Tenant b = tenant("b");
  const IssuedKey issued = issue(a.id);
  const auto refused = run(ring_->revoke(b.id, issued.key.id));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::not_found);
  EXPECT_TRUE(ring_->authenticate(issued.api_key));
}

TEST_F(Keys, ASignerHasTheSecretThatWasShown) {
  const core::Tenant a = tenant("a");
  const IssuedKey issued = issue(a.id);
  ring_.emplace(*db_, clock_, master(1));
  ASSERT_TRUE(run(ring_->load()));
  const auto signer = ring_->signer(issued.key.id.str());
  ASSERT_TRUE(signer) << signer.error().text();
  EXPECT_EQ(signer->secret, issued.secret_access_key);
  EXPECT_EQ(signer->caller.tenant, a);
  EXPECT_EQ(ring_->signer("AKIANOBODY").error().code, Code::unauthenticated);
}

TEST_F(Keys, AnotherMasterKeyIsDamage) {
  const IssuedKey issued = issue(tenant("a").id);
  ring_.emplace(*db_, clock_, master(2));
  ASSERT_TRUE(run(ring_->load()));
  const auto signer = ring_->signer(issued.key.id.str());
  ASSERT_FALSE(signer);
  EXPECT_EQ(signer.error().code, Code::corrupt);
  EXPECT_TRUE(ring_->authenticate(issued.api_key)) << "bearer keys do not need it";
}

TEST_F(Keys, ARemovedTenantsKeysAreGone) {
  const core::Tenant a = tenant("a");
  const IssuedKey issued = issue(a.id);
  ASSERT_TRUE(run(ring_->remove_tenant(a.id)));
  EXPECT_FALSE(ring_->authenticate(issued.api_key));
  EXPECT_EQ(ring_->tenant(a.id), nullptr);
  EXPECT_THAT(ring_->tenants(), IsEmpty());
  EXPECT_EQ(run(ring_->issue(a.id, "k")).error().code, Code::not_found);
}

TEST_F(Keys, LimitsCountForTheNextRequest) {
  const core::Tenant a = tenant("a");
  const IssuedKey issued = issue(a.id);
  ASSERT_TRUE(run(ring_->set_limits(a.id, {.microvms = 3})));
  EXPECT_EQ(ring_->authenticate(issued.api_key)->tenant.limits.microvms, 3U);
  const core::TenantId nobody(std::string("999999999999"));
  EXPECT_EQ(run(ring_->set_limits(nobody, {})).error().code, Code::not_found);
  EXPECT_EQ(ring_->tenant(nobody), nullptr);
}

// ---- the server's key file

TEST_F(ControlTest, TheMasterKeyIsMadeOnceAndPrivate) {
  const std::string path = dir_ + "/master.key";
  const auto made = load_master_key(path);
  ASSERT_TRUE(made) << made.error().text();
  struct stat st{};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600U);
  EXPECT_EQ(load_master_key(path).value(), *made);
  EXPECT_NE(load_master_key(dir_ + "/other.key").value(), *made);
}

TEST_F(ControlTest, ADamagedMasterKeyIsNotReplaced) {
  const std::string path = dir_ + "/master.key";
  for (const std::string& bytes : {std::string(), std::string(31, 'k'), std::string(33, 'k')}) {
    ASSERT_TRUE(sys::replace_file(path, bytes));
    const auto loaded = load_master_key(path);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::corrupt);
    EXPECT_THAT(loaded.error().message, HasSubstr(path));
    EXPECT_EQ(sys::read_file(path).value(), bytes);
  }
}

// ---- what applications printed

class AppLogTest : public ControlTest {
 protected:
  // All frames as "type:payload".
  std::vector<std::string> frames(const core::MicrovmId& id) {
    std::vector<std::string> list;
    wire::FrameDecoder decoder;
    std::uint64_t position = 0;
    for (;;) {
      const auto bytes = log_.read(id, position);
      if (!bytes || bytes->empty()) break;
      position += bytes->size();
      decoder.feed(*bytes);
      for (auto frame = decoder.next(); frame && *frame; frame = decoder.next())
        list.push_back(std::to_string(static_cast<int>((*frame)->type)) + ":" + (*frame)->payload);
    }
    EXPECT_TRUE(decoder.empty());
    return list;
  }

  AppLog log_{io_.get_executor(), dir_ + "/logs"};
  const core::MicrovmId a_{std::string("microvm-a")};
  const core::MicrovmId b_{std::string("microvm-b")};
};

TEST_F(AppLogTest, GivesBackWhatWasAppended) {
  EXPECT_EQ(log_.read(a_, 0).value(), "") << "nothing was printed yet";
  ASSERT_TRUE(log_.append(a_, wire::FrameType::out, "one\n"));
  ASSERT_TRUE(log_.append(b_, wire::FrameType::out, "other\n"));
  ASSERT_TRUE(log_.append(a_, wire::FrameType::err, "two\n"));
  EXPECT_THAT(frames(a_), ElementsAre("1:one\n", "2:two\n"));
  EXPECT_THAT(frames(b_), ElementsAre("1:other\n"));
  const auto whole = log_.read(a_, 0).value();
  EXPECT_EQ(log_.read(a_, 3).value(), whole.substr(3));
  EXPECT_EQ(log_.read(a_, whole.size() + 5).value(), "");
}

TEST_F(AppLogTest, IsBoundedAndSaysSoOnce) {
  const std::string chunk(1UL << 20, 'x');
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(log_.append(a_, wire::FrameType::out, chunk));
  EXPECT_LE(std::filesystem::file_size(dir_ + "/logs/microvm-a"), AppLog::kMost + 64);
  const auto kept = frames(a_);
  ASSERT_EQ(kept.size(), 8U);
  EXPECT_EQ(kept[6], "1:" + chunk);
  std::string missing;
  put_u64(missing, chunk.size());
  EXPECT_EQ(kept[7], "4:" + missing);
  ASSERT_TRUE(log_.append(b_, wire::FrameType::out, "others go on"));
  EXPECT_THAT(frames(b_), ElementsAre("1:others go on"));
}

TEST_F(AppLogTest, RemembersWhenThingsWerePrinted) {
  EXPECT_THAT(log_.marks(a_).value(), IsEmpty());
  const core::Time before = core::SystemClock().now();
  ASSERT_TRUE(log_.append(a_, wire::FrameType::out, "one\n"));
  ASSERT_TRUE(log_.append(a_, wire::FrameType::out, "two\n"));
  const auto marks = log_.marks(a_).value();
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks[0].position, 0U);
  EXPECT_GE(marks[0].at, before);
  EXPECT_LE(marks[0].at, core::SystemClock().now());
}

TEST_F(AppLogTest, ForgetsFilesOfTheGone) {
  ASSERT_TRUE(log_.append(a_, wire::FrameType::out, "a"));
  ASSERT_TRUE(log_.append(b_, wire::FrameType::out, "b"));
  log_.keep_only([&](const core::MicrovmId& id) { return id == b_; });
  EXPECT_THAT(frames(a_), IsEmpty());
  EXPECT_THAT(log_.marks(a_).value(), IsEmpty());
  EXPECT_THAT(frames(b_), ElementsAre("1:b")) << "it is known";
  EXPECT_EQ(log_.marks(b_).value().size(), 1U);
}

TEST_F(AppLogTest, WakesWhoFollows) {
  bool woken = false;
  net::asio::co_spawn(io_, log_.changed().wait(Deadline::in(5s)),
                      [&](const std::exception_ptr&, bool value) { woken = value; });
  io_.poll();
  ASSERT_TRUE(log_.append(a_, wire::FrameType::out, "x"));
  io_.run();
  EXPECT_TRUE(woken);
}

// ---- limits of a machine's process

TEST_F(ControlTest, BuildLogsThatNoBuildHasAreRemoved) {
  BuildLog log(io_.get_executor(), dir_ + "/builds");
  EXPECT_TRUE(log.keep_only({}));  // nothing was ever printed
  for (const char* build : {"kept", "gone"}) log.append(core::BuildId(build), "text");
  ASSERT_TRUE(log.keep_only({core::BuildId("kept")}));
  EXPECT_EQ(log.read(core::BuildId("kept"), 0), "text");
  EXPECT_EQ(log.read(core::BuildId("gone"), 0), "");
  EXPECT_THAT(*sys::list_dir(dir_ + "/builds"), ElementsAre("kept"));
}

TEST(HostLimitsOfASize, GrowWithTheSize) {
  machine::HostLimits last{.memory_bytes = 0, .cpu_weight = 0, .cpu_percent = 0};
  for (const core::SizeClass& size : core::kSizes) {
    const machine::HostLimits limits = host_limits(size);
    // The guest can fill all it sees without the host ending its process.
    EXPECT_GT(limits.memory_bytes, static_cast<std::uint64_t>(size.peak_memory_mib) << 20);
    EXPECT_EQ(limits.cpu_percent, size.peak_vcpus * 100);
    EXPECT_GE(limits.cpu_weight, 1U);
    EXPECT_LE(limits.cpu_weight, 10'000U) << "what a cgroup takes";
    EXPECT_GT(limits.memory_bytes, last.memory_bytes);
    EXPECT_GT(limits.cpu_weight, last.cpu_weight);
    last = limits;
  }
}

TEST(HostLimitsOfASize, SharesAreThoseOfTheBaselines) {
  const auto small = host_limits(core::kSizes[0]);
  const auto large = host_limits(core::kSizes[4]);
  EXPECT_EQ(large.cpu_weight / small.cpu_weight,
            core::kSizes[4].baseline_millicpu / core::kSizes[0].baseline_millicpu);
}

}  // namespace
}  // namespace firebreak::control
