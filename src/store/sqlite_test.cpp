#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "store/conformance.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::store {
namespace {

namespace fs = std::filesystem;
using enum core::MicrovmState;
using testing::AllOf;
using testing::HasSubstr;

class SqliteFile : public testing::Test {
 protected:
  SqliteFile() { fs::create_directories(directory_); }
  ~SqliteFile() override { fs::remove_all(directory_); }

  Result<std::unique_ptr<Store>> open() { return open_sqlite_store({.path = path_}); }
  // Opened behind the store's back.
  std::unique_ptr<Connection> raw() {
    auto db = Connection::open(path_, "");
    EXPECT_TRUE(db) << db.error().text();
    return db ? *std::move(db) : nullptr;
  }
  void fill(std::string_view name = "t") {
    auto store = open();
    ASSERT_TRUE(store) << store.error().text();
    auto tenant = sample_tenant(1);
    tenant.name = name;
    ASSERT_DONE((*store)->create_tenant(tenant));
  }

  fs::path directory_ = fs::temp_directory_path() / ("sqlite-" + sys::random_hex(8));
  std::string path_ = directory_ / "store.db";
};

// TW-27: not by the server's own connection, nor by any other program.
TEST_F(SqliteFile, TW27_RecordsOfCallsAreNeitherChangedNorRemoved) {
  fill();
  {
    ASSERT_VALUE(auto store, open());
    core::Invocation call;
    call.id = core::InvocationId("invocation-1");
    call.tenant = sample_tenant(1).id;
    call.started = at(0);
    call.expires = at(3600);
    ASSERT_DONE(store->add_invocation(call, std::nullopt));
  }
  const auto db = raw();
  EXPECT_THAT(db->script("UPDATE sandbox_invocations SET exit_status = 'ok'").error().text(),
              HasSubstr("never changed"));
  EXPECT_THAT(db->script("DELETE FROM sandbox_invocations").error().text(),
              HasSubstr("kept until they expire"));
  EXPECT_THAT(db->script("INSERT OR REPLACE INTO sandbox_invocations SELECT * FROM "
                         "sandbox_invocations")
                  .error()
                  .text(),
              HasSubstr("never replaced"));
  EXPECT_EQ(db->number("SELECT count(*) FROM sandbox_invocations WHERE exit_status = 'error'"), 1);
}

TEST_F(SqliteFile, ReopeningKeepsAll) {
  const core::Tenant tenant = sample_tenant(1);
  core::Microvm microvm = sample_microvm(1, tenant.id);
  {
    ASSERT_VALUE(auto store, open());
    ASSERT_DONE(store->create_tenant(tenant));
    ASSERT_DONE(store->create_key(sample_key(1, tenant.id)));
    ASSERT_DONE(store->create_image(sample_image(1, tenant.id)));
    ASSERT_DONE(store->create_version(sample_version(sample_image(1, tenant.id).id, 1)));
    ASSERT_VALUE(auto made, store->create_microvm(microvm, {}));
    microvm = walk(*store, made.microvm, {running, suspending, suspended});
    ASSERT_DONE(store->save_meters({sample_usage(1, tenant.id)}));
  }
  ASSERT_VALUE(auto store, open());
  ASSERT_VALUE(auto found, store->find_microvm(tenant.id, microvm.id));
  EXPECT_THAT(found, testing::Optional(microvm));
  ASSERT_VALUE(auto key, store->find_key(sample_key(1, tenant.id).id));
  EXPECT_THAT(key, testing::Optional(sample_key(1, tenant.id)));
  ASSERT_VALUE(auto versions, store->all_versions());
  EXPECT_EQ(versions.size(), 1U);
  ASSERT_VALUE(auto meter, store->meter(microvm.id));
  EXPECT_THAT(meter, testing::Optional(sample_usage(1, tenant.id).meter));
  ASSERT_VALUE(auto last, store->last_event());
  EXPECT_EQ(last, 4U);
}

TEST_F(SqliteFile, HasTheSettingsItPromises) {
  fill();
  auto db = raw();
  EXPECT_EQ(db->number("PRAGMA application_id").value_or(0), 0x4642524B);
  EXPECT_EQ(db->number("PRAGMA user_version").value_or(0),
            static_cast<std::int64_t>(migrations().size()));
  ASSERT_VALUE(Statement mode, db->query("PRAGMA journal_mode"));
  ASSERT_VALUE(bool row, mode.step());
  ASSERT_TRUE(row);
  EXPECT_EQ(mode.text(), "wal");
  EXPECT_EQ(db->number("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' "
                       "AND name NOT LIKE 'sqlite_%' AND NOT strict")
                .value_or(-1),
            0);
}

TEST_F(SqliteFile, ASnapshotIsLookedUpByAnIndex) {
  fill();
  auto db = raw();
  ASSERT_VALUE(Statement plan, db->query("EXPLAIN QUERY PLAN SELECT image FROM image_versions "
                                         "WHERE snapshot = ? AND snapshot <> ''",
                                         "s"));
  ASSERT_VALUE(const bool row, plan.step());
  ASSERT_TRUE(row);
  for (int column = 0; column < 3; ++column) (void)plan.text();
  EXPECT_THAT(plan.text(), HasSubstr("image_versions_by_snapshot"));
}

TEST_F(SqliteFile, OnlyItsOwnerCanReadIt) {
  std::ofstream(path_).close();
  fs::permissions(path_, fs::perms(0644));
  ASSERT_VALUE(auto store, open());
  ASSERT_DONE(store->create_tenant(sample_tenant(1)));
  int files = 0;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_EQ(entry.status().permissions(), fs::perms(0600)) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 4);  // database, log, its index, lock
}

