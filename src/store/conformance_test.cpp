#include "store/conformance.h"

#include <gmock/gmock.h>

namespace firebreak::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

template <class T>
std::vector<std::string> ids(const std::vector<T>& items) {
  std::vector<std::string> out;
  for (const T& item : items) out.push_back(item.id.str());
  return out;
}

TEST_P(TenantConformance, KeepsTenants) {
  const core::Tenant a = sample_tenant(1);
  const core::Tenant b = sample_tenant(2);
  ASSERT_DONE(store().create_tenant(b));
  ASSERT_DONE(store().create_tenant(a));
  ASSERT_VALUE(auto found, store().find_tenant(a.id));
  EXPECT_THAT(found, Optional(a));
  ASSERT_VALUE(auto all, store().list_tenants());
  EXPECT_THAT(all, ElementsAre(a, b));
  ASSERT_VALUE(auto missing, store().find_tenant(core::TenantId("no")));
  EXPECT_EQ(missing, std::nullopt);
}

TEST_P(TenantConformance, RefusesATakenTenantIdOrName) {
  core::Tenant tenant = sample_tenant(1);
  ASSERT_DONE(store().create_tenant(tenant));
  core::Tenant same_name = sample_tenant(2);
  same_name.name = tenant.name;
  core::Tenant same_id = sample_tenant(3);
  same_id.id = tenant.id;
  EXPECT_EQ(code_of(store().create_tenant(same_name)), Code::conflict);
  auto refused = store().create_tenant(same_id);
  EXPECT_EQ(code_of(refused), Code::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("tenant-3: it exists already"));
}

TEST_P(TenantConformance, SetsLimits) {
  const core::Tenant tenant = sample_tenant(1);
  ASSERT_DONE(store().create_tenant(tenant));
  const core::TenantLimits limits{.microvms = 1, .memory_mib = 2, .images = 3};
  ASSERT_DONE(store().set_limits(tenant.id, limits));
  ASSERT_VALUE(auto found, store().find_tenant(tenant.id));
  EXPECT_EQ(found->limits, limits);
  EXPECT_EQ(code_of(store().set_limits(core::TenantId("no"), limits)), Code::not_found);
}

TEST_P(TenantConformance, EgressPoliciesOfATenantAreLimited) {
  const core::Tenant one = sample_tenant(1);
  const core::Tenant other = sample_tenant(2);
  ASSERT_DONE(store().create_tenant(one));
  ASSERT_DONE(store().create_tenant(other));
  core::EgressPolicy policy = core::internet_egress();
  for (int i = 0; i < 100; ++i) {
    policy.name = "p" + std::to_string(i);
    ASSERT_DONE(store().put_egress_policy(one.id, policy));
  }
  ASSERT_DONE(store().put_egress_policy(one.id, policy));  // replaced
  policy.name = "more";
  const auto refused = store().put_egress_policy(one.id, policy);
  EXPECT_EQ(code_of(refused), Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("remove one"));
  ASSERT_DONE(store().put_egress_policy(other.id, policy));
  ASSERT_DONE(store().remove_egress_policy(one.id, "p7"));
  ASSERT_DONE(store().put_egress_policy(one.id, policy));
}

TEST_P(TenantConformance, KeepsKeysOfEachTenant) {
  const auto a = sample_tenant(1);
  const auto b = sample_tenant(2);
  ASSERT_DONE(store().create_tenant(a));
  ASSERT_DONE(store().create_tenant(b));
  const core::Key one = sample_key(1, a.id);
  const core::Key two = sample_key(2, a.id);
  const core::Key other = sample_key(3, b.id);
  for (const auto& key : {one, two, other}) ASSERT_DONE(store().create_key(key));
  ASSERT_VALUE(auto found, store().find_key(one.id));
  EXPECT_THAT(found, Optional(one));
  ASSERT_VALUE(found, store().find_key_by_hash(other.api_key_hash));
  EXPECT_THAT(found, Optional(other));
  ASSERT_VALUE(auto listed, store().list_keys(a.id));
  EXPECT_THAT(listed, ElementsAre(one, two));
  EXPECT_EQ(code_of(store().create_key(one)), Code::conflict);
  EXPECT_EQ(code_of(store().create_key(sample_key(9, core::TenantId("no")))), Code::not_found);
}

