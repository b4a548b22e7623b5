#include <algorithm>
#include <functional>

#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using core::Intent;
using core::MicrovmState;
using core::Seconds;
using enum core::MicrovmState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

const core::TenantLimits kRoomy{};

std::vector<std::string> ids(const std::vector<core::Microvm>& items) {
  std::vector<std::string> out;
  for (const auto& item : items) out.push_back(item.id.str());
  return out;
}

core::Microvm add(Store& store, const core::Microvm& microvm) {
  auto created = store.create_microvm(microvm, kRoomy);
  EXPECT_TRUE(created) << created.error().text();
  return created ? created->microvm : microvm;
}

TEST_P(MicrovmConformance, KeepsEveryMember) {
  auto asked = sample_microvm(1, a_.id);
  asked.client_token = "token";
  ASSERT_VALUE(auto made, store().create_microvm(asked, kRoomy));
  EXPECT_TRUE(made.created);
  EXPECT_EQ(made.microvm.revision, 1U);
  asked.revision = 1;
  EXPECT_EQ(made.microvm, asked);
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, asked.id));
  EXPECT_THAT(found, Optional(asked));
  ASSERT_VALUE(found, store().find_by_endpoint(asked.endpoint));
  EXPECT_THAT(found, Optional(asked));
  auto bare = sample_microvm(2, a_.id);
  bare.idle = std::nullopt;
  bare.max_duration = std::nullopt;
  bare.tags.clear();
  bare = add(store(), bare);
  ASSERT_VALUE(found, store().find_microvm(a_.id, bare.id));
  EXPECT_THAT(found, Optional(bare));
}

TEST_P(MicrovmConformance, AForeignOneIsAbsent) {
  const auto microvm = add(store(), sample_microvm(1, a_.id));
  ASSERT_VALUE(auto found, store().find_microvm(b_.id, microvm.id));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto listed, store().list_microvms(b_.id, {}, {}));
  EXPECT_THAT(listed.items, IsEmpty());
  ASSERT_VALUE(auto events, store().events(b_.id, microvm.id, 0, 100));
  EXPECT_THAT(events, IsEmpty());
  ASSERT_VALUE(auto use, store().tenant_use(b_.id));
  EXPECT_EQ(use.microvms, 0U);
  ASSERT_VALUE(found, store().find_by_endpoint(core::EndpointId("no")));
  EXPECT_EQ(found, std::nullopt);
}

TEST_P(MicrovmConformance, RefusesTakenIdsUnknownTenantsAndOddBeginnings) {
  add(store(), sample_microvm(1, a_.id));
  ASSERT_VALUE(const auto before, store().last_event());
  auto same_endpoint = sample_microvm(2, b_.id);
  same_endpoint.endpoint = sample_microvm(1, a_.id).endpoint;
  EXPECT_EQ(code_of(store().create_microvm(sample_microvm(1, b_.id), kRoomy)), Code::conflict);
  EXPECT_EQ(code_of(store().create_microvm(same_endpoint, kRoomy)), Code::conflict);
  EXPECT_EQ(code_of(store().create_microvm(sample_microvm(3, core::TenantId("no")), kRoomy)),
            Code::not_found);
  auto running = sample_microvm(4, a_.id);
  running.state = core::MicrovmState::running;
  EXPECT_EQ(code_of(store().create_microvm(running, kRoomy)), Code::invalid);
  ASSERT_VALUE(auto events, store().events(a_.id, std::nullopt, before, 100));
  EXPECT_THAT(events, IsEmpty());
}

