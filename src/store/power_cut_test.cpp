// The power is cut at every single operation on the disk during a workload. Afterwards each call
// that had returned is there, and the one in flight is there whole or not at all.
#include <functional>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "store/conformance.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/test_disk.h"

namespace firebreak::store {
namespace {

using core::Seconds;
using enum core::MicrovmState;

constexpr const char* kPath = "/disk/store.db";

using Step = std::function<bool(Store&)>;

// Everything the store can tell.
struct World {
  std::vector<core::Tenant> tenants;
  std::vector<core::Key> keys;
  std::vector<core::Image> images;
  std::vector<core::ImageVersion> versions;
  std::vector<core::Build> builds;
  std::vector<core::Microvm> microvms;
  std::vector<core::Event> events;
  std::vector<std::pair<core::MicrovmId, core::Meter>> meters;
  std::vector<UsageDay> days;
  std::uint64_t last_event = 0;
  friend bool operator==(const World&, const World&) = default;
};

template <class T>
void append(std::vector<T>& to, const Result<std::vector<T>>& from) {
  ASSERT_TRUE(from) << from.error().text();
  to.insert(to.end(), from->begin(), from->end());
}

World look(Store& store) {
  World world;
  append(world.tenants, store.list_tenants());
  append(world.versions, store.all_versions());
  for (const auto& version : world.versions) {
    append(world.builds, store.list_builds(version.image, version.number));
  }
  for (const auto& tenant : world.tenants) {
    append(world.keys, store.list_keys(tenant.id));
    append(world.days, store.usage_days(tenant.id, core::Time{}));
    append(world.events, store.events(tenant.id, std::nullopt, 0, 10'000));
    auto images = store.list_images(tenant.id, "", {.size = 1000});
    auto microvms = store.list_microvms(tenant.id, {}, {.size = 1000});
    auto usage = store.usage(tenant.id, core::Time{}, 10'000);
    EXPECT_TRUE(images && microvms && usage);
    if (!images || !microvms || !usage) return world;
    append(world.images, Result<std::vector<core::Image>>(images->items));
    append(world.microvms, Result<std::vector<core::Microvm>>(microvms->items));
    for (const auto& row : *usage) world.meters.emplace_back(row.microvm, row.meter);
  }
  world.last_event = store.last_event().value_or(0);
  return world;
}

Step move(int n, const core::TenantId& tenant, core::MicrovmState to) {
  return [=](Store& store) {
    auto microvm = store.find_microvm(tenant, sample_microvm(n, tenant).id);
    if (!microvm || !*microvm) return false;
    return store
        .change({.id = (*microvm)->id,
                 .expected = (*microvm)->revision,
                 .state = to,
                 .reason = "step",
                 .clear_payload = to == running,
                 .at = (*microvm)->state_since + Seconds(1)})
        .has_value();
  };
}

Step meter(int n, const core::TenantId& tenant) {
  return [=](Store& store) {
    std::vector<UsageRow> rows;
    for (int i = 0; i < 3; ++i) {
      rows.push_back(sample_usage(i, tenant));
      rows.back().meter.total.running_ms += static_cast<std::uint64_t>(n);
    }
    return store.save_meters(rows).has_value();
  };
}

bool in_one(Store& store, Durability durability, const std::function<bool()>& calls) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  auto all = store.begin(Access::write, deadline, durability);
  return all && calls() && all->commit(deadline).has_value();
}

std::vector<Step> workload() {
  const core::Tenant a = sample_tenant(1);
  const core::Tenant b = sample_tenant(2);
  const core::ImageId image = sample_image(1, a.id).id;
  auto launch = [](int n, const core::TenantId& tenant) -> Step {
    return [=](Store& store) {
      auto microvm = sample_microvm(n, tenant);
      microvm.client_token = "token-" + std::to_string(n);
      // Larger than a page: a change that spans several.
      microvm.config = std::string(6000, static_cast<char>('a' + n));
      return store.create_microvm(microvm, {}).has_value();
    };
  };
  return {
      [=](Store& s) { return s.create_tenant(a).has_value(); },
      [=](Store& s) { return s.create_key(sample_key(1, a.id)).has_value(); },
      [=](Store& s) { return s.create_tenant(b).has_value(); },
      [=](Store& s) { return s.create_image(sample_image(1, a.id)).has_value(); },
      [=](Store& s) { return s.create_version(sample_version(image, 1)).has_value(); },
      [=](Store& s) { return s.create_build(sample_build(1, image, 1)).has_value(); },
      launch(1, a.id),
      move(1, a.id, running),
      meter(1, a.id),
      launch(2, a.id),
      move(2, a.id, running),
      move(1, a.id, suspending),
      move(1, a.id, suspended),
      launch(3, b.id),
      meter(2, a.id),
      move(1, a.id, running),
      [=](Store& s) { return s.revoke_key(a.id, sample_key(1, a.id).id, at(9)).has_value(); },
      move(2, a.id, terminating),
      move(2, a.id, terminated),
      move(3, b.id, terminating),
      move(3, b.id, terminated),
      [=](Store& s) { return s.forget_terminated(at(6)).value_or(0) == 2; },
      [=](Store& s) { return s.roll_up_usage(at(6), 100).value_or(0) == 2; },
      [=](Store& s) { return s.forget_events(at(2)).value_or(0) > 0; },
      [=](Store& s) { return s.create_version(sample_version(image, 2)).has_value(); },
      [=](Store& s) { return s.remove_tenant(b.id).has_value(); },
      [=](Store& s) { return s.remove_image(image).has_value(); },
      meter(3, a.id),
      // Nothing was promised before the sync; a checkpoint in between may keep it nevertheless.
      [=](Store& s) {
        return in_one(s, Durability::later,
                      [&] { return s.create_microvm(sample_microvm(4, a.id), {}).has_value(); }) &&
               s.sync().has_value();
      },
      [=](Store& s) {
        const auto made = sample_microvm(4, a.id);
        return in_one(s, Durability::later,
                      [&] {
                        return s
                            .change({.id = made.id,
                                     .expected = 1,
                                     .state = running,
                                     .at = made.state_since + Seconds(1)})
                            .has_value();
                      }) &&
               s.sync().has_value();
      },
      // Whole or not at all, also if it is several calls.
      [=](Store& s) {
        return in_one(s, Durability::now, [&] {
          return s.create_image(sample_image(2, a.id)).has_value() &&
                 s.create_version(sample_version(sample_image(2, a.id).id, 1)).has_value() &&
                 s.create_microvm(sample_microvm(5, a.id), {}).has_value();
        });
      },
  };
}

// The store's own connection: the tests change its settings behind its back.
sqlite3* opened = nullptr;

int note_opened(sqlite3* db, char** /*error*/, const void* /*api*/) {
  opened = db;
  return SQLITE_OK;
}

// A sanitizer makes each cut many times slower and looks for other mistakes than lost changes.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::uint64_t kBetweenCuts = 7;
#else
constexpr std::uint64_t kBetweenCuts = 1;
#endif

// A small log is written back to the database several times within the workload.
constexpr const char* kSmallLog = "PRAGMA wal_autocheckpoint = 25";

class PowerCut : public testing::Test {
 protected:
  using Extension = void (*)();
  PowerCut() { sqlite3_auto_extension(reinterpret_cast<Extension>(note_opened)); }
  ~PowerCut() override { sqlite3_cancel_auto_extension(reinterpret_cast<Extension>(note_opened)); }

  static Result<std::unique_ptr<Store>> open(const TestDisk& disk, const char* setting = "") {
    FB_TRY_ASSIGN(auto store, open_sqlite_store({.path = kPath, .vfs = disk.name()}));
    EXPECT_EQ(sqlite3_exec(opened, kSmallLog, nullptr, nullptr, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(opened, setting, nullptr, nullptr, nullptr), SQLITE_OK);
    return store;
  }

  void SetUp() override {
    TestDisk disk("reference");
    auto store = open(disk);
    ASSERT_TRUE(store) << store.error().text();
    const std::uint64_t before = disk.writes_to(kPath);
    worlds_.push_back(look(**store));
    for (const Step& step : steps_) {
      ASSERT_TRUE(step(**store)) << "step " << worlds_.size();
      worlds_.push_back(look(**store));
    }
    // Checkpoints are among what is cut, not only the one of closing.
    ASSERT_GT(disk.writes_to(kPath), before + 50);
  }

  // How many calls returned success; opening and closing are cut, too.
  std::size_t run(TestDisk& disk, const char* setting) {
    auto store = open(disk, setting);
    if (!store) {
      EXPECT_TRUE(disk.is_cut()) << store.error().text();
      return 0;
    }
    std::size_t done = 0;
    while (done < steps_.size() && steps_[done](**store)) ++done;
    EXPECT_TRUE(done == steps_.size() || disk.is_cut()) << "step " << done + 1;
    return done;
  }

  // nullopt: whole. Otherwise what is wrong.
  std::optional<std::string> inspect(TestDisk& disk, std::size_t done) {
    auto store = open(disk);
    if (!store) return "it does not open: " + store.error().text();
    const World now = look(**store);
    const bool in_flight = done + 1 < worlds_.size() && now == worlds_[done + 1];
    if (now != worlds_[done] && !in_flight) return "an acknowledged change is lost or half there";
    if (!(*store)->create_tenant(sample_tenant(77))) return "it cannot be written";
    return std::nullopt;
  }

  // Cuts at every operation in turn, under a sanitizer at some; the first that breaks the promise,
  // in words.
  std::optional<std::string> first_loss(TestDisk::Loss loss, std::uint64_t seed,
                                        const char* setting = "") {
    for (std::uint64_t operations = 0;; operations += kBetweenCuts) {
      TestDisk disk("cut");
      disk.cut_after(operations);
      const std::size_t done = run(disk, setting);
      const bool finished = !disk.is_cut();
      disk.reboot(loss, seed + operations);
      if (operations % 3 == 0) {
        // And once more while it recovers.
        disk.cut_after(operations % 7);
        (void)open(disk);
        disk.reboot(loss, seed + operations + 1);
      }
      if (auto wrong = inspect(disk, done)) {
        return "cut after " + std::to_string(operations) + " operations, " + std::to_string(done) +
               " calls acknowledged, seed " + std::to_string(seed) + ": " + *wrong;
      }
      if (finished) {
        std::printf("cut within %lu operations, every %lu\n",
                    static_cast<unsigned long>(operations),
                    static_cast<unsigned long>(kBetweenCuts));
        EXPECT_GT(operations, 300U);
        return std::nullopt;
      }
    }
  }

  std::vector<Step> steps_ = workload();
  std::vector<World> worlds_;  // after so many steps
};

TEST_F(PowerCut, LosesNothingAcknowledged) {
  EXPECT_EQ(first_loss(TestDisk::Loss::all_unsynced, 1), std::nullopt);
}

TEST_F(PowerCut, LosesNothingWhenSectorsAreTorn) {
  for (std::uint64_t seed : {1'000'000U, 2'000'000U}) {
    EXPECT_EQ(first_loss(TestDisk::Loss::random_sectors, seed), std::nullopt);
  }
}

// The test itself is tested: a store that does not wait for the disk is caught.
TEST_F(PowerCut, FindsAStoreThatDoesNotSync) {
  for (const char* setting : {"PRAGMA synchronous = OFF", "PRAGMA synchronous = NORMAL"}) {
    EXPECT_NE(first_loss(TestDisk::Loss::all_unsynced, 1, setting), std::nullopt) << setting;
    EXPECT_NE(first_loss(TestDisk::Loss::random_sectors, 1, setting), std::nullopt) << setting;
  }
}

TEST_F(PowerCut, AFullDiskIsSaidAndHarmless) {
  TestDisk disk("full");
  auto store = open(disk);
  ASSERT_TRUE(store) << store.error().text();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    disk.set_full(true);
    EXPECT_FALSE(steps_[i](**store));
    EXPECT_EQ(code_of((*store)->create_tenant(sample_tenant(9))), Code::exhausted);
    disk.set_full(false);
    EXPECT_EQ(look(**store), worlds_[i]);
    ASSERT_TRUE(steps_[i](**store)) << i;
  }
  disk.cut_after(0);
  EXPECT_EQ(code_of((*store)->create_tenant(sample_tenant(9))), Code::internal);
}

}  // namespace
}  // namespace firebreak::store
