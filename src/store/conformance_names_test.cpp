// What people call microVMs, and what administrators see of all tenants.
#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using enum core::MicrovmState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

core::Microvm named(int n, const core::TenantId& tenant, const std::string& name) {
  auto microvm = sample_microvm(n, tenant);
  microvm.name = name;
  return microvm;
}

core::Microvm add(Store& store, const core::Microvm& microvm) {
  auto created = store.create_microvm(microvm, core::TenantLimits{});
  EXPECT_TRUE(created) << created.error().text();
  return created ? created->microvm : microvm;
}

TEST_P(MicrovmConformance, ANameBelongsToOneThatLives) {
  auto first = add(store(), named(1, a_.id, "web"));
  const auto taken = store().create_microvm(named(2, a_.id, "web"), {});
  EXPECT_EQ(code_of(taken), Code::conflict);
  EXPECT_THAT(taken.error().message, HasSubstr("microvm-1 has the name web; "));
  const auto foreign = add(store(), named(3, b_.id, "web"));
  ASSERT_VALUE(auto found, store().find_microvm_by_name(a_.id, "web"));
  EXPECT_THAT(found, Optional(first.id));
  ASSERT_VALUE(found, store().find_microvm_by_name(b_.id, "web"));
  EXPECT_THAT(found, Optional(foreign.id));

  first = walk(store(), first, {terminating});
  EXPECT_EQ(code_of(store().create_microvm(named(4, a_.id, "web"), {})), Code::conflict);
  first = walk(store(), first, {terminated});
  // Its end leaves the name to others, and to whoever asks what became of it.
  ASSERT_VALUE(found, store().find_microvm_by_name(a_.id, "web"));
  EXPECT_THAT(found, Optional(first.id));
  auto second = add(store(), named(5, a_.id, "web"));
  ASSERT_VALUE(found, store().find_microvm_by_name(a_.id, "web"));
  EXPECT_THAT(found, Optional(second.id));
  walk(store(), second, {terminating, terminated});
  ASSERT_VALUE(found, store().find_microvm_by_name(a_.id, "web"));
  EXPECT_THAT(found, Optional(second.id)) << "the newest";
  ASSERT_VALUE(found, store().find_microvm_by_name(a_.id, "other"));
  EXPECT_EQ(found, std::nullopt);
}

TEST_P(MicrovmConformance, ThoseWithoutANameAreMany) {
  add(store(), named(1, a_.id, ""));
  add(store(), named(2, a_.id, ""));
  ASSERT_VALUE(auto found, store().find_microvm_by_name(a_.id, ""));
  EXPECT_EQ(found, std::nullopt);
}

TEST_P(MicrovmConformance, ANameCanBeChangedAndTakenAway) {
  const auto other = add(store(), named(1, a_.id, "taken"));
  const auto made = add(store(), named(2, a_.id, "old"));
  MicrovmChange change{.id = made.id, .expected = made.revision, .name = "taken"};
  EXPECT_EQ(code_of(store().change(change)), Code::conflict);
  change.name = "new";
  ASSERT_VALUE(auto changed, store().change(change));
  EXPECT_EQ(changed.name, "new");
  ASSERT_VALUE(auto found, store().find_microvm_by_name(a_.id, "old"));
  EXPECT_EQ(found, std::nullopt);
  change.expected = changed.revision;
  ASSERT_VALUE(changed, store().change(change));  // to what it is
  change.expected = changed.revision;
  change.name = "";
  ASSERT_VALUE(changed, store().change(change));
  EXPECT_EQ(changed.name, "");
}