TEST_P(MicrovmConformance, CountsAgainstTheLimits) {
  const core::TenantLimits limits{.microvms = 2, .memory_mib = 2560};
  auto one = add(store(), sample_microvm(1, a_.id));
  auto big = sample_microvm(2, a_.id);
  big.memory_mib = 2048;
  auto refused = store().create_microvm(big, limits);
  EXPECT_EQ(code_of(refused), Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("memory_mib"));
  add(store(), sample_microvm(3, a_.id));
  refused = store().create_microvm(sample_microvm(4, a_.id), limits);
  EXPECT_EQ(code_of(refused), Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("microvms"));
  EXPECT_TRUE(store().create_microvm(sample_microvm(5, b_.id), limits));

  ASSERT_DONE(store().create_image(sample_image(1, a_.id)));
  ASSERT_VALUE(auto use, store().tenant_use(a_.id));
  EXPECT_EQ(use.microvms, 2U);
  EXPECT_EQ(use.memory_mib, 2048U);
  EXPECT_EQ(use.images, 1U);
  one = walk(store(), one, {terminating});
  EXPECT_EQ(code_of(store().create_microvm(sample_microvm(6, a_.id), limits)), Code::exhausted);
  walk(store(), one, {terminated});
  EXPECT_TRUE(store().create_microvm(sample_microvm(6, a_.id), limits));
}

TEST_P(MicrovmConformance, ATokenMakesOneMicrovm) {
  auto asked = sample_microvm(1, a_.id);
  asked.client_token = "token";
  auto first = add(store(), asked);
  first = walk(store(), first, {running});
  auto again = sample_microvm(2, a_.id);
  again.client_token = "token";
  // Not even a full tenant refuses it: nothing is made.
  ASSERT_VALUE(auto repeated, store().create_microvm(again, {.microvms = 0}));
  EXPECT_FALSE(repeated.created);
  EXPECT_EQ(repeated.microvm, first);
  again.request_hash = "another";
  EXPECT_EQ(code_of(store().create_microvm(again, kRoomy)), Code::conflict);
  again.tenant = b_.id;
  ASSERT_VALUE(auto of_b, store().create_microvm(again, kRoomy));
  EXPECT_TRUE(of_b.created);
  ASSERT_VALUE(auto live, store().live_microvms());
  EXPECT_THAT(ids(live), ElementsAre("microvm-1", "microvm-2"));
}

TEST_P(MicrovmConformance, MicrovmsWithoutATokenAreAllDifferent) {
  for (int n : {1, 2}) EXPECT_TRUE(add(store(), sample_microvm(n, a_.id)).client_token.empty());
  ASSERT_VALUE(auto live, store().live_microvms());
  EXPECT_EQ(live.size(), 2U);
}

TEST_P(MicrovmConformance, ATokenIsForgottenAfterADayOrWithItsMicrovm) {
  auto asked = sample_microvm(0, a_.id);
  asked.client_token = "token";
  add(store(), asked);
  auto later = sample_microvm(1, a_.id);
  later.client_token = "token";
  later.started = asked.started + Seconds(24 * 3600) - core::Millis(1);
  ASSERT_VALUE(auto repeated, store().create_microvm(later, kRoomy));
  EXPECT_FALSE(repeated.created);
  later.started += core::Millis(1);
  ASSERT_VALUE(auto fresh, store().create_microvm(later, kRoomy));
  EXPECT_TRUE(fresh.created);

  walk(store(), fresh.microvm, {terminating, terminated});
  ASSERT_VALUE(auto gone, store().forget_terminated(later.started + Seconds(3600)));
  EXPECT_EQ(gone, 1U);
  auto anew = sample_microvm(2, a_.id);
  anew.client_token = "token";
  anew.request_hash = "another";
  anew.started = later.started + Seconds(1);
  ASSERT_VALUE(auto made, store().create_microvm(anew, kRoomy));
  EXPECT_TRUE(made.created);
}