TEST_P(TenantConformance, KeysWithoutABearerKeyAreNotFoundByHash) {
  const auto tenant = sample_tenant(1);
  ASSERT_DONE(store().create_tenant(tenant));
  for (int n : {1, 2}) {
    core::Key key = sample_key(n, tenant.id);
    key.api_key_hash.clear();
    ASSERT_DONE(store().create_key(key));
  }
  core::Key same_hash = sample_key(3, tenant.id);
  ASSERT_DONE(store().create_key(same_hash));
  same_hash.id = core::KeyId("AKIA-other");
  EXPECT_EQ(code_of(store().create_key(same_hash)), Code::conflict);
  ASSERT_VALUE(auto found, store().find_key_by_hash(""));
  EXPECT_EQ(found, std::nullopt);
}

TEST_P(TenantConformance, RevokesAKeyOnceAndOnlyForItsTenant) {
  const auto a = sample_tenant(1);
  const auto b = sample_tenant(2);
  ASSERT_DONE(store().create_tenant(a));
  ASSERT_DONE(store().create_tenant(b));
  const core::Key key = sample_key(1, a.id);
  ASSERT_DONE(store().create_key(key));
  auto foreign = store().revoke_key(b.id, key.id, at(5));
  auto missing = store().revoke_key(b.id, core::KeyId("AKIA-no"), at(5));
  EXPECT_EQ(code_of(foreign), Code::not_found);
  EXPECT_EQ(code_of(missing), Code::not_found);
  ASSERT_VALUE(auto untouched, store().find_key(key.id));
  EXPECT_EQ(untouched->revoked, std::nullopt);
  ASSERT_DONE(store().revoke_key(a.id, key.id, at(6)));
  ASSERT_DONE(store().revoke_key(a.id, key.id, at(7)));
  ASSERT_VALUE(auto revoked, store().find_key(key.id));
  EXPECT_THAT(revoked->revoked, Optional(at(6)));
}

TEST_P(ImageConformance, AreSeenByTheirTenantOnlyButTheSystemsByAll) {
  const auto own = sample_image(1, a_.id);
  const auto system = sample_image(2, core::kSystemTenant);
  ASSERT_DONE(store().create_image(own));
  ASSERT_DONE(store().create_image(system));
  ASSERT_VALUE(auto found, store().find_image(a_.id, own.id));
  EXPECT_THAT(found, Optional(own));
  ASSERT_VALUE(found, store().find_image(b_.id, own.id));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(found, store().find_image(b_.id, system.id));
  EXPECT_THAT(found, Optional(system));
  ASSERT_VALUE(found, store().find_image_by_name(b_.id, own.name));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto of_b, store().list_images(b_.id, "", {}));
  EXPECT_THAT(of_b.items, ElementsAre(system));
  ASSERT_VALUE(auto of_a, store().list_images(a_.id, "", {}));
  EXPECT_THAT(of_a.items, ElementsAre(system, own));
}

TEST_P(ImageConformance, OwnNameComesBeforeTheSystems) {
  auto system = sample_image(1, core::kSystemTenant);
  auto own = sample_image(2, a_.id);
  system.name = own.name = "python";
  ASSERT_DONE(store().create_image(system));
  ASSERT_DONE(store().create_image(own));
  ASSERT_VALUE(auto found, store().find_image_by_name(a_.id, "python"));
  EXPECT_THAT(found, Optional(own));
  ASSERT_VALUE(found, store().find_image_by_name(b_.id, "python"));
  EXPECT_THAT(found, Optional(system));
  auto taken = sample_image(3, a_.id);
  taken.name = "python";
  EXPECT_EQ(code_of(store().create_image(taken)), Code::conflict);
  taken.tenant = b_.id;
  EXPECT_TRUE(store().create_image(taken));
  taken.id = core::ImageId("image-4");
  taken.tenant = core::TenantId("no");
  EXPECT_EQ(code_of(store().create_image(taken)), Code::not_found);
}

TEST_P(ImageConformance, AreUpdatedOnlyByTheirTenant) {
  auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  image.state = core::ImageState::update_failed;
  image.tags = {{"x", "y"}};
  image.updated = at(99);
  auto foreign = image;
  foreign.tenant = b_.id;
  EXPECT_EQ(code_of(store().update_image(foreign)), Code::not_found);
  ASSERT_DONE(store().update_image(image));
  ASSERT_VALUE(auto found, store().find_image(a_.id, image.id));
  EXPECT_THAT(found, Optional(image));
}

