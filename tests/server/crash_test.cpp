// The server killed at every named step of every transition, and at random moments under load: what
// was acknowledged is there after the restart, and nothing is left behind.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/crash_fixture.h"
#include "store/sqlite/connection.h"

namespace firebreak::testing_support {
namespace {

TEST_F(Crash, MicrovmsRunOnWithoutTheServer) {
  const std::string id = run();
  exec(id, "echo before > /dev/shm/x");
  server->call("POST", path(id, "/execs"),
               json::object{{"shell", "sleep 1; echo during > /dev/shm/y"}});
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_EQ(server->call("GET", path(id)).text_of("state"), "RUNNING");
  EXPECT_EQ(exec(id, "cat /dev/shm/x; sleep 2; cat /dev/shm/y").text_of("stdout"),
            "before\nduring\n");
  server->call("DELETE", path(id));
  expect_clean();
}

TEST_F(Crash, AServerWithoutNetworksTakesOverWhatHadOne) {
  const std::string id = run();
  exec(id, "echo kept > /dev/shm/x");
  const std::string network = server->data_dir() + "/netns/" + id;
  ASSERT_TRUE(sys::exists(network)) << server->log();
  server->kill_hard();
  server->set_options({"--tick-ms=100", "--networks=false"});
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_EQ(exec(id, "cat /dev/shm/x").text_of("stdout"), "kept\n");
  EXPECT_FALSE(sys::exists(network));
  expect_clean();
  server->call("DELETE", path(id));
  server->set_options(options(false));
  restart_with("");
  expect_clean();
}

// Before a meter was ever saved by the clock; then while it is suspended.
TEST_F(Crash, WhatWasUsedIsCountedOnceWhateverHappensToTheServer) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration span) {
    return std::chrono::duration<double>(span).count();
  };
  const auto used = [](const std::string& id, const char* member) {
    const Answer usage = server->call("GET", "/v1/usage");
    for (const json::value& item : usage.object().at("items").as_array()) {
      if (item.at("microvm").as_string() == id) return item.at(member).to_number<double>();
    }
    return -1.0;
  };
  const auto asked = Clock::now();
  const std::string id = run();
  const auto began = Clock::now();
  exec(id, "true");
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  const double least = seconds(Clock::now() - began);
  const double ran = used(id, "runningSeconds");
  EXPECT_GE(ran + 0.01, least);
  EXPECT_LE(ran, seconds(Clock::now() - asked));
  EXPECT_LE(used(id, "cpuSeconds"), 2 * seconds(Clock::now() - asked));
  EXPECT_GT(used(id, "snapshotReadBytes"), 0);

  server->call("POST", path(id, "/suspend"));
  const double ran_all = seconds(Clock::now() - asked);
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_GE(used(id, "runningSeconds"), ran);
  EXPECT_LE(used(id, "runningSeconds"), ran_all);
  EXPECT_GT(used(id, "snapshotWrittenBytes"), 0);
  server->call("DELETE", path(id));
  EXPECT_LE(used(id, "runningSeconds"), ran_all);
  EXPECT_GT(used(id, "suspendedGbHours"), 0);
  expect_clean();
}

TEST_F(Crash, CheckSeesHoldersThatNobodyNames) {
  const auto names = sys::list_dir(server->data_dir() + "/snapshots");
  ASSERT_TRUE(names && !names->empty());
  const std::string note = server->data_dir() + "/snapshots/" + names->front() + "/holder.json";
  const auto text = sys::read_file(note);
  ASSERT_TRUE(text) << text.error().text();
  ASSERT_EQ(::unlink(note.c_str()), 0);
  const auto leak = server->cli({"check"});
  EXPECT_THAT(leak.out, ::testing::HasSubstr("holder ")) << leak.out;
  ASSERT_TRUE(sys::swap_file(note, *text));
  EXPECT_EQ(server->cli({"check"}).out, "0 leaks\n");
}

