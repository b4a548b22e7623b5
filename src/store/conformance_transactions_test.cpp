// What a transaction promises to the one who holds it and to everybody else. The other connections
// are those of the same store: two tasks, or two servers.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using enum core::MicrovmState;
using testing::IsEmpty;

Deadline soon() {
  return Deadline::in(std::chrono::seconds(20));
}

std::size_t tenants_in(const Store& store) {
  const auto all = store.list_tenants();
  EXPECT_TRUE(all) << all.error().text();
  return all ? all->size() : 0;
}

TEST_P(MicrovmConformance, ATransactionIsSeenWholeOrNotAtAll) {
  ASSERT_VALUE(const auto other, store().connect());
  const std::size_t before = tenants_in(*other);
  ASSERT_VALUE(auto all, store().begin(Access::write, soon()));
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  ASSERT_DONE(store().create_tenant(sample_tenant(4)));
  EXPECT_EQ(tenants_in(store()), before + 2);
  EXPECT_EQ(tenants_in(*other), before);
  ASSERT_DONE(all.commit(soon()));
  EXPECT_EQ(tenants_in(*other), before + 2);
}

TEST_P(MicrovmConformance, ATransactionThatIsLeftChangesNothing) {
  ASSERT_VALUE(const auto other, store().connect());
  const std::size_t before = tenants_in(store());
  ASSERT_VALUE(const auto last, store().last_event());
  {
    ASSERT_VALUE(const auto all, store().begin(Access::write, soon()));
    ASSERT_DONE(store().create_tenant(sample_tenant(3)));
    ASSERT_VALUE(const auto made, store().create_microvm(sample_microvm(1, a_.id), {}));
    walk(store(), made.microvm, {running, suspending});
  }
  for (Store* each : {&store(), other.get()}) {
    EXPECT_EQ(tenants_in(*each), before);
    ASSERT_VALUE(const auto live, each->live_microvms());
    EXPECT_THAT(live, IsEmpty());
    ASSERT_VALUE(const auto events, each->events(a_.id, std::nullopt, last, 100));
    EXPECT_THAT(events, IsEmpty());
  }
}

TEST_P(MicrovmConformance, ACallThatFailedLeavesTheRestOfItsTransaction) {
  auto first = sample_microvm(1, a_.id);
  first.client_token = "token";
  ASSERT_VALUE(auto all, store().begin(Access::write, soon()));
  ASSERT_DONE(store().create_microvm(first, {}));
  auto again = sample_microvm(2, a_.id);
  again.name = first.name;
  EXPECT_EQ(code_of(store().create_microvm(again, {})), Code::conflict);
  EXPECT_EQ(code_of(store().create_tenant(a_)), Code::conflict);
  EXPECT_EQ(code_of(store().remove_tenant(a_.id)), Code::conflict);
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  ASSERT_DONE(all.commit(soon()));
  ASSERT_VALUE(const auto live, store().live_microvms());
  ASSERT_EQ(live.size(), 1U);
  EXPECT_EQ(live[0].id, first.id);
  ASSERT_VALUE(const auto events, store().events(a_.id, std::nullopt, 0, 100));
  EXPECT_EQ(events.size(), 1U);
  ASSERT_VALUE(const auto third, store().find_tenant(sample_tenant(3).id));
  EXPECT_TRUE(third);
}

TEST_P(MicrovmConformance, AConnectionHasOneTransactionAtATime) {
  ASSERT_VALUE(auto first, store().begin(Access::write, soon()));
  EXPECT_EQ(code_of(store().begin(Access::write, soon())), Code::internal);
  EXPECT_EQ(code_of(store().begin(Access::read, soon())), Code::internal);
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  ASSERT_DONE(first.commit(soon()));
  EXPECT_TRUE(store().begin(Access::write, soon()));
}

TEST_P(MicrovmConformance, AWriterWaitsForAnotherUntilItsDeadline) {
  ASSERT_VALUE(const auto other, store().connect());
  ASSERT_VALUE(auto all, store().begin(Access::write, soon()));
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  EXPECT_EQ(code_of(other->begin(Access::write, Deadline::in(std::chrono::milliseconds(20)))),
            Code::timeout);
  EXPECT_EQ(code_of(other->begin(Access::write, Deadline::in(std::chrono::nanoseconds(0)))),
            Code::timeout);
  Result<> second;
  std::jthread waits([&] { second = other->create_tenant(sample_tenant(4)); });
  ASSERT_DONE(all.commit(soon()));
  waits.join();
  EXPECT_TRUE(second) << second.error().text();
  EXPECT_EQ(tenants_in(store()), 5U);
}

TEST_P(MicrovmConformance, WhatIsReadInATransactionIsOfOneMoment) {
  ASSERT_VALUE(const auto other, store().connect());
  {
    ASSERT_VALUE(const auto moment, store().begin(Access::read, soon()));
    const std::size_t before = tenants_in(store());
    ASSERT_DONE(other->create_tenant(sample_tenant(3)));
    EXPECT_EQ(tenants_in(*other), before + 1);
    EXPECT_EQ(tenants_in(store()), before);
  }
  EXPECT_EQ(tenants_in(store()), tenants_in(*other));
}

TEST_P(MicrovmConformance, ACommitAfterItsDeadlineChangesNothing) {
  const std::size_t before = tenants_in(store());
  ASSERT_VALUE(auto all, store().begin(Access::write, soon()));
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  EXPECT_EQ(code_of(all.commit(Deadline::in(std::chrono::nanoseconds(0)))), Code::timeout);
  EXPECT_EQ(tenants_in(store()), before);
  ASSERT_DONE(store().create_tenant(sample_tenant(4)));
}

TEST_P(MicrovmConformance, WhatReachesTheDiskLaterIsSeenAtOnce) {
  ASSERT_VALUE(const auto other, store().connect());
  const std::size_t before = tenants_in(*other);
  ASSERT_VALUE(auto all, store().begin(Access::write, soon(), Durability::later));
  ASSERT_DONE(store().create_tenant(sample_tenant(3)));
  ASSERT_DONE(all.commit(soon()));
  EXPECT_EQ(tenants_in(*other), before + 1);
  // Anybody's sync is everybody's.
  ASSERT_DONE(other->sync());
}

}  // namespace
}  // namespace firebreak::store
