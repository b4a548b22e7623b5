// Which versions of an image nobody uses.
#include "control/image_removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/images.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using core::VersionState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ImageRemoval : public FakeWorld {
 protected:
  ImageRemoval() {
    write([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant({kTenant, "a", {}, {}}));
      return store.create_image(image_);
    });
  }
  void write(const std::function<Result<>(store::Store&)>& work) {
    const auto done = run_task(io_, db_->run(work));
    EXPECT_TRUE(done) << done.error().text();
  }
  void add(std::uint32_t number, VersionState state) {
    write([&](store::Store& store) {
      return store.create_version({.image = image_.id,
                                   .number = number,
                                   .state = state,
                                   .active = state == VersionState::successful,
                                   .snapshot = "s" + std::to_string(number)});
    });
  }
  void run_one(std::uint32_t version) {
    core::Microvm microvm;
    microvm.id = core::new_microvm_id();
    microvm.tenant = kTenant;
    microvm.endpoint = core::EndpointId(core::new_uuid());
    microvm.image = image_.id;
    microvm.image_version = version;
    write([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_microvm(microvm, {}));
      return {};
    });
  }
  std::vector<std::uint32_t> unused() {
    auto found = run_task(
        io_, db_->run([&](store::Store& store) { return unused_versions(store, image_); }));
    EXPECT_TRUE(found) << found.error().text();
    std::vector<std::uint32_t> numbers;
    for (const core::ImageVersion& version : *found) numbers.push_back(version.number);
    return numbers;
  }

  const core::TenantId kTenant{"111111111111"};
  const core::Image image_{.id = core::ImageId("image-a"),
                           .tenant = kTenant,
                           .name = "web",
                           .state = core::ImageState::updated};
};

TEST_F(ImageRemoval, TheNewestThatRunsAndThoseInUseStay) {
  add(1, VersionState::successful);
  EXPECT_THAT(unused(), IsEmpty());
  add(2, VersionState::failed);
  add(3, VersionState::successful);
  add(4, VersionState::successful);
  add(5, VersionState::failed);
  add(6, VersionState::in_progress);
  EXPECT_THAT(unused(), ElementsAre(1, 2, 3, 5));
  run_one(3);
  EXPECT_THAT(unused(), ElementsAre(1, 2, 5));
}

TEST_F(ImageRemoval, OneIsLeftThoughNoneRuns) {
  add(1, VersionState::failed);
  add(2, VersionState::failed);
  EXPECT_THAT(unused(), ElementsAre(1));
}

TEST_F(ImageRemoval, AtTheLimitTheOldestGoesIfThatIsWanted) {
  WarmPool pool(*services_, [] { return true; });
  Images images(*services_, pool, "", {}, dir_ + "/builds");
  for (std::uint32_t number : {1U, 2U, 3U}) add(number, VersionState::successful);
  run_one(1);
  const auto begin = [&](bool prune) {
    return run_task(io_, images.begin(kTenant, {.versions_per_image = 3}, "web", {}, {}, prune));
  };
  const auto refused = begin(false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(refused.error().message,
              HasSubstr("image web has 3 of 3 versions; remove versions with `firebreak image rm "
                        "web:VERSION` or `firebreak image prune web`"));
  const auto made = begin(true);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->version.number, 4U);
  ASSERT_EQ(made->removed.size(), 1U);
  EXPECT_EQ(made->removed[0].number, 2U) << "1 is in use";
}

TEST_F(ImageRemoval, NothingGoesIfThatWouldNotBeEnough) {
  WarmPool pool(*services_, [] { return true; });
  Images images(*services_, pool, "", {}, dir_ + "/builds");
  for (std::uint32_t number : {1U, 2U, 3U}) add(number, VersionState::successful);
  run_one(1);
  const auto refused =
      run_task(io_, images.begin(kTenant, {.versions_per_image = 2}, "web", {}, {}, true));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("; microVMs use its versions"));
  EXPECT_THAT(unused(), ElementsAre(2));
}

}  // namespace
}  // namespace firebreak::control
