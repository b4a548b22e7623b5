#include "control/version_config.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/sys.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {
namespace {

using testing::ElementsAre;

class SnapshotsMadeBy : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_);
    auto store = store::open_sqlite_store({.path = dir_ + "/store.db"});
    ASSERT_TRUE(store) << store.error().text();
    store_ = *std::move(store);
    for (const core::Tenant& tenant : {victim_, attacker_}) {
      ASSERT_TRUE(store_->create_tenant(tenant));
    }
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  // A version with this config, whose snapshot has the image's name.
  void put(const core::Tenant& tenant, const std::string& name, const json::object& config,
           core::VersionState state = core::VersionState::successful) {
    const core::Image image{.id = core::new_image_id(), .tenant = tenant.id, .name = name};
    ASSERT_TRUE(store_->create_image(image));
    core::ImageVersion version{.image = image.id, .state = state};
    version.snapshot = name;
    version.config = json::serialize(config);
    ASSERT_TRUE(store_->create_version(version));
  }

  const core::Tenant victim_{core::new_tenant_id(), "victim", {}, {}};
  const core::Tenant attacker_{core::new_tenant_id(), "attacker", {}, {}};
  const std::string dir_ = testing::TempDir() + "fb-versions-" + sys::random_hex(8);
  const std::string key_ = std::string(64, 'a');
  std::unique_ptr<store::Store> store_;
};

TEST_F(SnapshotsMadeBy, AreOfTheTenantAndOfExactlyThisKey) {
  const json::object label{{"image", {{"config", {{"Labels", {{"x", key_}}}}}}},
                           {kSnapshotKey, "another"}};
  put(attacker_, "by-label", label);
  put(attacker_, "same-key", {{kSnapshotKey, key_}});
  put(victim_, "own-label", label);
  put(victim_, "longer", {{kSnapshotKey, key_ + "b"}});
  put(victim_, "nested", {{"lambda", {{kSnapshotKey, key_}}}});
  put(victim_, "failed", {{kSnapshotKey, key_}}, core::VersionState::failed);
  put(victim_, "number", {{kSnapshotKey, 7}});
  put(victim_, "right", {{kSnapshotKey, key_}});
  const auto made = snapshots_made_by(*store_, victim_.id, key_);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_THAT(*made, ElementsAre(core::SnapshotRef{core::kFirstEngine, "right"}));
}

TEST(GuestCaOfAVersion, CountsWhenItIsInTheImage) {
  const image::CaMark mark{.sha256 = "aa", .certificates = 3};
  core::ImageVersion version;
  EXPECT_EQ(guest_ca_in(version), image::CaMark());
  version.config = json::serialize(json::object{{kGuestCa, guest_ca_json(mark, true)}});
  EXPECT_EQ(guest_ca_in(version), mark);
  version.config = json::serialize(json::object{{kGuestCa, guest_ca_json(mark, false)}});
  EXPECT_EQ(guest_ca_in(version), image::CaMark());
  version.config = "damaged";
  EXPECT_EQ(guest_ca_in(version), image::CaMark());
}

}  // namespace
}  // namespace firebreak::control
