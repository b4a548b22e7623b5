#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

core::Microvm add(Store& store, int n, const core::TenantId& tenant) {
  auto created = store.create_microvm(sample_microvm(n, tenant), core::TenantLimits{});
  EXPECT_TRUE(created) << created.error().text();
  return created ? created->microvm : core::Microvm{};
}

TEST_P(MicrovmConformance, KeepsTokensOfEachMicrovm) {
  const auto one = add(store(), 1, a_.id);
  const auto two = add(store(), 2, a_.id);
  const auto first = sample_token(1, one);
  auto second = sample_token(2, one);
  second.revoked = std::nullopt;
  second.ports = {.all = true, .ranges = {}};
  second.kind = core::TokenKind::endpoint;
  const auto other = sample_token(3, two);
  for (const auto& token : {second, first, other}) ASSERT_DONE(store().create_token(token));
  ASSERT_VALUE(auto listed, store().list_tokens(a_.id, one.id));
  EXPECT_THAT(listed, ElementsAre(first, second));
  EXPECT_EQ(code_of(store().create_token(first)), Code::conflict);
}

TEST_P(MicrovmConformance, AForeignTokenIsAbsent) {
  const auto mine = add(store(), 1, a_.id);
  auto token = sample_token(1, mine);
  token.revoked = std::nullopt;
  ASSERT_DONE(store().create_token(token));
  ASSERT_VALUE(auto listed, store().list_tokens(b_.id, mine.id));
  EXPECT_THAT(listed, IsEmpty());
  EXPECT_EQ(code_of(store().revoke_token(b_.id, mine.id, token.id, at(9))), Code::not_found);
  const auto other = add(store(), 2, a_.id);
  EXPECT_EQ(code_of(store().revoke_token(a_.id, other.id, token.id, at(9))), Code::not_found);
  auto foreign = sample_token(5, mine);
  foreign.tenant = b_.id;
  EXPECT_EQ(code_of(store().create_token(foreign)), Code::not_found);
  foreign.microvm = core::MicrovmId("none");
  EXPECT_EQ(code_of(store().create_token(foreign)), Code::not_found);
}

TEST_P(MicrovmConformance, RevokedTokensAreKnownUntilTheyExpire) {
  const auto microvm = add(store(), 1, a_.id);
  auto token = sample_token(1, microvm);
  token.revoked = std::nullopt;
  ASSERT_DONE(store().create_token(token));
  ASSERT_VALUE(auto revoked, store().revoked_tokens(at(2)));
  EXPECT_THAT(revoked, IsEmpty());
  ASSERT_DONE(store().revoke_token(a_.id, microvm.id, token.id, at(5)));
  ASSERT_DONE(store().revoke_token(a_.id, microvm.id, token.id, at(6)));
  token.revoked = at(5);
  ASSERT_VALUE(revoked, store().revoked_tokens(at(6)));
  EXPECT_THAT(revoked, ElementsAre(token));
  ASSERT_VALUE(revoked, store().revoked_tokens(token.expires));
  EXPECT_THAT(revoked, IsEmpty());
}

TEST_P(MicrovmConformance, TokensEndWithTimeAndWithTheirMicrovm) {
  const auto microvm = add(store(), 1, a_.id);
  const auto old = sample_token(1, microvm);
  auto later = sample_token(2, microvm);
  later.created = old.expires + core::Seconds(1);
  later.expires = later.created + core::Seconds(60);
  ASSERT_DONE(store().create_token(old));
  ASSERT_DONE(store().create_token(later));
  ASSERT_VALUE(auto listed, store().list_tokens(a_.id, microvm.id));
  EXPECT_THAT(listed, ElementsAre(later));
  const auto ended =
      walk(store(), microvm, {core::MicrovmState::terminating, core::MicrovmState::terminated});
  ASSERT_VALUE(auto forgotten, store().forget_terminated(ended.state_since + core::Seconds(60)));
  EXPECT_EQ(forgotten, 1U);
  ASSERT_VALUE(listed, store().list_tokens(a_.id, microvm.id));
  EXPECT_THAT(listed, IsEmpty());
}

}  // namespace
}  // namespace firebreak::store