TEST_F(Crash, AfterTheHostCameBackTheSuspendedResumeAndTheOthersSayWhyNot) {
  const std::string asleep = run();
  exec(asleep, "echo kept > /dev/shm/x");
  EXPECT_EQ(server->call("POST", path(asleep, "/suspend")).text_of("state"), "SUSPENDED");
  const std::string awake = run();
  server->end_everything();
  ASSERT_TRUE(server->start()) << server->log();
  const Answer ended = server->wait_for(path(awake), "state", "TERMINATED");
  EXPECT_EQ(ended.text_of("state"), "TERMINATED") << ended.text;
  EXPECT_FALSE(ended.text_of("stateReason").empty());
  EXPECT_NE(ended.text_of("stateReason"), "Success.");
  EXPECT_EQ(exec(asleep, "cat /dev/shm/x").text_of("stdout"), "kept\n");
  const std::string fresh = run();
  EXPECT_EQ(exec(fresh, "echo new").text_of("stdout"), "new\n");
  for (const std::string& id : {asleep, fresh}) server->call("DELETE", path(id));
  expect_clean();
}

// Through the server, and without one.
TEST(CheckRepairs, LogsKernelsAndImagesThatLostTheirSnapshot) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0"});
  ASSERT_TRUE(server.start()) << server.log();
  for (const bool alone : {false, true}) {
    SCOPED_TRACE(alone);
    const std::string version = alone ? "2.0" : "1.0";
    const Answer built = server.call("POST", "/v1/images", json::object{{"name", "own"}});
    ASSERT_EQ(built.status, 201) << built.text;
    const auto snapshots = sys::list_dir(server.data_dir() + "/snapshots");
    ASSERT_TRUE(snapshots && snapshots->size() == 1);
    if (alone) ASSERT_EQ(server.stop(), 0);
    EXPECT_EQ(server.cli({"check"}).out, "0 leaks\n");

    ASSERT_TRUE(sys::remove_tree(server.data_dir() + "/snapshots/" + snapshots->front()));
    for (const char* stray : {"/builds/build-stray", "/logs/microvm-stray"}) {
      ASSERT_TRUE(sys::mkdirs(server.data_dir() + "/logs", 0700));
      ASSERT_TRUE(sys::swap_file(server.data_dir() + stray, "x"));
    }
    ASSERT_TRUE(sys::mkdirs(server.data_dir() + "/kernels/512-1-0123456789abcdef", 0700));
    const auto leaks = server.cli({"check"});
    EXPECT_EQ(leaks.status, 1);
    for (const char* line :
         {"log builds/build-stray belongs to no build", "log logs/microvm-stray belongs to no",
          "kernel 512-1-0123456789abcdef was prepared", " has lost its snapshot"})
      EXPECT_THAT(leaks.out, ::testing::HasSubstr(line));
    const auto repaired = server.cli({"check", "--repair"});
    EXPECT_EQ(repaired.status, 0) << repaired.out;
    EXPECT_EQ(server.cli({"check"}).out, "0 leaks\n");
    if (alone) ASSERT_TRUE(server.start()) << server.log();

    const Answer lost = server.call("GET", "/v1/images/own/versions/" + version);
    EXPECT_EQ(lost.text_of("state"), "FAILED") << lost.text;
    EXPECT_THAT(lost.text_of("stateReason"), ::testing::HasSubstr("build it again"));
    const Answer refused = server.call("POST", "/v1/microvms", json::object{{"image", "own"}});
    EXPECT_THAT(refused.text, ::testing::HasSubstr("has no version that can run"));
  }
}

TEST_F(Crash, CheckLooksAloneWhenNoServerRuns) {
  const std::string id = run();
  server->call("POST", path(id, "/suspend"));
  ASSERT_EQ(server->stop(), 0);
  EXPECT_EQ(server->cli({"check"}).out, "0 leaks\n");
  const std::string stray = server->data_dir() + "/machines/microvm-stray";
  ASSERT_TRUE(sys::mkdirs(stray, 0700));
  const auto leak = server->cli({"check"});
  EXPECT_EQ(leak.status, 1);
  EXPECT_THAT(leak.out, ::testing::HasSubstr("machine microvm-stray belongs to no microVM"));
  EXPECT_EQ(server->cli({"check", "--repair"}).status, 0);
  EXPECT_EQ(server->cli({"check"}).out, "0 leaks\n");
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_EQ(exec(id, "echo back").text_of("stdout"), "back\n");
  server->call("DELETE", path(id));
}