TEST_P(MicrovmConformance, AChangeNeedsTheRevisionItWasMadeFor) {
  const auto microvm = add(store(), sample_microvm(1, a_.id));
  ASSERT_VALUE(auto changed, store().change({.id = microvm.id,
                                             .expected = 1,
                                             .state = running,
                                             .intent = Intent::none,
                                             .reason = "woken",
                                             .idle = std::optional<core::IdlePolicy>{},
                                             .max_duration = std::optional<Seconds>{},
                                             .generation = 5,
                                             .clear_payload = true,
                                             .at = at(50)}));
  auto expected = microvm;
  expected.state = running;
  expected.intent = Intent::none;
  expected.state_reason = "woken";
  expected.idle = std::nullopt;
  expected.max_duration = std::nullopt;
  expected.generation = 5;
  expected.payload.clear();
  expected.state_since = at(50);
  expected.revision = 2;
  EXPECT_EQ(changed, expected);
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, microvm.id));
  EXPECT_THAT(found, Optional(expected));

  auto stale = store().change({.id = microvm.id, .expected = 1, .state = suspending});
  EXPECT_EQ(code_of(stale), Code::conflict);
  EXPECT_THAT(stale.error().message, HasSubstr("read it again"));
  EXPECT_EQ(code_of(store().change({.id = core::MicrovmId("no"), .expected = 1})), Code::not_found);
  ASSERT_VALUE(found, store().find_microvm(a_.id, microvm.id));
  EXPECT_THAT(found, Optional(expected));
  ASSERT_VALUE(changed, store().change({.id = microvm.id,
                                        .expected = 2,
                                        .idle = core::IdlePolicy{.max_idle = Seconds(9)},
                                        .max_duration = Seconds(10)}));
  EXPECT_EQ(changed.idle->max_idle, Seconds(9));
  EXPECT_THAT(changed.max_duration, Optional(Seconds(10)));
  EXPECT_EQ(changed.state_since, at(50));
}

TEST_P(MicrovmConformance, EveryPairOfStatesFollowsTheTable) {
  const std::vector<std::pair<MicrovmState, std::vector<MicrovmState>>> ways{
      {pending, {}},
      {running, {running}},
      {suspending, {running, suspending}},
      {suspended, {running, suspending, suspended}},
      {terminating, {terminating}},
      {terminated, {terminating, terminated}},
  };
  int n = 0;
  for (const auto& [from, way] : ways) {
    for (const auto& [to, unused] : ways) {
      auto microvm = add(store(), sample_microvm(++n, a_.id));
      microvm = walk(store(), microvm, way);
      auto moved = store().change(
          {.id = microvm.id, .expected = microvm.revision, .state = to, .at = at(1000)});
      EXPECT_EQ(moved.has_value(), core::allowed(from, to))
          << core::to_string(from) << " to " << core::to_string(to);
      if (moved) continue;
      EXPECT_EQ(moved.error().code, Code::conflict);
      ASSERT_VALUE(auto same, store().find_microvm(a_.id, microvm.id));
      EXPECT_THAT(same, Optional(microvm));
    }
  }
}

TEST_P(MicrovmConformance, TimesOfStatesAreKept) {
  auto microvm =
      walk(store(), add(store(), sample_microvm(1, a_.id)), {running, suspending, suspended});
  EXPECT_THAT(microvm.suspended_at, Optional(microvm.state_since));
  microvm = walk(store(), microvm, {running});
  EXPECT_EQ(microvm.suspended_at, std::nullopt);
  microvm = walk(store(), microvm, {terminating, terminated});
  EXPECT_THAT(microvm.terminated, Optional(microvm.state_since));
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, microvm.id));
  EXPECT_THAT(found, Optional(microvm));
  ASSERT_VALUE(auto live, store().live_microvms());
  EXPECT_THAT(live, IsEmpty());
}

// As the samples are.
core::Event event_of(core::Event event) {
  event.engine = "other";
  event.isolation = core::Isolation::hardware;
  return event;
}

TEST_P(MicrovmConformance, AClassThatIsRecordedStays) {
  const auto microvm = add(store(), sample_microvm(1, a_.id));
  ASSERT_DONE(store().record_isolation("other", core::Isolation::emulated));
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, microvm.id));
  EXPECT_THAT(found, Optional(microvm));
}

