// What a launch does before there is a machine to talk to.
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/supervisor.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

class Launching : public FakeWorld {
 protected:
  Launching() {
    services_->options.budget = {.memory_mib = 65536, .millicpu = 64000};
    const core::Image image{.id = core::ImageId("image-a"), .tenant = tenant_.id, .name = "a"};
    const core::ImageVersion version{.image = image.id,
                                     .number = 1,
                                     .state = core::VersionState::successful,
                                     .active = true,
                                     .snapshot = "a"};
    auto made = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(tenant_));
      FB_TRY(store.create_image(image));
      return store.create_version(version);
    }));
    EXPECT_TRUE(made) << made.error().text();
  }

  const core::Tenant tenant_{core::TenantId("tenant-a"), "a", {}, {}};
};

struct Enough {};

TEST_F(Launching, ThePoolWaitsFromTheMomentAtWhichACloneIsTaken) {
  Supervisor supervisor(*services_);
  int foreground = -1;
  services_->steps = Steps([&](std::string_view point) {
    if (point != "pending") return;
    foreground = supervisor.pool().foreground().count();
    throw Enough();
  });
  LaunchRequest request;
  request.image = "a";
  EXPECT_THROW((void)run_task(io_, supervisor.launch(tenant_, request,
                                                     Deadline::in(std::chrono::seconds(10)))),
               Enough);
  EXPECT_EQ(foreground, 1);
  EXPECT_EQ(supervisor.pool().foreground().count(), 0);
}

}  // namespace
}  // namespace firebreak::control
