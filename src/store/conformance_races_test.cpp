// Two writers that know nothing of each other, on two connections: of what only one can have, one
// gets it and the other is told so; nothing is lost, and nobody hears that the store was busy.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using enum core::MicrovmState;

constexpr int kRounds = 12;

Deadline soon() {
  return Deadline::in(std::chrono::seconds(60));
}

// `work(store, who)` on two threads at once, each with a connection of its own.
template <class Work>
auto race(const Store& store, Work work) {
  using Outcome = std::invoke_result_t<Work, Store&, int>;
  std::array<std::optional<Outcome>, 2> outcomes;
  std::latch both(2);
  {
    std::vector<std::jthread> threads;
    for (int who = 0; who < 2; ++who) {
      threads.emplace_back([&, who] {
        auto connection = store.connect();
        EXPECT_TRUE(connection) << connection.error().text();
        both.arrive_and_wait();
        if (connection) outcomes[static_cast<std::size_t>(who)] = work(**connection, who);
      });
    }
  }
  return std::pair{*std::move(outcomes[0]), *std::move(outcomes[1])};
}

template <class T>
void expect_one(const std::pair<Result<T>, Result<T>>& outcomes, Code refusal) {
  EXPECT_NE(outcomes.first.has_value(), outcomes.second.has_value());
  for (const auto* outcome : {&outcomes.first, &outcomes.second})
    if (!*outcome) EXPECT_EQ(outcome->error().code, refusal) << outcome->error().text();
}

// In one transaction, kept when it succeeds.
Result<> in_one(Store& store, const std::function<Result<>()>& calls) {
  FB_TRY_ASSIGN(auto all, store.begin(Access::write, soon()));
  FB_TRY(calls());
  return all.commit(soon());
}

TEST_P(MicrovmConformance, OfTwoWhoWantANameOneGetsIt) {
  for (int n = 0; n < kRounds; ++n) {
    expect_one(race(store(),
                    [&](Store& mine, int who) {
                      auto microvm = sample_microvm((2 * n) + who, a_.id);
                      microvm.name = "round-" + std::to_string(n);
                      return mine.create_microvm(microvm, {});
                    }),
               Code::conflict);
    expect_one(race(store(),
                    [&](Store& mine, int who) {
                      auto image = sample_image((2 * n) + who, a_.id);
                      image.name = "round-" + std::to_string(n);
                      return mine.create_image(image);
                    }),
               Code::conflict);
  }
  ASSERT_VALUE(const auto use, store().tenant_use(a_.id));
  EXPECT_EQ(use.microvms, kRounds);
  EXPECT_EQ(use.images, kRounds);
}

TEST_P(MicrovmConformance, TwoNeverPassALimitTogether) {
  const core::TenantLimits limits{.microvms = kRounds + 1};
  const auto made = race(store(), [&](Store& mine, int who) {
    int count = 0;
    for (int n = 0; n < kRounds; ++n) {
      const auto done = mine.create_microvm(sample_microvm((2 * n) + who, a_.id), limits);
      if (done)
        ++count;
      else
        EXPECT_EQ(done.error().code, Code::exhausted) << done.error().text();
    }
    return count;
  });
  EXPECT_EQ(made.first + made.second, kRounds + 1);
  ASSERT_VALUE(const auto use, store().tenant_use(a_.id));
  EXPECT_EQ(use.microvms, kRounds + 1);
}

TEST_P(MicrovmConformance, AClientTokenMakesOneMicrovmWhoeverIsFirst) {
  for (int n = 0; n < kRounds; ++n) {
    const auto ask = [&](Store& mine, int who, const std::string& token, const std::string& hash) {
      auto microvm = sample_microvm((2 * n) + who, a_.id);
      microvm.name.clear();
      microvm.client_token = token + std::to_string(n);
      microvm.request_hash = hash;
      return mine.create_microvm(microvm, {});
    };
    const auto same =
        race(store(), [&](Store& mine, int who) { return ask(mine, who, "same", "x"); });
    ASSERT_TRUE(same.first) << same.first.error().text();
    ASSERT_TRUE(same.second) << same.second.error().text();
    EXPECT_NE(same.first->created, same.second->created);
    EXPECT_EQ(same.first->microvm.id, same.second->microvm.id);
    walk(store(), same.first->microvm, {terminating, terminated});
    ASSERT_DONE(store().forget_terminated(at(1'000'000)));
    expect_one(race(store(),
                    [&](Store& mine, int who) {
                      return ask(mine, who, "other", "request-" + std::to_string(who));
                    }),
               Code::conflict);
  }
}

TEST_P(MicrovmConformance, OfTwoChangesOfOneRevisionOneIsMade) {
  ASSERT_VALUE(auto made, store().create_microvm(sample_microvm(1, a_.id), {}));
  core::Microvm microvm = made.microvm;
  for (const core::MicrovmState to : {running, suspending, suspended, running, terminating}) {
    const auto outcomes = race(store(), [&](Store& mine, int who) {
      return mine.change({.id = microvm.id,
                          .expected = microvm.revision,
                          .state = to,
                          .reason = "by " + std::to_string(who),
                          .at = at(100)});
    });
    expect_one(outcomes, Code::conflict);
    microvm = outcomes.first ? *outcomes.first : *outcomes.second;
    ASSERT_VALUE(const auto now, store().find_microvm(a_.id, microvm.id));
    EXPECT_EQ(now, microvm);
  }
  ASSERT_VALUE(const auto events, store().events(a_.id, microvm.id, 0, 100));
  EXPECT_EQ(events.size(), 6U);
}

