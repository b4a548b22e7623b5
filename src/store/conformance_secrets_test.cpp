#include <gmock/gmock.h>

#include "store/conformance.h"

namespace firebreak::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Deadline soon() {
  return Deadline::in(std::chrono::seconds(20));
}

core::Secret sample_secret(const core::TenantId& tenant, const std::string& name) {
  return {.tenant = tenant,
          .name = name,
          .sealed = std::string("\0sealed\xff", 8),
          .set = core::from_unix_ms(1'700'000'000'123)};
}

TEST_P(ImageConformance, KeepsSecretsOfEachTenant) {
  const core::Secret one = sample_secret(a_.id, "one");
  core::Secret two = sample_secret(a_.id, "two");
  const core::Secret other = sample_secret(b_.id, "one");
  ASSERT_DONE(store().put_secret(two));
  ASSERT_DONE(store().put_secret(one));
  ASSERT_DONE(store().put_secret(other));
  two.sealed = "another";
  ASSERT_DONE(store().put_secret(two));
  ASSERT_VALUE(const auto all, store().all_secrets());
  EXPECT_THAT(all, testing::UnorderedElementsAre(one, two, other));
  EXPECT_EQ(code_of(store().put_secret(sample_secret(core::TenantId("999999999999"), "x"))),
            Code::not_found);
}

TEST_P(ImageConformance, RemovesASecretOfItsTenantOnly) {
  ASSERT_DONE(store().put_secret(sample_secret(a_.id, "one")));
  EXPECT_EQ(code_of(store().remove_secret(b_.id, "one")), Code::not_found);
  ASSERT_DONE(store().remove_secret(a_.id, "one"));
  EXPECT_EQ(code_of(store().remove_secret(a_.id, "one")), Code::not_found);
  ASSERT_DONE(store().put_secret(sample_secret(a_.id, "two")));
  ASSERT_DONE(store().remove_tenant(a_.id));
  ASSERT_VALUE(const auto all, store().all_secrets());
  EXPECT_THAT(all, IsEmpty());
}

TEST_P(ImageConformance, ATenantHasSoManySecretsAtMost) {
  ASSERT_VALUE(auto all, store().begin(Access::write, soon()));
  for (std::size_t i = 0; i < core::kMostSecrets; ++i)
    ASSERT_DONE(store().put_secret(sample_secret(a_.id, "s" + std::to_string(i))));
  ASSERT_DONE(all.commit(soon()));
  EXPECT_EQ(code_of(store().put_secret(sample_secret(a_.id, "more"))), Code::exhausted);
  ASSERT_DONE(store().put_secret(sample_secret(a_.id, "s7")));
  ASSERT_DONE(store().put_secret(sample_secret(b_.id, "more")));
}

}  // namespace
}  // namespace firebreak::store