TEST_F(SqliteFile, ASecondServerIsRefused) {
  {
    ASSERT_VALUE(auto first, open());
    auto second = open();
    EXPECT_EQ(code_of(second), Code::conflict);
    EXPECT_THAT(second.error().message, AllOf(HasSubstr(path_), HasSubstr("another server")));
  }
  EXPECT_TRUE(open());
}

TEST_F(SqliteFile, TheFileIsFreeWhenItsLastConnectionIsClosed) {
  ASSERT_VALUE(auto first, open());
  ASSERT_VALUE(auto second, first->connect());
  first.reset();
  EXPECT_EQ(code_of(open()), Code::conflict);
  ASSERT_DONE(second->create_tenant(sample_tenant(1)));
  second.reset();
  EXPECT_TRUE(open());
}

TEST_F(SqliteFile, AMissingDirectoryIsSaid) {
  auto opened = open_sqlite_store({.path = directory_ / "no" / "store.db"});
  EXPECT_EQ(code_of(opened), Code::not_found);
  EXPECT_THAT(opened.error().message, HasSubstr("store.db.lock"));
}

TEST_F(SqliteFile, ANewerStoreIsRefused) {
  fill();
  ASSERT_DONE(raw()->script("PRAGMA user_version = 99"));
  auto opened = open();
  EXPECT_EQ(code_of(opened), Code::corrupt);
  EXPECT_THAT(
      opened.error().message,
      AllOf(HasSubstr("has version 99"), HasSubstr("up to " + std::to_string(migrations().size())),
            HasSubstr("start the newer program")));
}

TEST_F(SqliteFile, AChangedMigrationIsRefused) {
  fill();
  ASSERT_DONE(raw()->script("UPDATE schema_migrations SET checksum = 'x' WHERE number = 1"));
  auto opened = open();
  EXPECT_EQ(code_of(opened), Code::corrupt);
  EXPECT_THAT(opened.error().message, HasSubstr("another migration 1"));
}

TEST_F(SqliteFile, AMissingMigrationIsRefused) {
  fill();
  ASSERT_DONE(raw()->script("DELETE FROM schema_migrations"));
  EXPECT_EQ(code_of(open()), Code::corrupt);
}

