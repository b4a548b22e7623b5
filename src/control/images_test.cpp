// The records of builds: each step of them is one transaction.
#include "control/images.h"

#include <boost/asio/co_spawn.hpp>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/host_limits.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

class ImageRecords : public FakeWorld {
 protected:
  ImageRecords() {
    pool_.emplace(*services_, [] { return true; });
    images_.emplace(*services_, *pool_, "", image::CaMark{}, dir_ + "/builds");
    write([&](store::Store& store) { return store.create_tenant({kTenant, "a", {}, {}}); });
  }
  void write(const std::function<Result<>(store::Store&)>& work) {
    const auto done = run_task(io_, db_->run(work));
    EXPECT_TRUE(done) << done.error().text();
  }
  net::Task<Result<NewVersion>> begin(core::Environment env = {}, core::TenantLimits limits = {},
                                      bool prune = false) {
    core::ImageVersion draft;
    draft.env = std::move(env);
    return images_->begin(kTenant, limits, "web", {{"made", "first"}}, std::move(draft), prune);
  }
  NewVersion begun() {
    auto made = run_task(io_, begin());
    EXPECT_TRUE(made) << made.error().text();
    return *std::move(made);
  }
  void finish(NewVersion& made, bool well) {
    Result<std::string> snapshot = made.snapshot().name;
    if (!well) snapshot = fail(Code::guest, "exit 1");
    const auto done = run_task(io_, images_->finish(made, std::move(snapshot)));
    EXPECT_TRUE(done) << done.error().text();
  }
  core::Image image() {
    auto found = run_task(io_, images_->find(kTenant, "web"));
    EXPECT_TRUE(found) << found.error().text();
    return *std::move(found);
  }

  const core::TenantId kTenant{"111111111111"};
  std::optional<WarmPool> pool_;
  std::optional<Images> images_;
};

TEST_F(ImageRecords, TagsThatChangeDuringABuildStay) {
  NewVersion made = begun();
  write([&](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(auto now, store.find_image(kTenant, made.image.id));
    now->tags = {{"made", "meanwhile"}};
    return store.update_image(*now);
  });
  finish(made, true);
  EXPECT_EQ(image().tags, (core::Tags{{"made", "meanwhile"}}));
  EXPECT_EQ(image().state, core::ImageState::created);
  EXPECT_EQ(made.image, image());
}

TEST_F(ImageRecords, TheMachineOfABuildHasTheLimitsOfItsMicrovms) {
  (void)run_task(io_, images_->build_from_base(kTenant, {}, {.name = "web", .memory_mib = 512}, {},
                                               Deadline::in(std::chrono::seconds(5))));
  ASSERT_EQ(host_.booted.size(), 1U);
  EXPECT_EQ(host_.booted[0].limits, host_limits(*core::size_for(512)));
  EXPECT_GT(host_.booted[0].limits.memory_bytes, 0U);
}

TEST_F(ImageRecords, OfTwoBuildsOfAnImageAtOnceOneBegins) {
  NewVersion first = begun();
  finish(first, true);
  std::vector<Result<NewVersion>> outcomes;
  for (int n = 0; n < 2; ++n) {
    net::asio::co_spawn(io_, begin(),
                        [&outcomes](const std::exception_ptr&, Result<NewVersion> made) {
                          outcomes.push_back(std::move(made));
                        });
  }
  io_.restart();
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (outcomes.size() < 2 && !deadline.passed()) io_.run_one_for(std::chrono::seconds(1));
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_NE(outcomes[0].has_value(), outcomes[1].has_value());
  const Result<NewVersion>& refused = outcomes[0] ? outcomes[1] : outcomes[0];
  EXPECT_EQ(refused.error().code, Code::conflict);
  const auto versions = run_task(io_, images_->versions(first.image));
  EXPECT_EQ(versions->size(), 2U);
}

TEST_F(ImageRecords, AVersionThatMadeRoomStaysIfTheBuildCannotBegin) {
  for (int n = 0; n < 2; ++n) {
    NewVersion made = begun();
    finish(made, true);
  }
  // Its record is refused after room was made for it.
  const auto refused = run_task(io_, begin({{"NAME", "\xff"}}, {.versions_per_image = 2}, true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid);
  const auto versions = run_task(io_, images_->versions(image()));
  ASSERT_TRUE(versions);
  EXPECT_EQ(versions->size(), 2U);
  EXPECT_EQ(image().state, core::ImageState::updated);
}

// Whoever asks has looked at the version before: what it has become since counts.
TEST_F(ImageRecords, AVersionThatWasLostMeanwhileDoesNotBecomeActive) {
  NewVersion made = begun();
  finish(made, true);
  ASSERT_TRUE(run_task(io_, images_->set_active(made.image.id, made.version.number, false)));
  write([&](store::Store& store) -> Result<> {
    FB_TRY(fail_versions_of(store, made.snapshot().name, clock_.now()));
    return {};
  });
  const auto active = run_task(io_, images_->set_active(made.image.id, made.version.number, true));
  ASSERT_FALSE(active);
  EXPECT_EQ(active.error().code, Code::conflict);
  const auto versions = run_task(io_, images_->versions(made.image));
  ASSERT_TRUE(versions && versions->size() == 1);
  EXPECT_EQ(versions->front().state, core::VersionState::failed);
  EXPECT_FALSE(versions->front().active);
}

}  // namespace
}  // namespace firebreak::control
