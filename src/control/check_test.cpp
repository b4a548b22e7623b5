#include "control/check.h"

#include <filesystem>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "control/images.h"
#include "control/task_test_support.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uid_t kUid = 700'001;

core::Microvm microvm(const std::string& id, MicrovmState state) {
  core::Microvm made;
  made.id = core::MicrovmId(id);
  made.state = state;
  return made;
}

// A host that holds exactly what the store says: one running, one suspended, one parked clone.
struct Host {
  Expected expected{
      .microvms = {microvm("run", MicrovmState::running), microvm("sus", MicrovmState::suspended)},
      .other_machines = {"parked"},
      .snapshots = {{core::kFirstEngine, "image-1"}},
      .builds = {"build-1"},
      .recorded = {"run", "sus", "ended"}};
  machine::Inventory found{
      .engine = core::kFirstEngine,
      .machines = {{.id = "run", .process = true},
                   {.id = "sus", .suspended = true},
                   {.id = "parked", .parked = true, .process = true}},
      .cgroups = {{.name = "run", .ours = true}, {.name = "parked", .ours = true}},
      .uids = {{kUid, "run"}, {kUid + 1, "sus"}, {kUid + 2, "parked"}},
      .processes = {{.pid = 10, .uid = kUid, .ours = true},
                    {.pid = 12, .uid = kUid + 2, .ours = true}},
      .mounts = {},
      .snapshots = {"image-1"}};
  std::vector<machine::Inventory> others;  // of other engines
  std::vector<std::string> networks{"run", "parked"};
  std::vector<std::string> app_logs{"run", "run.times", "ended", "parked"};
  std::vector<std::string> build_logs{"build-1"};
};