TEST_P(MicrovmConformance, EventsAreOneGaplessLine) {
  auto one = add(store(), sample_microvm(1, a_.id));
  auto two = add(store(), sample_microvm(2, b_.id));
  one = walk(store(), one, {running});
  EXPECT_FALSE(store().change({.id = one.id, .expected = 77, .state = suspending}));
  EXPECT_FALSE(store().change({.id = one.id, .expected = one.revision, .state = suspended}));
  EXPECT_FALSE(store().create_microvm(sample_microvm(3, a_.id), {.microvms = 0}));
  EXPECT_TRUE(store().change({.id = one.id, .expected = one.revision, .intent = Intent::fork}));
  ASSERT_VALUE(auto ended, store().change({.id = two.id,
                                           .expected = two.revision,
                                           .state = terminating,
                                           .reason = "asked to",
                                           .at = at(9)}));
  ASSERT_VALUE(auto of_a, store().events(a_.id, std::nullopt, 0, 100));
  ASSERT_VALUE(auto of_b, store().events(b_.id, two.id, 0, 100));
  ASSERT_EQ(of_a.size(), 2U);
  ASSERT_EQ(of_b.size(), 2U);
  // In the order in which they happened; which numbers, an engine is free to choose.
  const std::vector<std::uint64_t> numbers{of_a[0].sequence, of_b[0].sequence, of_a[1].sequence,
                                           of_b[1].sequence};
  EXPECT_EQ(std::ranges::adjacent_find(numbers, std::greater_equal<>()), numbers.end());
  EXPECT_EQ(of_a[0], event_of({numbers[0], at(1), a_.id, one.id, pending, pending, "asked"}));
  EXPECT_EQ(of_a[1], event_of({numbers[2], at(2), a_.id, one.id, pending, running, ""}));
  EXPECT_EQ(of_b[0], event_of({numbers[1], at(2), b_.id, two.id, pending, pending, "asked"}));
  EXPECT_EQ(of_b[1],
            event_of({numbers[3], at(9), b_.id, two.id, pending, terminating, "asked to"}));
  ASSERT_VALUE(of_a, store().events(a_.id, one.id, numbers[0], 100));
  EXPECT_EQ(of_a.size(), 1U);
  ASSERT_VALUE(of_a, store().events(a_.id, std::nullopt, 0, 1));
  EXPECT_EQ(of_a.size(), 1U);
  ASSERT_VALUE(of_a, store().events(a_.id, std::nullopt, UINT64_MAX, 100));
  EXPECT_THAT(of_a, IsEmpty());
  ASSERT_VALUE(auto last, store().last_event());
  EXPECT_GE(last, numbers[3]);
}

