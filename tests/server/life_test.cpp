// What time does to microVMs: idle rules, expiry, maximum duration; and what happens when the
// machine dies under one.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

class Life : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=50", "--pool-most=2"});
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  static std::string run(json::object extra) {
    extra["image"] = "python";
    const Answer made = server->call("POST", "/v1/microvms", extra);
    EXPECT_EQ(made.status, 201) << made.text;
    return made.text_of("id");
  }
  static std::string path(const std::string& id, const std::string& rest = "") {
    return "/v1/microvms/" + id + rest;
  }
  static Answer exec(const std::string& id, const std::string& shell) {
    return server->call("POST", path(id, "/exec"), json::object{{"shell", shell}});
  }

  static inline std::unique_ptr<ServerProcess> server;
};

TEST_F(Life, IdleSuspendsWithTheReasonAndTrafficBringsItBack) {
  const std::string id = run({{"idle", {{"maxIdleSeconds", 1}, {"suspendedSeconds", 3600}}}});
  exec(id, "echo 7 > /dev/shm/n");
  const Answer asleep = server->wait_for(path(id), "state", "SUSPENDED");
  EXPECT_EQ(asleep.text_of("state"), "SUSPENDED");
  EXPECT_EQ(asleep.text_of("stateReason"), "Idle for 1 s.");
  EXPECT_EQ(exec(id, "cat /dev/shm/n").text_of("stdout"), "7\n");
  server->call("DELETE", path(id));
}

TEST_F(Life, ADetachedExecIsWork) {
  const std::string id = run({{"idle", {{"maxIdleSeconds", 1}, {"suspendedSeconds", 3600}}}});
  const Answer started = server->call("POST", path(id, "/execs"),
                                      json::object{{"shell", "sleep 5; echo done > /tmp/done"}});
  ASSERT_EQ(started.status, 201) << started.text;
  std::this_thread::sleep_for(
      std::chrono::seconds(3));  // longer than the idle time: that is the test
  EXPECT_EQ(server->call("GET", path(id)).text_of("state"), "RUNNING");
  EXPECT_EQ(server->wait_for(path(id), "state", "SUSPENDED").text_of("state"), "SUSPENDED");
  EXPECT_EQ(exec(id, "cat /tmp/done").text_of("stdout"), "done\n");
  server->call("DELETE", path(id));
}

// Meters are read every ten seconds, which is longer than its idle time.
TEST_F(Life, AGuestThatComputesIsNotSuspendedWithoutALook) {
  const std::string id = run({{"idle", {{"maxIdleSeconds", 2}, {"suspendedSeconds", 3600}}}});
  const Answer started = exec(
      id, "setsid sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 & echo $! > /tmp/pid");
  ASSERT_EQ(started.text_of("exitCode"), "0") << started.text;
  std::this_thread::sleep_for(
      std::chrono::seconds(7));  // longer than the idle time: that is the test
  const Answer awake = server->call("GET", path(id));
  EXPECT_EQ(awake.text_of("state"), "RUNNING") << awake.text;
  server->call("DELETE", path(id));
}

TEST_F(Life, TheTrafficRuleSeesOnlyTraffic) {
  const std::string id =
      run({{"idle", {{"maxIdleSeconds", 1}, {"suspendedSeconds", 3600}, {"rule", "traffic"}}}});
  server->call("POST", path(id, "/execs"), json::object{{"shell", "sleep 600"}});
  EXPECT_EQ(server->wait_for(path(id), "state", "SUSPENDED").text_of("state"), "SUSPENDED");
  server->call("DELETE", path(id));
}

TEST_F(Life, SuspendedTooLongEnds) {
  const std::string id = run({{"idle", {{"maxIdleSeconds", 1}, {"suspendedSeconds", 1}}}});
  const Answer ended = server->wait_for(path(id), "state", "TERMINATED");
  EXPECT_EQ(ended.text_of("state"), "TERMINATED");
  EXPECT_EQ(ended.text_of("stateReason"), "Suspended for 1 s.");
}

TEST_F(Life, MaximumDurationEnds) {
  const std::string id = run({{"maxDurationSeconds", 2}});
  const Answer ended = server->wait_for(path(id), "state", "TERMINATED");
  EXPECT_EQ(ended.text_of("stateReason"), "Maximum duration of 2 s reached.");
}

TEST_F(Life, PoliciesCanBeChanged) {
  const std::string id = run({});
  const Answer changed =
      server->call("PATCH", path(id), json::object{{"idle", {{"maxIdleSeconds", 1}}}});
  EXPECT_EQ(changed.status, 200) << changed.text;
  EXPECT_EQ(server->wait_for(path(id), "state", "SUSPENDED").text_of("state"), "SUSPENDED");
  EXPECT_EQ(server->call("PATCH", path(id), json::object{{"idle", nullptr}}).status, 200);
  EXPECT_EQ(server->call("PATCH", path(id), json::object{{"maxDurationSeconds", 0}}).status, 400);
  server->call("DELETE", path(id));
}

TEST_F(Life, AKilledMachineIsTerminatedAtOnce) {
  const std::string id = run({});
  ASSERT_TRUE(server->kill_machine(id));
  const Answer ended = server->wait_for(path(id), "state", "TERMINATED", std::chrono::seconds(20));
  EXPECT_EQ(ended.text_of("state"), "TERMINATED");
  EXPECT_THAT(ended.text_of("stateReason"), HasSubstr("ended unexpectedly"));
}

TEST_F(Life, TheLogHasOneLinePerTransition) {
  const std::string id = run({});
  server->call("DELETE", path(id));
  int lines = 0;
  std::string text = server->log();
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (line.find("\"transition\"") == std::string::npos || line.find(id) == std::string::npos)
      continue;
    ++lines;
    auto object = parse_json_object(line);
    ASSERT_TRUE(object) << line;
    EXPECT_TRUE(object->contains("after_ms"));
  }
  EXPECT_EQ(lines, 3);  // RUNNING, TERMINATING, TERMINATED
}

TEST_F(Life, NothingIsLeft) {
  const Answer report = server->call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

}  // namespace
}  // namespace firebreak::testing_support