TEST_P(ImageConformance, TagsThatAreNotTextAreRefused) {
  auto image = sample_image(1, a_.id);
  image.tags = {{"bad", "\xff\xfe"}};
  EXPECT_EQ(code_of(store().create_image(image)), Code::invalid);
}

TEST_P(ImageConformance, AreListedByPartOfTheirName) {
  for (int n = 0; n < 12; ++n) ASSERT_DONE(store().create_image(sample_image(n, a_.id)));
  ASSERT_VALUE(auto page, store().list_images(a_.id, "e-1", {}));
  EXPECT_THAT(ids(page.items), ElementsAre("image-11", "image-10", "image-1"));
  ASSERT_VALUE(page, store().list_images(a_.id, "%", {}));
  EXPECT_THAT(page.items, IsEmpty());
}

TEST_P(ImageConformance, PagesStayWholeWhileImagesAreAdded) {
  for (int n = 10; n < 20; ++n) ASSERT_DONE(store().create_image(sample_image(n, a_.id)));
  std::vector<std::string> seen;
  PageRequest request{.size = 3};
  int added = 20;
  do {
    ASSERT_VALUE(auto page, store().list_images(a_.id, "name", request));
    for (const auto& id : ids(page.items)) seen.push_back(id);
    ASSERT_DONE(store().create_image(sample_image(added++, a_.id)));
    request.token = page.next;
  } while (!request.token.empty());
  EXPECT_THAT(seen, ElementsAre("image-19", "image-18", "image-17", "image-16", "image-15",
                                "image-14", "image-13", "image-12", "image-11", "image-10"));
}

TEST_P(ImageConformance, PageTokensBelongToOneListing) {
  for (int n = 0; n < 5; ++n) ASSERT_DONE(store().create_image(sample_image(n, a_.id)));
  ASSERT_VALUE(auto page, store().list_images(a_.id, "name", {.size = 2}));
  auto with = [&](std::string token) { return PageRequest{.size = 2, .token = std::move(token)}; };
  EXPECT_TRUE(store().list_images(a_.id, "name", with(page.next)));
  EXPECT_EQ(code_of(store().list_images(b_.id, "name", with(page.next))), Code::invalid);
  EXPECT_EQ(code_of(store().list_images(a_.id, "", with(page.next))), Code::invalid);
  EXPECT_EQ(code_of(store().list_microvms(a_.id, {}, with(page.next))), Code::invalid);
  for (const char* bad : {"x", "zz", "0000", "'; --"}) {
    EXPECT_EQ(code_of(store().list_images(a_.id, "name", with(bad))), Code::invalid);
  }
  for (std::size_t i = 0; i < page.next.size(); ++i) {
    std::string changed = page.next;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(code_of(store().list_images(a_.id, "name", with(changed))), Code::invalid) << i;
  }
  EXPECT_EQ(code_of(store().list_images(a_.id, "", {.size = 0})), Code::invalid);
  EXPECT_EQ(code_of(store().list_images(a_.id, "", {.size = 1001})), Code::invalid);
}

TEST_P(ImageConformance, HaveVersions) {
  const auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  const auto one = sample_version(image.id, 1);
  auto two = sample_version(image.id, 2);
  ASSERT_DONE(store().create_version(one));
  ASSERT_DONE(store().create_version(two));
  ASSERT_VALUE(auto found, store().find_version(image.id, 1));
  EXPECT_THAT(found, Optional(one));
  EXPECT_EQ(code_of(store().create_version(one)), Code::conflict);
  EXPECT_EQ(code_of(store().create_version(sample_version(core::ImageId("no"), 1))),
            Code::not_found);
  two.state = core::VersionState::failed;
  two.active = false;
  two.state_reason = "Run lifecycle hook returned HTTP status 500.";
  two.hooks = {};
  two.env.clear();
  two.snapshot.clear();
  two.updated = std::nullopt;
  ASSERT_DONE(store().update_version(two));
  ASSERT_VALUE(auto all, store().list_versions(image.id));
  EXPECT_THAT(all, ElementsAre(one, two));
  ASSERT_VALUE(all, store().all_versions());
  EXPECT_THAT(all, ElementsAre(one, two));
  EXPECT_EQ(code_of(store().update_version(sample_version(image.id, 9))), Code::not_found);
  ASSERT_DONE(store().remove_version(image.id, 2));
  EXPECT_EQ(code_of(store().remove_version(image.id, 2)), Code::not_found);
  ASSERT_VALUE(found, store().find_version(image.id, 2));
  EXPECT_EQ(found, std::nullopt);
}