struct Case {
  std::string name;
  std::function<void(Host&)> disturb;
  std::vector<std::string> differences;  // "kind name"
  std::vector<std::string> unclear{};    // the same, of what may be another server's
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Compare : public testing::TestWithParam<Case> {};

TEST_P(Compare, NamesEveryDifference) {
  Host host;
  GetParam().disturb(host);
  std::vector<machine::Inventory> engines{host.found};
  engines.insert(engines.end(), host.others.begin(), host.others.end());
  const CheckReport report =
      compare(host.expected, {std::move(engines), host.networks, host.app_logs, host.build_logs});
  std::vector<std::string> differences;
  std::vector<std::string> unclear;
  for (const Discrepancy& one : report.found) {
    (one.ours ? differences : unclear).push_back(one.kind + " " + one.name);
    EXPECT_FALSE(one.what.empty());
    EXPECT_FALSE(one.repaired);
  }
  EXPECT_THAT(differences, testing::UnorderedElementsAreArray(GetParam().differences));
  EXPECT_THAT(unclear, testing::UnorderedElementsAreArray(GetParam().unclear));
  EXPECT_EQ(report.microvms, static_cast<int>(host.expected.microvms.size()));
  EXPECT_EQ(to_json(report).at("ok").as_bool(), differences.empty());
}

void set_running_intent(Host& host, core::Intent intent) {
  host.expected.microvms[0].intent = intent;
}

const std::vector<Case> kCases{
    {"Nothing", [](Host&) {}, {}},
    {"Empty",
     [](Host& host) {
       host.expected = {};
       host.found = {};
       host.networks = {};
       host.app_logs = {};
       host.build_logs = {};
     },
     {}},

    // What belongs to nobody.
    {"Machine",
     [](Host& host) { host.found.machines.push_back({.id = "lost"}); },
     {"machine lost"}},
    {"SuspendedMachine",
     [](Host& host) { host.found.machines.push_back({.id = "lost", .suspended = true}); },
     {"machine lost"}},
    {"CgroupWithAProcessOfOurs",
     [](Host& host) { host.found.cgroups.push_back({.name = "lost", .ours = true}); },
     {"cgroup lost"}},
    {"EmptyCgroupOfAMicrovmThatEnded",
     [](Host& host) { host.found.cgroups.push_back({.name = "ended"}); },
     {"cgroup ended"}},
    {"EmptyCgroupOfABuild",
     [](Host& host) { host.found.cgroups.push_back({.name = "build-build-1"}); },
     {"cgroup build-build-1"}},
    {"EmptyCgroupOfALease",
     [](Host& host) {
       host.found.uids.push_back({kUid + 9, "lost"});
       host.found.cgroups.push_back({.name = "lost"});
     },
     {"uid 700010", "cgroup lost"}},
    {"EmptyCgroupOfALog",
     [](Host& host) {
       host.app_logs.emplace_back("lost.times");
       host.found.cgroups.push_back({.name = "lost"});
     },
     {"log logs/lost.times", "cgroup lost"}},
    {"Uid", [](Host& host) { host.found.uids.push_back({kUid + 9, "lost"}); }, {"uid 700010"}},
    {"UidOfNobody", [](Host& host) { host.found.uids.push_back({kUid + 9, ""}); }, {"uid 700010"}},
    {"ProcessWithoutLease",
     [](Host& host) { host.found.processes.push_back({.pid = 99, .uid = kUid + 9, .ours = true}); },
     {"process 99"}},
    {"ProcessOfALostLease",
     [](Host& host) {
       host.found.uids.push_back({kUid + 9, "lost"});
       host.found.processes.push_back({.pid = 99, .uid = kUid + 9, .ours = true});
     },
     {"uid 700010", "process 99"}},
    {"Network", [](Host& host) { host.networks.emplace_back("lost"); }, {"network lost"}},
    {"NetworkOfASuspendedOne",
     [](Host& host) { host.networks.emplace_back("sus"); },
     {"network sus"}},
    {"Mount", [](Host& host) { host.found.mounts.emplace_back("/d/m"); }, {"mount /d/m"}},
    {"Snapshot",
     [](Host& host) { host.found.snapshots.emplace_back("image-0"); },
     {"snapshot image-0"}},
    {"SnapshotThatABuildHasNotWrittenYet",
     [](Host& host) { host.expected.coming.insert({core::kFirstEngine, "image-0"}); },
     {}},
    {"SnapshotThatABuildHasWritten",
     [](Host& host) {
       host.expected.coming.insert({core::kFirstEngine, "image-0"});
       host.found.snapshots.emplace_back("image-0");
     },
     {}},
    {"LogOfAMicrovm",
     [](Host& host) {
       host.app_logs.emplace_back("lost");
       host.app_logs.emplace_back("lost.times");
     },
     {"log logs/lost", "log logs/lost.times"}},
    {"LogOfAMicrovmThatWasForgotten",
     [](Host& host) { host.expected.recorded.erase("ended"); },
     {"log logs/ended"}},
    {"LogOfABuild",
     [](Host& host) { host.build_logs.emplace_back("build-0"); },
     {"log builds/build-0"}},
    {"SomethingThatOnlyAnEngineKnows",
     [](Host& host) { host.found.leftovers.push_back({{"kernel", "512-1-old"}, "is old"}); },
     {"kernel 512-1-old"}},
    {"ParkedCloneOfADeadServer",
     [](Host& host) { host.expected.other_machines.clear(); },
     {"machine parked", "cgroup parked", "uid 700003", "process 12", "network parked",
      "log logs/parked"}},
    {"AllOfAMicrovmThatEnded",
     [](Host& host) { host.expected.microvms.erase(host.expected.microvms.begin()); },
     {"machine run", "cgroup run", "uid 700001", "process 10", "network run"}},

    // What is missing.
    {"RunningWithoutMachine",
     [](Host& host) { host.found.machines.erase(host.found.machines.begin()); },
     {"microvm run"}},
    {"RunningButSuspendedOnTheHost",
     [](Host& host) { host.found.machines[0].suspended = true; },
     {"microvm run"}},
    {"RunningWithoutProcesses",
     [](Host& host) { host.found.cgroups.erase(host.found.cgroups.begin()); },
     {"microvm run"}},
    {"RunningAndItsProcessIsGone",
     [](Host& host) { host.found.machines[0].process = false; },
     {"microvm run"}},
    {"SuspendedWithAProcess",
     [](Host& host) { host.found.machines[1].process = true; },
     {"microvm sus"}},
    {"SuspendedWithACgroup",
     [](Host& host) { host.found.cgroups.push_back({.name = "sus"}); },
     {"microvm sus"}},
    {"HalfASuspend",
     [](Host& host) { host.found.machines[0].strays.emplace_back("machines/run/saved.new"); },
     {"file machines/run/saved.new"}},
    {"SocketsOfASuspendedOne",
     [](Host& host) { host.found.machines[1].strays.emplace_back("machines/sus/qmp.sock"); },
     {"file machines/sus/qmp.sock"}},
    {"SuspendedWithoutMachine",
     [](Host& host) { host.found.machines.erase(host.found.machines.begin() + 1); },
     {"microvm sus"}},
    {"SuspendedWithoutState",
     [](Host& host) { host.found.machines[1].suspended = false; },
     {"microvm sus"}},
    {"ImageWithoutSnapshot", [](Host& host) { host.found.snapshots.clear(); }, {"image image-1"}},

    {"BaseOfTwoSnapshots",
     [](Host& host) {
       host.expected.snapshots.insert({core::kFirstEngine, "image-2"});
       host.found.snapshots.emplace_back("image-2");
       host.found.missing_disks = {
           {"image-1", "/b/a.ext4"}, {"image-2", "/b/a.ext4"}, {"stray", "/b/other.ext4"}};
     },
     {"base /b/a.ext4"}},

    // A transition under way may have anything, and is finished by whoever began it.
    {"IntentUnderWay",
     [](Host& host) {
       set_running_intent(host, core::Intent::suspend);
       host.found.machines.erase(host.found.machines.begin());
       host.found.cgroups.clear();
       host.found.cgroups.push_back({.name = "parked", .ours = true});
     },
     {}},
    {"PendingHasNothingYet",
     [](Host& host) { host.expected.microvms.push_back(microvm("new", MicrovmState::pending)); },
     {}},
    {"PendingHasSome",
     [](Host& host) {
       host.expected.microvms.push_back(microvm("new", MicrovmState::pending));
       host.found.uids.push_back({kUid + 9, "new"});
       host.found.processes.push_back({.pid = 99, .uid = kUid + 9, .ours = true});
     },
     {}},

    // Several engines on one data directory.
    {"EnginesThatShareEverything",
     [](Host& host) {
       host.others.push_back({.engine = "other",
                              .cgroups = {{.name = "run", .ours = false}, {.name = "parked"}},
                              .uids = host.found.uids,
                              .processes = {{.pid = 10, .uid = kUid}}});
     },
     {}},
    {"MachineOfAnotherEngine",
     [](Host& host) { host.others.push_back({.engine = "other", .machines = {{.id = "lost"}}}); },
     {"machine lost"}},
    {"RunsOnAnotherEngineThanItsRecordSays",
     [](Host& host) {
       host.expected.microvms[0].engine = "other";
       host.others.push_back({.engine = "other"});
     },
     {"microvm run"}},
    {"CgroupThatTheOtherEngineKnows",
     [](Host& host) {
       host.found.cgroups.push_back({.name = "lost", .ours = false});
       host.others.push_back({.engine = "other", .cgroups = {{.name = "lost", .ours = true}}});
     },
     {"cgroup lost"}},
    // Nobody can say what such a microVM has: it is left alone, and so is its image.
    {"EngineThatIsNotHere",
     [](Host& host) {
       host.expected.microvms[0].engine = "absent";
       host.found.machines.erase(host.found.machines.begin());
       host.found.cgroups.erase(host.found.cgroups.begin());
       host.expected.snapshots.insert({"absent", "image-9"});
     },
     {}},

    // What another server with the same uids and the same parent of cgroups may have.
    {"ProcessOfAnother",
     [](Host& host) { host.found.processes.push_back({.pid = 99, .uid = kUid + 9}); },
     {},
     {"process 99"}},
    {"ProcessOfAnotherUnderAUidOfASuspendedOne",
     [](Host& host) { host.found.processes.push_back({.pid = 99, .uid = kUid + 1}); },
     {},
     {"process 99"}},
    {"CgroupOfAnother",
     [](Host& host) { host.found.cgroups.push_back({.name = "other", .ours = false}); },
     {},
     {"cgroup other"}},
    {"CgroupOfWhoeverCopiedTheRecords",
     [](Host& host) { host.found.cgroups.push_back({.name = "ended", .ours = false}); },
     {},
     {"cgroup ended"}},
    {"EmptyCgroupOfSomebody",
     [](Host& host) { host.found.cgroups.push_back({.name = "other"}); },
     {},
     {"cgroup other"}},
};

INSTANTIATE_TEST_SUITE_P(Check, Compare, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// ---- looking at a host that changes meanwhile

class CheckHost : public testing::Test {
 protected:
  CheckHost() {
    std::filesystem::create_directories(dir_);
    auto store = store::open_sqlite_store({.path = dir_ + "/store.db"});
    EXPECT_TRUE(store) << store.error().text();
    db_.emplace(io_.get_executor(), *std::move(store));
  }
  ~CheckHost() override { std::filesystem::remove_all(dir_); }

  // `look` gets the number of the look, from 1 on.
  CheckReport check(std::function<Found(int)> look) {
    auto repair = [this](Discrepancy leak) -> net::Task<bool> {
      repaired_.push_back(leak.kind + " " + leak.name);
      co_return true;
    };
    CheckContext context{.db = *db_,
                         .look = [this, look]() -> Result<Found> { return look(++looks_); },
                         .other_machines = [this] { return known_; },
                         .put_right = repair};
    auto report = run_task(io_, check_host(std::move(context), true));
    EXPECT_TRUE(report) << report.error().text();
    return report.value_or(CheckReport{});
  }
  static Found with(const std::string& id) {
    Found found;
    found.engines.push_back(
        {.engine = core::kFirstEngine, .machines = {{.id = id, .process = true}}});
    return found;
  }

  net::asio::io_context io_;
  std::string dir_ = std::filesystem::temp_directory_path() / ("fb-check-" + sys::random_hex(8));
  std::optional<store::Database> db_;
  std::set<std::string> known_;
  std::vector<std::string> repaired_;
  int looks_ = 0;
};

TEST_F(CheckHost, WhatBelongsToNobodyIsRepaired) {
  const CheckReport report = check([](int) { return with("lost"); });
  EXPECT_THAT(repaired_, ElementsAre("machine lost"));
  ASSERT_EQ(report.found.size(), 1U);
  EXPECT_TRUE(report.found[0].repaired);
}

// A launch takes a clone and makes its machine while the host is looked at: who owns what is asked
// afterwards.
TEST_F(CheckHost, AMachineMadeWhileTheHostIsLookedAtIsNoLeak) {
  const CheckReport report = check([this](int) {
    known_ = {"launching"};
    return with("launching");
  });
  EXPECT_THAT(report.found, IsEmpty());
  EXPECT_EQ(looks_, 1);
}

TEST_F(CheckHost, WhatIsSeenOnlyOnceIsNoLeak) {
  const CheckReport report = check([](int look) { return look == 1 ? with("ending") : Found{}; });
  EXPECT_THAT(report.found, IsEmpty());
  EXPECT_THAT(repaired_, IsEmpty());
}

TEST_F(CheckHost, ADifferenceIsLookedAtAgainBeforeItIsRepaired) {
  const CheckReport report = check([this](int look) {
    if (look == 3) known_ = {"late"};
    return with("late");
  });
  EXPECT_THAT(repaired_, IsEmpty());
  ASSERT_EQ(report.found.size(), 1U);
  EXPECT_TRUE(report.found[0].repaired);
}

TEST_F(CheckHost, WhatMayBeAnotherServersIsLeftAlone) {
  Found found;
  found.engines.push_back({.engine = core::kFirstEngine,
                           .cgroups = {{.name = "other", .ours = false}},
                           .processes = {{.pid = 99, .uid = kUid}}});
  const CheckReport report = check([&](int) { return found; });
  EXPECT_THAT(repaired_, IsEmpty());
  const json::object told = to_json(report);
  EXPECT_TRUE(told.at("ok").as_bool());
  EXPECT_TRUE(told.at("leaks").as_array().empty());
  ASSERT_EQ(told.at("unclear").as_array().size(), 2U);
  for (const json::value& one : told.at("unclear").as_array()) {
    EXPECT_FALSE(one.at("repaired").as_bool());
    EXPECT_THAT(std::string(one.at("what").as_string()),
                testing::HasSubstr("may belong to another server on this host"));
  }
}

// A pid, for one, may have gone to another server's process.
TEST_F(CheckHost, WhatIsNoLongerOursIsLeftAlone) {
  const CheckReport report = check([](int look) {
    Found found;
    found.engines.push_back(
        {.engine = core::kFirstEngine, .processes = {{.pid = 99, .uid = kUid, .ours = look < 3}}});
    return found;
  });
  EXPECT_THAT(repaired_, IsEmpty());
  ASSERT_EQ(report.found.size(), 1U);
  EXPECT_FALSE(report.found[0].repaired);
}

TEST_F(CheckHost, WhatTheStoreNamesIsNobodysLeak) {
  const core::TenantId tenant("100000000001");
  auto made = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
    FB_TRY(store.create_tenant({tenant, "t", {}, {}}));
    core::Microvm ended = microvm("ended", MicrovmState::pending);
    ended.tenant = tenant;
    FB_TRY_ASSIGN(auto created, store.create_microvm(ended, {}));
    for (const auto state : {MicrovmState::terminating, MicrovmState::terminated}) {
      FB_TRY_ASSIGN(
          created.microvm,
          store.change({.id = ended.id, .expected = created.microvm.revision, .state = state}));
    }
    const core::ImageId image("image-1");
    FB_TRY(store.create_image({.id = image, .tenant = tenant, .name = "one"}));
    FB_TRY(store.create_version({.image = image, .number = 1}));
    return store.create_build({.id = core::BuildId("build-1"), .image = image, .version = 1});
  }));
  ASSERT_TRUE(made) << made.error().text();
  Found found{.app_logs = {"ended", "lost"}, .build_logs = {"build-1", "build-2"}};
  const CheckReport report = check([&](int) { return found; });
  EXPECT_EQ(report.found.size(), 2U);
  EXPECT_THAT(repaired_, ElementsAre("log logs/lost", "log builds/build-2"));
}