TEST_P(MicrovmConformance, FindsIdsByTheirBeginning) {
  auto one = named(1, a_.id, "");
  one.id = core::MicrovmId("microvm-abcd1111");
  auto two = named(2, a_.id, "");
  two.id = core::MicrovmId("microvm-abcd2222");
  auto foreign = named(3, b_.id, "");
  foreign.id = core::MicrovmId("microvm-abcd3333");
  for (const auto& microvm : {one, two, foreign}) add(store(), microvm);
  ASSERT_VALUE(auto ids, store().microvm_ids_beginning(a_.id, "microvm-abcd"));
  EXPECT_THAT(ids, ElementsAre(one.id, two.id));
  ASSERT_VALUE(ids, store().microvm_ids_beginning(a_.id, "microvm-abcd2"));
  EXPECT_THAT(ids, ElementsAre(two.id));
  ASSERT_VALUE(ids, store().microvm_ids_beginning(a_.id, two.id.str()));
  EXPECT_THAT(ids, ElementsAre(two.id));
  ASSERT_VALUE(ids, store().microvm_ids_beginning(a_.id, "microvm-abcd3"));
  EXPECT_THAT(ids, IsEmpty());
  ASSERT_VALUE(ids, store().microvm_ids_beginning(a_.id, "microvm-abc%"));
  EXPECT_THAT(ids, IsEmpty());
}

TEST_P(MicrovmConformance, TheEndForgetsTheEnvironment) {
  const auto made = add(store(), sample_microvm(1, a_.id));
  EXPECT_THAT(made.env, Not(IsEmpty()));
  const auto asleep = walk(store(), made, {running, suspending, suspended});
  EXPECT_EQ(asleep.env, made.env);
  walk(store(), asleep, {terminating, terminated});
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, made.id));
  EXPECT_THAT(found->env, IsEmpty());
}

TEST_P(MicrovmConformance, AnAdministratorSeesAll) {
  const auto of_a = add(store(), sample_microvm(1, a_.id));
  const auto of_b = add(store(), sample_microvm(2, b_.id));
  ASSERT_VALUE(auto found, store().find_any_microvm(of_b.id));
  EXPECT_THAT(found, Optional(of_b));
  ASSERT_VALUE(found, store().find_any_microvm(core::MicrovmId("no")));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto page, store().list_all_microvms({}, {.size = 1}));
  EXPECT_THAT(page.items, ElementsAre(of_b));
  // A page of one listing is not one of another.
  EXPECT_EQ(code_of(store().list_microvms(a_.id, {}, {.size = 1, .token = page.next})),
            Code::invalid);
  ASSERT_VALUE(page, store().list_all_microvms({}, {.size = 1, .token = page.next}));
  EXPECT_THAT(page.items, ElementsAre(of_a));
  EXPECT_EQ(page.next, "");
  ASSERT_VALUE(page, store().list_all_microvms({.state = running}, {}));
  EXPECT_THAT(page.items, IsEmpty());
}

TEST_P(MicrovmConformance, ANoteIsAnEventWithoutAnotherState) {
  const auto made = add(store(), sample_microvm(1, a_.id));
  ASSERT_DONE(store().note(made.id, "Seen.", at(100)));
  ASSERT_DONE(store().note(made.id, "Seen.", at(130)));  // said already
  ASSERT_DONE(store().note(made.id, "Other.", at(131)));
  ASSERT_DONE(store().note(made.id, "Seen.", at(132)));
  ASSERT_DONE(store().note(made.id, "Seen.", at(192)));  // a minute later
  ASSERT_VALUE(auto events, store().events(a_.id, made.id, 1, 100));
  std::vector<std::string> said;
  for (const core::Event& event : events) {
    said.push_back(event.reason);
    EXPECT_EQ(event.from, pending);
    EXPECT_EQ(event.to, pending);
  }
  EXPECT_THAT(said, ElementsAre("Seen.", "Other.", "Seen.", "Seen."));
  ASSERT_VALUE(auto found, store().find_microvm(a_.id, made.id));
  EXPECT_EQ(found->revision, made.revision);
  EXPECT_EQ(code_of(store().note(core::MicrovmId("no"), "Seen.", at(1))), Code::not_found);
}

}  // namespace
}  // namespace firebreak::store
