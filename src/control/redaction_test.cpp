// Secrets of tenants in what their guests send: stored sealed, taken out of every kind of stream.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "control/counting_outlet.h"
#include "control/redacting_outlet.h"
#include "control/task_test_support.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const core::TenantId kOne("111111111111");
const core::TenantId kTwo("222222222222");

class Redaction : public testing::Test {
 protected:
  Redaction() {
    auto store = store::open_sqlite_store({.path = file_, .vfs = ""});
    EXPECT_TRUE(store);
    for (const core::TenantId& id : {kOne, kTwo}) {
      core::Tenant tenant;
      tenant.id = id;
      tenant.name = id.str();
      EXPECT_TRUE((*store)->create_tenant(tenant));
    }
    db_ = std::make_unique<store::Database>(io_.get_executor(), *std::move(store));
    book_ = std::make_unique<SecretBook>(*db_, clock_, key_);
  }
  ~Redaction() override {
    db_.reset();
    for (const char* end : {"", "-wal", "-shm", ".lock"}) ::unlink((file_ + end).c_str());
  }

  Result<> set(const core::TenantId& tenant, const std::string& name, const std::string& value) {
    return run_task(io_, book_->set(tenant, name, value));
  }
  std::string passed(Origin origin, const core::TenantId& tenant, std::string text) {
    return outlet().pass_whole({tenant, core::MicrovmId("microvm-1"), origin}, std::move(text));
  }
  Outlet& outlet() {
    if (!outlet_) outlet_ = std::make_unique<RedactingOutlet>(counted_, *book_, metrics_);
    return *outlet_;
  }

  net::asio::io_context io_;
  std::string file_ =
      std::filesystem::temp_directory_path() / ("firebreak-redaction-" + sys::random_hex(8));
  core::SystemClock clock_;
  wire::SealingKey key_{};
  obs::Metrics metrics_;
  CountingOutlet counted_{metrics_};
  std::unique_ptr<store::Database> db_;
  std::unique_ptr<SecretBook> book_;
  std::unique_ptr<RedactingOutlet> outlet_;
};

TEST_F(Redaction, OfATenantsGuestsAndOfNoOthers) {
  ASSERT_TRUE(set(kOne, "db", "hunter2!"));
  EXPECT_EQ(passed(Origin::exec, kOne, "is hunter2! ok"), "is [redacted:db] ok");
  EXPECT_EQ(passed(Origin::exec, kTwo, "is hunter2! ok"), "is hunter2! ok");
  EXPECT_THAT(metrics_.text(), HasSubstr("firebreak_secrets_redacted_total 1"));
}

TEST_F(Redaction, ByTheNameInTextAndByStarsInFiles) {
  ASSERT_TRUE(set(kOne, "db", "hunter2!"));
  for (const Origin origin :
       {Origin::exec, Origin::terminal, Origin::code, Origin::log, Origin::build, Origin::reason})
    EXPECT_EQ(passed(origin, kOne, "hunter2!"), "[redacted:db]") << to_string(origin);
  for (const Origin origin : {Origin::file, Origin::archive})
    EXPECT_EQ(passed(origin, kOne, "hunter2!"), "********") << to_string(origin);
}

TEST_F(Redaction, AChangeHoldsForTheNextStream) {
  EXPECT_EQ(passed(Origin::exec, kOne, "hunter2!"), "hunter2!");
  ASSERT_TRUE(set(kOne, "db", "hunter2!"));
  ASSERT_TRUE(set(kOne, "db", "hunter3!"));
  EXPECT_EQ(passed(Origin::exec, kOne, "hunter2! hunter3!"), "hunter2! [redacted:db]");
  ASSERT_TRUE(run_task(io_, book_->remove(kOne, "db")));
  EXPECT_EQ(passed(Origin::exec, kOne, "hunter3!"), "hunter3!");
  EXPECT_EQ(run_task(io_, book_->remove(kOne, "db")).error().code, Code::not_found);
}

TEST_F(Redaction, PrivateKeysWithoutBeingRegistered) {
  EXPECT_EQ(
      passed(Origin::exec, kOne, "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nok"),
      "[redacted:private-key]\nok");
}

TEST_F(Redaction, ValuesAreSealedAndComeBackAfterARestart) {
  ASSERT_TRUE(set(kOne, "db", "hunter2-the-value"));
  ASSERT_TRUE(set(kTwo, "api", "0ther-the-value"));
  SecretBook again(*db_, clock_, key_);
  ASSERT_TRUE(run_task(io_, again.load()));
  std::vector<std::string> names;
  for (const auto& listed : again.list(kOne)) names.push_back(listed.name);
  EXPECT_THAT(names, ElementsAre("db"));
  EXPECT_GE(again.matcher(kOne)->longest(), 17U);
  RedactingOutlet outlet(counted_, again, metrics_);
  EXPECT_EQ(outlet.pass_whole({kTwo, {}, Origin::log}, "0ther-the-value"), "[redacted:api]");
  db_.reset();
  for (const char* end : {"", "-wal"})
    EXPECT_THAT(sys::read_file(file_ + end, 64UL << 20).value_or(""), Not(HasSubstr("the-value")));
}

TEST_F(Redaction, WhatWouldBeFoundEverywhereIsRefusedAndNotStored) {
  EXPECT_EQ(set(kOne, "db", "1234").error().reason, "secret_size");
  EXPECT_EQ(set(kOne, "a b", "hunter2!").error().reason, "secret_name");
  EXPECT_THAT(book_->list(kOne), IsEmpty());
}

}  // namespace
}  // namespace firebreak::control