TEST_P(MicrovmConformance, WhatIsReadAndWrittenInOneTransactionIsNeverLost) {
  const auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  const auto add_one = [&](Store& mine, int who) -> Result<> {
    FB_TRY_ASSIGN(auto now, mine.find_image(a_.id, image.id));
    now->tags["by-" + std::to_string(who) + "-" + std::to_string(now->tags.size())] = "x";
    FB_TRY(mine.update_image(*now));
    FB_TRY_ASSIGN(const auto versions, mine.list_versions(image.id));
    return mine.create_version(
        sample_version(image.id, static_cast<std::uint32_t>(versions.size() + 1)));
  };
  const auto outcomes = race(store(), [&](Store& mine, int who) -> Result<> {
    for (int n = 0; n < kRounds; ++n) FB_TRY(in_one(mine, [&] { return add_one(mine, who); }));
    return {};
  });
  EXPECT_TRUE(outcomes.first) << outcomes.first.error().text();
  EXPECT_TRUE(outcomes.second) << outcomes.second.error().text();
  ASSERT_VALUE(const auto now, store().find_image(a_.id, image.id));
  EXPECT_EQ(now->tags.size(), image.tags.size() + (2 * kRounds));
  ASSERT_VALUE(const auto versions, store().list_versions(image.id));
  EXPECT_EQ(versions.size(), 2U * kRounds);
}

// An image goes, or a microVM of it lives; never both.
TEST_P(MicrovmConformance, ALaunchAndARemovalExcludeEachOther) {
  for (int n = 1; n <= kRounds; ++n) {
    const auto image = sample_image(n, a_.id);
    ASSERT_DONE(store().create_image(image));
    ASSERT_DONE(store().create_version(sample_version(image.id, 3)));
    auto microvm = sample_microvm(n, a_.id);
    microvm.image = image.id;
    const auto launch = [&](Store& mine) -> Result<> {
      FB_TRY_ASSIGN(const auto still, mine.find_version(image.id, 3));
      if (!still) return fail(Code::conflict, "the image was removed");
      FB_TRY(mine.create_microvm(microvm, {}));
      return {};
    };
    const auto remove = [&](Store& mine) -> Result<> {
      FB_TRY_ASSIGN(const auto live, mine.live_microvms());
      for (const auto& each : live)
        if (each.image == image.id) return fail(Code::conflict, "microVMs of it live");
      return mine.remove_image(image.id);
    };
    expect_one(race(store(),
                    [&](Store& mine, int who) {
                      return in_one(mine, [&] { return who == 0 ? launch(mine) : remove(mine); });
                    }),
               Code::conflict);
  }
}

TEST_P(MicrovmConformance, AReaderNeverSeesHalfATransactionNorALateEvent) {
  std::atomic<bool> writing{true};
  std::vector<std::uint64_t> followed;
  std::jthread reads([&] {
    auto mine = store().connect();
    ASSERT_TRUE(mine) << mine.error().text();
    for (bool last = false; !last;) {
      last = !writing.load();
      ASSERT_VALUE(const auto moment, (*mine)->begin(Access::read, soon()));
      ASSERT_VALUE(const auto use, (*mine)->tenant_use(a_.id));
      ASSERT_VALUE(const auto live, (*mine)->live_microvms());
      EXPECT_EQ(use.microvms % 2, 0U);
      EXPECT_EQ(use.microvms, live.size());
      // From the last that was seen on: one that came later with a lower number would be missed.
      ASSERT_VALUE(
          const auto events,
          (*mine)->events(a_.id, std::nullopt, followed.empty() ? 0 : followed.back(), 10'000));
      for (const core::Event& event : events) followed.push_back(event.sequence);
    }
  });
  const auto outcomes = race(store(), [&](Store& mine, int who) -> Result<> {
    for (int n = 0; n < kRounds; ++n) {
      FB_TRY(in_one(mine, [&]() -> Result<> {
        FB_TRY(mine.create_microvm(sample_microvm((4 * n) + who, a_.id), {}));
        FB_TRY(mine.create_microvm(sample_microvm((4 * n) + 2 + who, a_.id), {}));
        return {};
      }));
    }
    return {};
  });
  writing = false;
  reads.join();
  EXPECT_TRUE(outcomes.first) << outcomes.first.error().text();
  EXPECT_TRUE(outcomes.second) << outcomes.second.error().text();
  EXPECT_EQ(followed.size(), 4U * kRounds);
  EXPECT_EQ(std::ranges::adjacent_find(followed, std::greater_equal<>()), followed.end());
}

TEST_P(MicrovmConformance, ATotalIsTheSameWhileItIsRolledUp) {
  std::vector<UsageRow> rows;
  for (int n = 0; n < 2 * kRounds; ++n) rows.push_back(sample_usage(n, a_.id));
  // Their sum has to fit.
  for (UsageRow& row : rows) row.meter.total.memory_mib_ms = 1;
  ASSERT_DONE(store().save_meters(rows));
  ASSERT_VALUE(const auto before, store().usage_total(a_.id, core::Time{}));
  std::atomic<bool> rolling{true};
  const auto outcomes = race(store(), [&](Store& mine, int who) -> Result<> {
    if (who == 0) {
      Result<std::uint64_t> done;
      for (int n = 0; n < 2 * kRounds && done; ++n) done = mine.roll_up_usage(at(1'000'000), 1);
      rolling = false;
      FB_TRY(done);
      return {};
    }
    while (rolling) {
      FB_TRY_ASSIGN(const auto now, mine.usage_total(a_.id, core::Time{}));
      EXPECT_EQ(now, before);
    }
    return {};
  });
  EXPECT_TRUE(outcomes.first) << outcomes.first.error().text();
  EXPECT_TRUE(outcomes.second) << outcomes.second.error().text();
}

}  // namespace
}  // namespace firebreak::store