TEST_P(ImageConformance, LatestRunnableIsTheHighestThatCanRun) {
  const auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  ASSERT_VALUE(auto latest, store().latest_runnable(image.id));
  EXPECT_EQ(latest, std::nullopt);
  for (std::uint32_t number : {1U, 2U, 3U, 10U}) {
    auto version = sample_version(image.id, number);
    if (number == 10) version.active = false;
    if (number == 3) version.state = core::VersionState::deleting;
    ASSERT_DONE(store().create_version(version));
  }
  ASSERT_VALUE(latest, store().latest_runnable(image.id));
  EXPECT_EQ(latest->number, 2U);
}

TEST_P(ImageConformance, AreFoundByTheSnapshotTheyStandOn) {
  const auto one = sample_image(1, a_.id);
  const auto two = sample_image(2, b_.id);
  ASSERT_DONE(store().create_image(one));
  ASSERT_DONE(store().create_image(two));
  const auto first = sample_version(one.id, 1);
  const auto same = sample_version(two.id, 1);
  auto other = sample_version(one.id, 2);
  other.snapshot = "snap-2";
  auto none = sample_version(one.id, 3);
  none.snapshot.clear();
  for (const auto& version : {first, same, other, none})
    ASSERT_DONE(store().create_version(version));
  ASSERT_VALUE(auto found, store().versions_with_snapshot("snap-1"));
  EXPECT_THAT(found, ElementsAre(first, same));
  ASSERT_VALUE(found, store().versions_with_snapshot("snap"));
  EXPECT_THAT(found, IsEmpty());
  ASSERT_VALUE(found, store().versions_with_snapshot(""));
  EXPECT_THAT(found, IsEmpty());
}

TEST_P(ImageConformance, HaveBuilds) {
  const auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  ASSERT_DONE(store().create_version(sample_version(image.id, 1)));
  ASSERT_DONE(store().create_version(sample_version(image.id, 2)));
  const auto one = sample_build(1, image.id, 1);
  auto two = sample_build(2, image.id, 1);
  ASSERT_DONE(store().create_build(one));
  ASSERT_DONE(store().create_build(two));
  EXPECT_EQ(code_of(store().create_build(one)), Code::conflict);
  EXPECT_EQ(code_of(store().create_build(sample_build(3, image.id, 9))), Code::not_found);
  two.state = core::BuildState::failed;
  two.state_reason = "exit 1";
  two.memory_bytes = two.disk_bytes = 0;
  two.finished = std::nullopt;
  ASSERT_DONE(store().update_build(two));
  ASSERT_VALUE(auto found, store().find_build(image.id, 1, two.id));
  EXPECT_THAT(found, Optional(two));
  ASSERT_VALUE(found, store().find_build(image.id, 2, two.id));
  EXPECT_EQ(found, std::nullopt);
  ASSERT_VALUE(auto all, store().list_builds(image.id, 1));
  EXPECT_THAT(all, ElementsAre(two, one));
  auto elsewhere = two;
  elsewhere.version = 2;
  EXPECT_EQ(code_of(store().update_build(elsewhere)), Code::not_found);
}

TEST_P(ImageConformance, RemovingOneTakesVersionsAndBuildsAlong) {
  const auto image = sample_image(1, a_.id);
  ASSERT_DONE(store().create_image(image));
  ASSERT_DONE(store().create_version(sample_version(image.id, 1)));
  ASSERT_DONE(store().create_build(sample_build(1, image.id, 1)));
  ASSERT_DONE(store().remove_image(image.id));
  EXPECT_EQ(code_of(store().remove_image(image.id)), Code::not_found);
  ASSERT_VALUE(auto versions, store().all_versions());
  EXPECT_THAT(versions, IsEmpty());
  ASSERT_VALUE(auto builds, store().list_builds(image.id, 1));
  EXPECT_THAT(builds, IsEmpty());
}

}  // namespace
}  // namespace firebreak::store
