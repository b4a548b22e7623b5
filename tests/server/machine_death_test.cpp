// Machines that are killed at a step of a transition while the server lives.
#include <thread>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/crash_fixture.h"

namespace firebreak::testing_support {
namespace {

// The machine dies at a step of a transition and the server lives on: the microVM is as before, or
// ended with a reason, at once.
struct MachineDeath {
  const char* point;
  const char* operation;
  const char* state;  // afterwards
};

constexpr MachineDeath kMachineDeaths[] = {
    {"machine.wake", "launch", "TERMINATED"},    {"hook", "launch", "TERMINATED"},
    {"machine.unpark", "parked", "RUNNING"},  // by restoring another
    {"suspend.hooked", "suspend", "TERMINATED"}, {"machine.state", "suspend", "TERMINATED"},
    {"machine.saved", "suspend", "SUSPENDED"},   {"machine.applied", "resume", "SUSPENDED"},
    {"machine.loaded", "resume", "SUSPENDED"},   {"machine.spent", "resume", "TERMINATED"},
    {"machine.resumed", "resume", "TERMINATED"}, {"resumed", "resume", "TERMINATED"},
    {"machine.saved", "fork", "TERMINATED"},     {"terminating", "kill", "TERMINATED"},
};

class MachineDies : public Crash, public ::testing::WithParamInterface<MachineDeath> {
 protected:
  // The machine that has a process; the test has only one.
  static std::string the_machine() {
    const auto ids = sys::list_dir(server->data_dir() + "/machines");
    for (const std::string& id : ids ? *ids : std::vector<std::string>()) {
      if (server->machine_pid(id) != 0) return id;
    }
    return "";
  }
};

TEST_P(MachineDies, TheServerCopes) {
  const MachineDeath death = GetParam();
  const std::string operation = death.operation;
  const bool parked = operation == "parked";
  if (!server->running()) ASSERT_TRUE(server->start()) << server->log();
  std::string id;
  if (operation != "launch" && !parked) {
    id = run();
    exec(id, "echo kept > /dev/shm/x");
    if (operation == "resume") server->call("POST", path(id, "/suspend"));
  }
  server->stop();
  server->set_options(options(parked));
  server->pause_at(death.point);
  ASSERT_TRUE(server->start()) << server->log();
  if (parked) wait_parked();
  Answer answer;
  std::thread client([&] {
    if (operation == "launch" || parked)
      answer = server->call("POST", "/v1/microvms", json::object{{"image", "python"}});
    else if (operation == "kill")
      answer = server->call("DELETE", path(id));
    else
      answer = server->call("POST", path(id, "/" + operation));
  });
  const bool paused = server->wait_paused(std::chrono::seconds(60));
  EXPECT_TRUE(paused) << "the step was not reached";
  const std::string machine = the_machine();
  EXPECT_TRUE(id.empty() || machine == id);
  EXPECT_TRUE(server->kill_machine(machine));
  server->go_on();
  client.join();
  if (id.empty()) id = machine;
  const Answer after = server->wait_for(path(id), "state", death.state);
  EXPECT_EQ(after.text_of("state"), death.state) << answer.text << after.text << log_about(id);
  if (after.text_of("state") == "TERMINATED") {
    EXPECT_NE(after.text_of("stateReason"), "");
  } else if (!parked) {
    EXPECT_EQ(exec(id, "cat /dev/shm/x").text_of("stdout"), "kept\n");
  }
  end_all();
  expect_clean();
}

INSTANTIATE_TEST_SUITE_P(Steps, MachineDies, ::testing::ValuesIn(kMachineDeaths),
                         [](const auto& info) {
                           return step_name(info.param.operation, info.param.point);
                         });

}  // namespace
}  // namespace firebreak::testing_support