TEST_F(CheckHost, VersionsWithoutTheirSnapshotFailAndSayWhy) {
  const core::TenantId tenant("100000000001");
  const core::ImageId image("image-1");
  auto versions =
      run_task(io_, db_->run([&](store::Store& store) -> Result<std::vector<core::ImageVersion>> {
        FB_TRY(store.create_tenant({tenant, "t", {}, {}}));
        FB_TRY(store.create_image({.id = image, .tenant = tenant, .name = "one"}));
        for (const std::uint32_t number : {1U, 2U, 3U}) {
          FB_TRY(store.create_version({.image = image,
                                       .number = number,
                                       .state = core::VersionState::successful,
                                       .active = true,
                                       .snapshot = number == 1 ? "image-1-1" : "image-1-2"}));
        }
        FB_TRY_ASSIGN(const auto failed, fail_versions_of(store, "image-1-2", core::Time{}));
        EXPECT_EQ(failed.size(), 2U);
        return store.list_versions(image);
      }));
  ASSERT_TRUE(versions) << versions.error().text();
  for (const core::ImageVersion& version : *versions) {
    const bool lost = version.number != 1;
    EXPECT_EQ(version.state == core::VersionState::failed, lost);
    EXPECT_EQ(version.active, !lost);
    EXPECT_EQ(version.snapshot.empty(), lost);
    EXPECT_EQ(version.state_reason.empty(), !lost);
  }
}

TEST(CheckJson, IsOkWhenAllWasRepaired) {
  CheckReport report{.found = {{"uid", "700001", "is leased to nobody", true}}, .microvms = 3};
  EXPECT_EQ(json::serialize(to_json(report)),
            R"({"ok":true,"microvms":3,"leaks":[{"kind":"uid","name":"700001",)"
            R"("what":"is leased to nobody","repaired":true}],"unclear":[]})");
  report.found.push_back({"mount", "/m", "is mounted", false});
  EXPECT_FALSE(to_json(report).at("ok").as_bool());
}

}  // namespace
}  // namespace firebreak::control