TEST_F(SqliteFile, WhatIsNoDatabaseIsRefused) {
  std::ofstream(path_) << std::string(10'000, 'x');
  auto opened = open();
  EXPECT_EQ(code_of(opened), Code::corrupt);
  EXPECT_THAT(opened.error().message, HasSubstr("not a database"));
}

TEST_F(SqliteFile, AnotherProgramsDatabaseIsLeftAlone) {
  ASSERT_DONE(raw()->script("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)"));
  ASSERT_VALUE(const std::string before, sys::read_file(path_));
  auto opened = open();
  EXPECT_EQ(code_of(opened), Code::corrupt);
  EXPECT_THAT(opened.error().message, HasSubstr("another program"));
  ASSERT_VALUE(const std::string after, sys::read_file(path_));
  EXPECT_EQ(before, after);
}

TEST_F(SqliteFile, DamageIsFoundAndNeverCrashes) {
  fill(std::string(100'000, 'n'));
  ASSERT_VALUE(const std::string whole, sys::read_file(path_));
  int found = 0;
  for (std::size_t page = 0; page < whole.size(); page += 4096) {
    std::string damaged = whole;
    damaged.replace(page, 4096, std::string(4096, '\xA5'));
    std::ofstream(path_, std::ios::trunc | std::ios::binary) << damaged;
    auto opened = open();
    if (opened) continue;  // a page of plain text has no structure to check
    ++found;
    EXPECT_EQ(opened.error().code, Code::corrupt) << opened.error().text();
  }
  EXPECT_GT(found, 10);
}

TEST_F(SqliteFile, AStoreThatEndsEarlyIsFound) {
  fill();
  fs::resize_file(path_, fs::file_size(path_) / 2);
  EXPECT_EQ(code_of(open()), Code::corrupt);
}

constexpr std::array kThree{
    Migration{"one", "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1);"},
    Migration{"two", "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7;"},
    Migration{"three", "CREATE TABLE b AS SELECT x + y AS z FROM a;"},
};

TEST_F(SqliteFile, MigratesFromEveryOlderVersion) {
  for (std::size_t old = 0; old <= kThree.size(); ++old) {
    fs::remove(path_);
    auto db = raw();
    ASSERT_DONE(migrate(*db, std::span(kThree).first(old)));
    ASSERT_DONE(migrate(*db, kThree));
    EXPECT_EQ(db->number("SELECT z FROM b").value_or(0), 8) << old;
    EXPECT_EQ(db->number("PRAGMA user_version").value_or(0), 3);
    ASSERT_DONE(migrate(*db, kThree));
    EXPECT_EQ(code_of(migrate(*db, std::span(kThree).first(2))), Code::corrupt);
  }
}

TEST_F(SqliteFile, TheProgramsOwnMigrationsApplyOneByOne) {
  auto db = raw();
  for (std::size_t n = 0; n <= migrations().size(); ++n) {
    ASSERT_DONE(migrate(*db, migrations().first(n)));
  }
  db.reset();
  EXPECT_TRUE(open());
}

// A store of a server that knew one engine, with an image, a microVM and an event in it.
TEST_F(SqliteFile, OldRowsAreOfTheFirstEngineAndGetTheClassOfTheHost) {
  const auto all = migrations();
  const auto before = std::ranges::find(all, std::string_view("engines"), &Migration::name);
  ASSERT_NE(before, all.end());
  {
    auto db = raw();
    ASSERT_DONE(migrate(*db, all.first(static_cast<std::size_t>(before - all.begin()))));
    ASSERT_DONE(db->script(R"sql(
INSERT INTO tenants (id, name, limits, created) VALUES ('t', 't', '{}', 1);
INSERT INTO images (id, tenant, name, state, tags, created)
  VALUES ('image-1', 't', 'i', 'CREATED', '{}', 1);
INSERT INTO image_versions (image, number, state, active, state_reason, memory_mib, hooks, env,
  snapshot, config, created) VALUES ('image-1', 1, 'SUCCESSFUL', 1, '', 512, '{}', '{}', 's', '', 1);
INSERT INTO microvms (id, tenant, endpoint, image, image_name, image_version, memory_mib, state,
  intent, state_reason, payload, generation, parent, client_token, request_hash, tags, config,
  started, state_since, revision) VALUES ('microvm-1', 't', 'e', 'image-1', 'i', 1, 512,
  'SUSPENDED', 'none', '', '', 1, '', '', '', '{}', '', 1, 1, 1);
INSERT INTO events (at, tenant, microvm, from_state, to_state, reason)
  VALUES (1, 't', 'microvm-1', 'PENDING', 'PENDING', '');
)sql"));
  }
  ASSERT_VALUE(auto store, open());
  const core::TenantId tenant("t");
  const auto expect = [&](core::Isolation isolation) {
    ASSERT_VALUE(const auto version, store->find_version(core::ImageId("image-1"), 1));
    ASSERT_VALUE(const auto microvm, store->find_microvm(tenant, core::MicrovmId("microvm-1")));
    ASSERT_VALUE(const auto events, store->events(tenant, std::nullopt, 0, 10));
    ASSERT_TRUE(version && microvm && events.size() == 1);
    EXPECT_EQ(version->engine, "qemu");
    EXPECT_EQ(microvm->engine, "qemu");
    EXPECT_EQ(events[0].engine, "qemu");
    EXPECT_EQ(version->isolation, isolation);
    EXPECT_EQ(microvm->isolation, isolation);
    EXPECT_EQ(events[0].isolation, isolation);
  };
  expect(core::Isolation::emulated);  // the least, until the server has said it
  ASSERT_DONE(store->record_isolation("other", core::Isolation::userspace_kernel));
  expect(core::Isolation::emulated);
  ASSERT_DONE(store->record_isolation("qemu", core::Isolation::hardware));
  expect(core::Isolation::hardware);
  // Said once: a host that changes later does not change what was.
  ASSERT_DONE(store->record_isolation("qemu", core::Isolation::emulated));
  expect(core::Isolation::hardware);
}

TEST_F(SqliteFile, AMigrationThatFailsLeavesTheOldVersion) {
  auto db = raw();
  ASSERT_DONE(migrate(*db, std::span(kThree).first(1)));
  auto broken = kThree;
  broken[1].sql = "CREATE TABLE half (x INTEGER); SELECT no_such_function();";
  auto failed = migrate(*db, broken);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("migration 2"));
  EXPECT_EQ(db->number("PRAGMA user_version").value_or(0), 1);
  EXPECT_EQ(db->number("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").value_or(-1), 0);
  ASSERT_DONE(migrate(*db, kThree));
}

}  // namespace
}  // namespace firebreak::store
