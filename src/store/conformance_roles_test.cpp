#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_P(ImageConformance, KeepsRolesOfEachTenant) {
  const core::Role one = sample_role(1);
  const core::Role two = sample_role(2);
  core::Role other = sample_role(1);  // the same name
  other.id = "AROAOTHER";
  ASSERT_VALUE(const core::Role put, store().put_role(a_.id, two));
  EXPECT_EQ(put, two);
  ASSERT_DONE(store().put_role(a_.id, one));
  ASSERT_DONE(store().put_role(b_.id, other));
  ASSERT_VALUE(auto listed, store().list_roles(a_.id));
  EXPECT_THAT(listed, ElementsAre(one, two));
  ASSERT_VALUE(listed, store().list_roles(b_.id));
  EXPECT_THAT(listed, ElementsAre(other));
  EXPECT_EQ(code_of(store().put_role(core::TenantId("999999999999"), sample_role(3))),
            Code::not_found);
}

TEST_P(ImageConformance, AReplacedRoleKeepsWhoItIs) {
  const core::Role before = sample_role(1);
  core::Role after = sample_role(2);
  after.name = before.name;
  ASSERT_DONE(store().put_role(a_.id, before));
  ASSERT_VALUE(const core::Role put, store().put_role(a_.id, after));
  EXPECT_EQ(put.id, before.id);
  EXPECT_EQ(put.created, before.created);
  EXPECT_EQ(put.policy, after.policy);
  ASSERT_VALUE(const auto listed, store().list_roles(a_.id));
  EXPECT_THAT(listed, ElementsAre(put));
}

TEST_P(ImageConformance, RemovesARoleOfItsTenantOnly) {
  ASSERT_DONE(store().put_role(a_.id, sample_role(1)));
  EXPECT_EQ(code_of(store().remove_role(b_.id, "role-1")), Code::not_found);
  ASSERT_DONE(store().remove_role(a_.id, "role-1"));
  EXPECT_EQ(code_of(store().remove_role(a_.id, "role-1")), Code::not_found);
  ASSERT_DONE(store().put_role(a_.id, sample_role(2)));
  ASSERT_DONE(store().remove_tenant(a_.id));
  ASSERT_VALUE(const auto listed, store().list_roles(a_.id));
  EXPECT_THAT(listed, IsEmpty());
}

}  // namespace
}  // namespace firebreak::store
