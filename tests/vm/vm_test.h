// What VM tests share: nothing may be left on the host after a test, and small things to do with a
// guest. One thread: the world's.
#pragma once

#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/world.h"

namespace firebreak::testing_support {

class VmTest : public testing::Test {
 protected:
  void TearDown() override;

  static void run(const std::function<Task<void>()>& body) { world().run(body); }
};

// Output of a shell command in the guest; an exit code other than 0 is an error.
Task<Result<std::string>> shell(Machine& machine, std::string command);
// Suspends it, lets `host_pause` pass, resumes it; its tenant is still frozen.
Task<Result<std::unique_ptr<Machine>>> suspend_and_resume(std::unique_ptr<Machine> machine,
                                                          std::chrono::milliseconds host_pause);
// The host's loop goes on meanwhile.
Task<void> pause(std::chrono::milliseconds time);
std::int64_t host_realtime_ns();

}  // namespace firebreak::testing_support