TEST_F(Crash, AForksChildThatIsEndedBeforeItStartsLeavesNothing) {
  const std::string id = run();
  server->stop();
  server->pause_at("fork");  // its record is there, its machine is not
  ASSERT_TRUE(server->start()) << server->log();
  Answer forked;
  std::thread client([&] { forked = server->call("POST", path(id, "/fork")); });
  ASSERT_TRUE(server->wait_paused(std::chrono::seconds(60)));
  std::thread killer([&] {
    const Answer list = server->call("GET", "/v1/microvms?pageSize=1000");
    for (const json::value& item : list.object().at("items").as_array()) {
      const std::string child(item.at("id").as_string());
      if (child != id && item.at("state").as_string() == "PENDING")
        server->call("DELETE", path(child));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the request waits in its socket
  server->go_on();
  client.join();
  killer.join();
  end_all();
  expect_clean();
}

TEST_F(Crash, WhatTheStoreCouldNotTakeIsWrittenLater) {
  const std::string id = run();
  exec(id, "echo kept > /dev/shm/x");
  server->stop();
  server->pause_at("saved");
  ASSERT_TRUE(server->start()) << server->log();
  Answer suspended;
  std::thread client([&] { suspended = server->call("POST", path(id, "/suspend")); });
  ASSERT_TRUE(server->wait_paused(std::chrono::seconds(60)));
  {
    auto store = store::Connection::open(server->data_dir() + "/firebreak.db", "");
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE((*store)->script("BEGIN IMMEDIATE"));  // nobody else can write
    server->go_on();
    client.join();
  }
  EXPECT_NE(suspended.status, 200) << suspended.text;
  EXPECT_EQ(server->wait_for(path(id), "state", "SUSPENDED").text_of("state"), "SUSPENDED");
  EXPECT_EQ(exec(id, "cat /dev/shm/x").text_of("stdout"), "kept\n");
  server->call("DELETE", path(id));
  expect_clean();
}

TEST(CrashInABuild, IsMadeGood) {
  ServerProcess server;
  server.start_from_nothing();
  server.crash_at("machine.frozen");  // of the snapshot of the first image
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_end(std::chrono::seconds(120))) << "the build was not reached";
  ASSERT_TRUE(server.start()) << server.log();
  // Asked for while it is still being built: it waits.
  const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
  EXPECT_EQ(made.text_of("state"), "RUNNING") << made.text;
  server.call("DELETE", path(made.text_of("id")));
  const Answer report = server.call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

struct Step {
  const char* fault;
  const char* operation;
};

// Each step of each transition. The operation is begun, the server dies at the step, and is started
// again. A child of a fork is resumed, and a clone for the pool restored, by the steps of others.
constexpr Step kSteps[] = {
    {"pending", "launch"},
    {"launch", "launch"},
    {"machine.prepared", "launch"},
    {"machine.start.plugged", "launch"},
    {"machine.start.cgroup", "launch"},
    {"machine.start.spawned", "launch"},
    {"machine.connected", "launch"},
    {"machine.wake", "launch"},
    {"machine.woken", "launch"},
    {"woken", "launch"},
    {"hook", "launch"},
    {"hooked", "launch"},
    {"running", "launch"},
    {"pending", "parked"},
    {"launch", "parked"},
    {"machine.unpark", "parked"},
    {"machine.wake", "parked"},
    {"machine.woken", "parked"},
    {"woken", "parked"},
    {"hook", "parked"},
    {"hooked", "parked"},
    {"running", "parked"},
    {"suspending", "suspend"},
    {"suspend.hooked", "suspend"},
    {"machine.frozen", "suspend"},
    {"machine.stopped", "suspend"},
    {"machine.state", "suspend"},
    {"machine.saved", "suspend"},
    {"machine.synced", "suspend"},
    {"saved", "suspend"},
    {"resume", "resume"},
    {"machine.start.plugged", "resume"},
    {"machine.start.cgroup", "resume"},
    {"machine.start.spawned", "resume"},
    {"machine.applied", "resume"},
    {"machine.loaded", "resume"},
    {"machine.spent", "resume"},
    {"machine.resumed", "resume"},
    {"resumed", "resume"},
    {"machine.wake", "resume"},
    {"machine.woken", "resume"},
    {"hook", "resume"},
    {"hooked", "resume"},
    {"running", "resume"},
    {"fork", "fork"},
    {"machine.frozen", "fork"},
    {"machine.stopped", "fork"},
    {"machine.state", "fork"},
    {"machine.saved", "fork"},
    {"machine.forked", "fork"},
    {"machine.fork.synced", "fork"},
    {"forked", "fork"},
    {"terminating", "kill"},
    {"machine.terminate", "kill"},
    {"removed", "kill"},
    {"pool.restored", "pool"},
    {"machine.rehearse", "pool"},
    {"machine.rehearsed", "pool"},
    {"machine.park", "pool"},
    {"machine.parked", "pool"},
    {"pool.parked", "pool"},
};

std::set<std::string> steps_of(std::string_view operation) {
  std::set<std::string> points;
  for (const Step& step : kSteps) {
    if (operation == step.operation) points.insert(step.fault);
  }
  return points;
}

// The steps that the server's log names, from that place on.
std::set<std::string> steps_in(const std::string& log, std::size_t from) {
  std::set<std::string> points;
  for (std::size_t at = from, end; (end = log.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto line = parse_json_object(log.substr(at, end - at));
    if (line && line->contains("point")) points.emplace(line->at("point").as_string());
  }
  return points;
}

class CrashSteps : public Crash {
 protected:
  static void start_with(std::vector<std::string> pool) {
    server->stop();
    pool.insert(pool.end(), {"--tick-ms=100", "--log-level=debug"});
    server->set_options(std::move(pool));
    ASSERT_TRUE(server->start()) << server->log();
  }
  // What it reaches is what is tested, but for what belongs to another operation.
  template <class Act>
  static void expect_steps(const std::string& operation, const std::vector<std::string>& others,
                           Act act) {
    SCOPED_TRACE(operation);
    const std::size_t from = server->log().size();
    act();
    const std::set<std::string> reached = steps_in(server->log(), from);
    const std::set<std::string> tested = steps_of(operation);
    std::set<std::string> all = tested;
    for (const std::string& other : others) all.merge(steps_of(other));
    EXPECT_TRUE(std::ranges::includes(reached, tested))
        << "a test without its step: " << ::testing::PrintToString(reached);
    EXPECT_TRUE(std::ranges::includes(all, reached))
        << "a step without a test: " << ::testing::PrintToString(reached);
  }
};

TEST_F(CrashSteps, AllAreTested) {
  start_with({"--pool-least=0", "--pool-most=0"});
  std::string id;
  expect_steps("launch", {}, [&] { id = run(); });
  expect_steps("suspend", {}, [&] { server->call("POST", path(id, "/suspend")); });
  expect_steps("resume", {}, [&] { server->call("POST", path(id, "/resume")); });
  expect_steps("fork", {"resume", "kill"}, [&] {
    const Answer forked = server->call("POST", path(id, "/fork"));
    const json::array& children = forked.object().at("items").as_array();
    const std::string child(children.at(0).at("id").as_string());
    EXPECT_EQ(server->wait_for(path(child), "state", "RUNNING").text_of("state"), "RUNNING");
    server->call("DELETE", path(child));
  });
  expect_steps("kill", {}, [&] { server->call("DELETE", path(id)); });
  expect_steps("pool", {"launch"}, [&] {
    start_with({"--pool-least=1", "--pool-most=1"});
    wait_parked();
  });
  expect_steps("parked", {"launch", "pool"}, [&] { id = run(); });
  server->call("DELETE", path(id));
  server->set_options(options(false));
  restart_with("");
  expect_clean();
}

class CrashAt : public Crash, public ::testing::WithParamInterface<Step> {};

TEST_P(CrashAt, NothingAcknowledgedIsLost) {
  const Step step = GetParam();
  const std::string operation = step.operation;
  const bool launches = operation == "launch" || operation == "parked";
  if (!server->running()) ASSERT_TRUE(server->start()) << server->log();
  // What the operation works on, from before.
  std::string id;
  if (!launches && operation != "pool") {
    id = run();
    ASSERT_FALSE(id.empty());
    exec(id, "echo kept > /dev/shm/x");
    if (operation == "resume") server->call("POST", path(id, "/suspend"));
  }
  server->set_options(options(operation == "pool" || operation == "parked"));
  restart_with(step.fault);

  if (operation == "parked") wait_parked();
  if (launches)
    id = server->call("POST", "/v1/microvms?wait=0", json::object{{"image", "python"}})
             .text_of("id");
  if (operation == "suspend") server->call("POST", path(id, "/suspend"));
  if (operation == "resume") server->call("POST", path(id, "/resume"));
  if (operation == "fork") server->call("POST", path(id, "/fork"));
  if (operation == "kill") server->call("DELETE", path(id));
  ASSERT_TRUE(server->wait_end(std::chrono::seconds(60))) << "the step was not reached";
  ASSERT_TRUE(server->start()) << server->log();

  if (launches && !id.empty()) {  // acknowledged as PENDING
    EXPECT_EQ(server->wait_for(path(id), "state", "RUNNING").text_of("state"), "RUNNING");
    EXPECT_EQ(exec(id, "echo works").text_of("stdout"), "works\n");
  }
  if (operation == "suspend" || operation == "resume" || operation == "fork") {
    EXPECT_EQ(exec(id, "cat /dev/shm/x").text_of("stdout"), "kept\n")
        << server->call("GET", path(id)).text;
  }
  if (operation == "kill") {
    EXPECT_EQ(server->wait_for(path(id), "state", "TERMINATED").text_of("state"), "TERMINATED");
  }
  end_all();
  expect_clean();
}

INSTANTIATE_TEST_SUITE_P(Steps, CrashAt, ::testing::ValuesIn(kSteps), [](const auto& info) {
  return step_name(info.param.operation, info.param.fault);
});

// Rounds of random harm under load, each the end of two machines and of the server; `./dev chaos`
// runs more of them.
TEST_F(Crash, RandomHarmUnderLoad) {
  const char* rounds_text = std::getenv("FIREBREAK_CHAOS_ROUNDS");
  const char* seed_text = std::getenv("FIREBREAK_CHAOS_SEED");
  const int rounds = rounds_text != nullptr ? std::atoi(rounds_text) : 8;
  const unsigned seed =
      seed_text != nullptr ? static_cast<unsigned>(std::atoll(seed_text)) : std::random_device()();
  std::cout << "seed " << seed << ", " << rounds << " rounds\n";
  std::mt19937 random(seed);
  server->set_options(options(true));
  restart_with("");
  std::set<std::string> acknowledged;
  int machines_killed = 0;
  int ended_by_it = 0;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<bool> stop = false;
    std::vector<std::vector<std::string>> made(2);
    std::vector<std::thread> clients;
    for (std::size_t c = 0; c < made.size(); ++c) {
      clients.emplace_back([&, c, mine = std::mt19937(random())]() mutable {
        while (!stop) {
          const Answer vm = server->call("POST", "/v1/microvms", json::object{{"image", "python"}});
          if (vm.status != 201) continue;
          const std::string id = vm.text_of("id");
          if (mine() % 2 == 0) server->call("POST", path(id, "/suspend"));
          if (mine() % 3 == 0 && server->call("DELETE", path(id)).status == 200) continue;
          made[c].push_back(id);
          if (made[c].size() > 2) break;
        }
      });
    }
    const auto moment = [&] {  // the moment is the point
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 900));
    };
    for (int i = 0; i < 2; ++i) {
      moment();
      machines_killed += kill_a_machine(random) ? 1 : 0;
    }
    moment();
    server->kill_hard();
    stop = true;
    for (std::thread& client : clients) client.join();
    ASSERT_TRUE(server->start()) << server->log();
    for (const auto& list : made) acknowledged.insert(list.begin(), list.end());
    for (const std::string& id : acknowledged) {
      const Answer vm = server->call("GET", path(id));
      ASSERT_EQ(vm.status, 200) << id;
      const std::string state = vm.text_of("state");
      // A kill that was under way may have been finished.
      EXPECT_TRUE(state == "RUNNING" || state == "SUSPENDED" || state == "TERMINATING" ||
                  state == "TERMINATED")
          << vm.text;
      if (state == "TERMINATED" && vm.text_of("stateReason") != "Success.") {
        ++ended_by_it;
        std::cout << "round " << round << ": " << vm.text_of("stateReason") << "\n";
      }
      EXPECT_LE(ended_by_it, machines_killed) << vm.text << log_about(id);
      server->call("DELETE", path(id));
    }
    acknowledged.clear();
    end_all();
    expect_clean();
  }
  std::cout << machines_killed << " machines killed, " << ended_by_it << " of them in use\n";
  if (rounds > 5) EXPECT_GT(machines_killed, rounds / 2);
}

}  // namespace
}  // namespace firebreak::testing_support
