// The store as tasks use it: transactions that a task holds, others that wait for it, readers that
// do not. Two Databases on one file are two servers.
#include "store/database.h"

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/sys.h"
#include "store/conformance.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::store {
namespace {

namespace fs = std::filesystem;

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest() {
    fs::create_directories(directory_);
    auto store = open_sqlite_store({.path = directory_ / "store.db"});
    EXPECT_TRUE(store) << store.error().text();
    auto another = (*store)->connect();
    EXPECT_TRUE(another) << another.error().text();
    db_.emplace(io_.get_executor(), *std::move(store));
    other_.emplace(io_.get_executor(), *std::move(another));
  }
  ~DatabaseTest() override {
    db_.reset();
    other_.reset();
    fs::remove_all(directory_);
  }

  static Deadline soon() { return Deadline::in(std::chrono::seconds(20)); }

  void spawn(std::function<net::Task<void>()> task) {
    ++running_;
    net::asio::co_spawn(io_, std::move(task), [this](const std::exception_ptr& thrown) {
      --running_;
      if (thrown) std::rethrow_exception(thrown);
    });
  }
  // Until all have ended.
  void finish() {
    const Deadline deadline = soon();
    while (running_ > 0 && !deadline.passed()) {
      io_.restart();
      io_.run_one_for(std::chrono::seconds(1));
    }
    EXPECT_EQ(running_, 0);
  }
  static net::Task<Result<>> add(Database& db, int n) {
    co_return co_await db.run([n](Store& store) { return store.create_tenant(sample_tenant(n)); });
  }
  static net::Task<std::size_t> count(Database& db) {
    auto all = co_await db.run([](const Store& store) { return store.list_tenants(); });
    EXPECT_TRUE(all) << all.error().text();
    co_return all ? all->size() : 999;
  }

  fs::path directory_ = fs::temp_directory_path() / ("database-" + sys::random_hex(8));
  net::asio::io_context io_;
  std::optional<Database> db_;
  std::optional<Database> other_;
  int running_ = 0;
};

TEST_F(DatabaseTest, WhatFailedInOneGoIsUndoneWhole) {
  spawn([this]() -> net::Task<void> {
    const auto done = co_await db_->run([](Store& store) -> Result<> {
      FB_TRY(store.create_tenant(sample_tenant(1)));
      return store.create_tenant(sample_tenant(1));
    });
    EXPECT_EQ(code_of(done), Code::conflict);
    EXPECT_EQ(co_await count(*db_), 0U);
  });
  finish();
}

TEST_F(DatabaseTest, OthersWaitForTheOneWhoHoldsATransactionAndReadersDoNot) {
  std::string order;
  net::Event begun(io_.get_executor());
  bool holds = false;
  spawn([&]() -> net::Task<void> {
    auto held = co_await db_->begin(soon());
    EXPECT_TRUE(held);
    holds = true;
    begun.notify();
    const auto one =
        co_await held->run([](Store& store) { return store.create_tenant(sample_tenant(1)); });
    EXPECT_TRUE(one);
    EXPECT_EQ(co_await count(*db_), 0U);
    EXPECT_EQ(co_await count(*other_), 0U);
    const auto own = co_await held->run([](Store& store) { return store.list_tenants(); });
    EXPECT_EQ(own->size(), 1U);
    order += "held ";
    EXPECT_TRUE(co_await held->commit(soon()));
  });
  for (Database* db : {&*db_, &*other_}) {
    spawn([&, db]() -> net::Task<void> {
      while (!holds) (void)co_await begun.wait(soon());
      EXPECT_TRUE(co_await add(*db, db == &*db_ ? 2 : 3));
      order += "waited ";
    });
  }
  finish();
  EXPECT_EQ(order, "held waited waited ");
  spawn([this]() -> net::Task<void> { EXPECT_EQ(co_await count(*db_), 3U); });
  finish();
}

TEST_F(DatabaseTest, ATransactionThatIsDestroyedIsUndone) {
  spawn([this]() -> net::Task<void> {
    {
      auto held = co_await db_->begin(soon());
      EXPECT_TRUE(held);
      const auto one =
          co_await held->run([](Store& store) { return store.create_tenant(sample_tenant(1)); });
      EXPECT_TRUE(one);
    }
    EXPECT_TRUE(co_await add(*db_, 2));
    EXPECT_EQ(co_await count(*db_), 1U);
    EXPECT_TRUE(co_await add(*other_, 1));
  });
  finish();
}

TEST_F(DatabaseTest, WaitingForAnotherEndsAtTheDeadline) {
  spawn([this]() -> net::Task<void> {
    auto held = co_await db_->begin(soon());
    EXPECT_TRUE(held);
    for (Database* db : {&*db_, &*other_}) {
      const auto refused = co_await db->begin(Deadline::in(std::chrono::milliseconds(20)));
      EXPECT_EQ(code_of(refused), Code::timeout);
    }
    EXPECT_TRUE(co_await db_->sync());
    EXPECT_TRUE(co_await held->commit(soon()));
    auto next = co_await other_->begin(soon());
    EXPECT_TRUE(next);
    EXPECT_TRUE(co_await next->commit(soon()));
  });
  finish();
}

TEST_F(DatabaseTest, TwoServersLoseNothing) {
  constexpr int kEach = 10;
  spawn([this]() -> net::Task<void> { EXPECT_TRUE(co_await add(*db_, 1)); });
  finish();
  const auto raise = [](Store& store) -> Result<> {
    FB_TRY_ASSIGN(auto tenant, store.find_tenant(sample_tenant(1).id));
    ++tenant->limits.images;
    return store.set_limits(tenant->id, tenant->limits);
  };
  for (Database* db : {&*db_, &*other_}) {
    for (int n = 0; n < kEach; ++n) {
      spawn([&raise, db]() -> net::Task<void> {
        const auto done = co_await db->run(raise);
        EXPECT_TRUE(done) << done.error().text();
      });
    }
  }
  finish();
  spawn([this]() -> net::Task<void> {
    const auto tenant = co_await db_->run(
        [](const Store& store) { return store.find_tenant(sample_tenant(1).id); });
    EXPECT_EQ((*tenant)->limits.images, sample_tenant(1).limits.images + (2 * kEach));
  });
  finish();
}

// A server that is stopped destroys its tasks after its store.
TEST_F(DatabaseTest, ATaskMayOutliveItWithATransaction) {
  net::Event never(io_.get_executor());
  spawn([&]() -> net::Task<void> {
    auto held = co_await db_->begin(soon());
    EXPECT_TRUE(held);
    (void)co_await held->run([](Store& store) { return store.create_tenant(sample_tenant(1)); });
    --running_;
    (void)co_await never.wait(Deadline::in(std::chrono::hours(1)));
  });
  finish();
  db_.reset();
  spawn([this]() -> net::Task<void> { EXPECT_EQ(co_await count(*other_), 0U); });
  finish();
}

}  // namespace
}  // namespace firebreak::store