TEST_P(MicrovmConformance, ForgettingKeepsUsageAndNeverGivesANumberTwice) {
  auto old = walk(store(), add(store(), sample_microvm(1, a_.id)), {terminating, terminated});
  auto fresh = walk(store(), add(store(), sample_microvm(100, a_.id)), {terminating, terminated});
  add(store(), sample_microvm(2, a_.id));
  ASSERT_DONE(store().save_meters({sample_usage(1, a_.id), sample_usage(100, a_.id)}));
  ASSERT_VALUE(auto none, store().forget_terminated(*old.terminated));
  EXPECT_EQ(none, 0U);
  ASSERT_VALUE(auto gone, store().forget_terminated(*old.terminated + core::Millis(1)));
  EXPECT_EQ(gone, 1U);
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, old.id));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto events, store().events(a_.id, old.id, 0, 100));
  EXPECT_THAT(events, IsEmpty());
  ASSERT_VALUE(auto usage, store().usage(a_.id, at(0), 100));
  EXPECT_THAT(usage, testing::SizeIs(2));
  ASSERT_VALUE(const auto before, store().last_event());
  ASSERT_VALUE(gone, store().forget_terminated(at(10'000)));
  EXPECT_EQ(gone, 1U);
  ASSERT_VALUE(auto last, store().last_event());
  EXPECT_GE(last, before);
  add(store(), sample_microvm(3, a_.id));
  ASSERT_VALUE(events, store().events(a_.id, std::nullopt, before, 100));
  EXPECT_EQ(events.size(), 1U);
}

TEST_P(MicrovmConformance, ListsNewestFirstThroughEveryFilter) {
  for (int n = 0; n < 6; ++n) {
    auto microvm = sample_microvm(n, a_.id);
    microvm.image = core::ImageId(n < 3 ? "image-x" : "image-y");
    microvm.image_version = n % 3 == 0 ? 1 : 2;
    add(store(), microvm);
  }
  ASSERT_VALUE(auto five, store().find_microvm(a_.id, core::MicrovmId("microvm-5")));
  walk(store(), *five, {running});
  auto list = [&](const MicrovmFilter& filter) {
    auto page = store().list_microvms(a_.id, filter, {});
    EXPECT_TRUE(page);
    return ids(page->items);
  };
  EXPECT_THAT(list({}), ElementsAre("microvm-5", "microvm-4", "microvm-3", "microvm-2", "microvm-1",
                                    "microvm-0"));
  EXPECT_THAT(list({.image = core::ImageId("image-x")}),
              ElementsAre("microvm-2", "microvm-1", "microvm-0"));
  EXPECT_THAT(list({.version = 1}), ElementsAre("microvm-3", "microvm-0"));
  EXPECT_THAT(list({.state = running}), ElementsAre("microvm-5"));
  EXPECT_THAT(list({.tag = {{"color", "blue"}}}),
              ElementsAre("microvm-5", "microvm-3", "microvm-1"));
  EXPECT_THAT(list({.tag = {{"k\"\\é", "v'\n\xF0\x9F\x94\xA5"}}}), testing::SizeIs(6));
  EXPECT_THAT(list({.tag = {{"color", ""}}}), IsEmpty());
  EXPECT_THAT(list({.image = core::ImageId("image-y"), .version = 2, .tag = {{"color", "red"}}}),
              ElementsAre("microvm-4"));
}

TEST_P(MicrovmConformance, PagesMissNothingWhileMicrovmsAreAdded) {
  std::vector<std::string> expected;
  int next = 0;
  auto add_at = [&](core::Time started) {
    auto microvm = sample_microvm(next++, a_.id);
    microvm.started = started;
    add(store(), microvm);
    return microvm.id.str();
  };
  // Several of the same time: only the id tells them apart.
  for (int n = 0; n < 60; ++n) expected.push_back(add_at(at(n / 7)));
  for (std::uint32_t size : {1U, 7U, 60U, 1000U}) {
    std::vector<std::string> seen;
    std::vector<std::string> added;
    PageRequest request{.size = size};
    do {
      ASSERT_VALUE(auto page,
                   store().list_microvms(a_.id, {.image = core::ImageId("image-1")}, request));
      EXPECT_LE(page.items.size(), size);
      for (const auto& id : ids(page.items)) seen.push_back(id);
      added.push_back(add_at(at(1000 + next)));
      request.token = page.next;
    } while (!request.token.empty());
    EXPECT_THAT(seen, testing::UnorderedElementsAreArray(expected));
    expected.insert(expected.end(), added.begin(), added.end());
  }
}

TEST_P(MicrovmConformance, PageTokensBelongToOneFilter) {
  for (int n = 0; n < 4; ++n) add(store(), sample_microvm(n, a_.id));
  const MicrovmFilter filter{.tag = {{"k\"\\é", "v'\n\xF0\x9F\x94\xA5"}}};
  ASSERT_VALUE(auto page, store().list_microvms(a_.id, filter, {.size = 1}));
  const PageRequest next{.size = 1, .token = page.next};
  EXPECT_TRUE(store().list_microvms(a_.id, filter, next));
  EXPECT_EQ(code_of(store().list_microvms(a_.id, {}, next)), Code::invalid);
  EXPECT_EQ(code_of(store().list_microvms(b_.id, filter, next)), Code::invalid);
  EXPECT_EQ(code_of(store().list_microvms(a_.id, {.state = pending}, next)), Code::invalid);
  EXPECT_EQ(code_of(store().list_images(a_.id, "", next)), Code::invalid);
}

TEST_P(MicrovmConformance, MetersAreReplacedTogether) {
  const auto one = sample_usage(1, a_.id);
  const auto two = sample_usage(2, a_.id);
  const auto other = sample_usage(3, b_.id);
  const auto orphan = sample_usage(4, core::TenantId("no"));
  ASSERT_DONE(store().save_meters({one, two, other, orphan}));
  ASSERT_VALUE(auto meter, store().meter(one.microvm));
  EXPECT_THAT(meter, Optional(one.meter));
  ASSERT_VALUE(meter, store().meter(orphan.microvm));
  EXPECT_EQ(meter, std::nullopt);
  ASSERT_VALUE(auto usage, store().usage(a_.id, at(0), 100));
  ASSERT_EQ(usage.size(), 2U);
  EXPECT_EQ(usage[0].microvm, two.microvm);
  EXPECT_EQ(usage[0].tenant, a_.id);
  EXPECT_EQ(usage[0].meter, two.meter);
  EXPECT_EQ(usage[1].meter, one.meter);
  ASSERT_VALUE(auto total, store().usage_total(a_.id, at(0)));
  core::Usage both = one.meter.total;
  both += two.meter.total;
  EXPECT_EQ(total, both);
  ASSERT_VALUE(usage, store().usage(a_.id, at(2), 100));
  EXPECT_EQ(usage.size(), 1U);
  ASSERT_VALUE(total, store().usage_total(a_.id, at(2)));
  EXPECT_EQ(total, two.meter.total);
  ASSERT_VALUE(total, store().usage_total(core::TenantId("no"), at(0)));
  EXPECT_EQ(total, core::Usage{});
  ASSERT_VALUE(usage, store().usage(a_.id, at(0), 1));
  ASSERT_EQ(usage.size(), 1U);
  EXPECT_EQ(usage[0].microvm, two.microvm);

  auto more = one;
  more.meter.total += two.meter.total;
  more.meter.until = at(500);
  ASSERT_DONE(store().save_meters({more}));
  ASSERT_VALUE(meter, store().meter(one.microvm));
  EXPECT_THAT(meter, Optional(more.meter));
  ASSERT_DONE(store().save_meters({}));
}

TEST_P(MicrovmConformance, AMeterIsWrittenWithTheStateOrNotAtAll) {
  const auto microvm = add(store(), sample_microvm(1, a_.id));
  const core::Meter meter = sample_usage(1, a_.id).meter;
  MicrovmChange change{
      .id = microvm.id, .expected = microvm.revision + 1, .state = running, .meter = meter};
  EXPECT_EQ(code_of(store().change(change)), Code::conflict);
  ASSERT_VALUE(auto found, store().meter(microvm.id));
  EXPECT_EQ(found, std::nullopt);
  change.expected = microvm.revision;
  ASSERT_DONE(store().change(change));
  ASSERT_VALUE(found, store().meter(microvm.id));
  EXPECT_THAT(found, Optional(meter));
}

TEST_P(MicrovmConformance, RemovingATenantTakesAllItHad) {
  auto microvm = add(store(), sample_microvm(1, a_.id));
  const auto kept = add(store(), sample_microvm(2, b_.id));
  ASSERT_DONE(store().create_key(sample_key(1, a_.id)));
  ASSERT_DONE(store().create_image(sample_image(1, a_.id)));
  ASSERT_DONE(store().create_version(sample_version(sample_image(1, a_.id).id, 1)));
  ASSERT_DONE(store().save_meters({sample_usage(1, a_.id), sample_usage(2, b_.id)}));
  EXPECT_EQ(code_of(store().remove_tenant(a_.id)), Code::conflict);
  microvm = walk(store(), microvm, {terminating});
  EXPECT_EQ(code_of(store().remove_tenant(a_.id)), Code::conflict);
  walk(store(), microvm, {terminated});
  ASSERT_DONE(store().remove_tenant(a_.id));
  EXPECT_EQ(code_of(store().remove_tenant(a_.id)), Code::not_found);

  ASSERT_VALUE(auto key, store().find_key(sample_key(1, a_.id).id));
  EXPECT_EQ(key, std::nullopt);
  ASSERT_VALUE(auto versions, store().all_versions());
  EXPECT_THAT(versions, IsEmpty());
  ASSERT_VALUE(auto found, store().find_by_endpoint(microvm.endpoint));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto meter, store().meter(microvm.id));
  EXPECT_EQ(meter, std::nullopt);
  ASSERT_VALUE(auto events, store().events(a_.id, std::nullopt, 0, 100));
  EXPECT_THAT(events, IsEmpty());
  ASSERT_VALUE(found, store().find_microvm(b_.id, kept.id));
  EXPECT_THAT(found, Optional(kept));
  ASSERT_VALUE(meter, store().meter(kept.id));
  EXPECT_TRUE(meter);
}

}  // namespace
}  // namespace firebreak::store
