// Networks that change under running guests: other policies, none, a suspend, a fork; and which
// policy a run or a build gets when it names none.
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/build_fixture.h"
#include "server/egress_fixture.h"

namespace firebreak::testing_support {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Runs in the guest: a connection that is used all the time; its exit code is the errno of its end.
constexpr const char* kHolder = R"py(
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b"GET /stay HTTP/1.1\r\n\r\n")
s.recv(4096)
open("/tmp/held", "w").close()
try:
    while True:
        s.sendall(b"x")
        if not s.recv(65536): sys.exit(1)
        time.sleep(0.1)
except OSError as error:
    sys.exit(error.errno)
)py";

// Sends what cannot be refused by the other side, and counts.
constexpr const char* kBeats = R"py(
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(10000):
    try: s.sendto(b"beat", ("203.0.113.20", 7))
    except OSError: pass
    open("/tmp/beats", "a").write("x")
    time.sleep(0.05)
)py";

template <class Come>
bool wait_until(const Come& come) {
  for (int i = 0; i < 600; ++i) {
    if (come()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

class Changing : public EgressFixture {
 protected:
  static std::string start(const std::string& id, const json::array& argv) {
    const Answer started =
        server->call("POST", "/v1/microvms/" + id + "/execs", json::object{{"argv", argv}});
    EXPECT_EQ(started.status, 201) << started.text;
    return started.text_of("exec");
  }
  // The exec that holds a connection, once it has been answered.
  static std::string hold(const std::string& id, const std::string& host, const std::string& port) {
    const std::string exec = start(id, {"python3", "-c", kHolder, host, port});
    EXPECT_TRUE(wait_until([&] { return shell(id, "ls /tmp/held") == "/tmp/held\n"; }));
    return exec;
  }
  static Answer exec_of(const std::string& id, const std::string& exec) {
    return server->call("GET", "/v1/microvms/" + id + "/execs/" + exec);
  }
  static std::string exit_code(const std::string& id, const std::string& exec) {
    wait_until([&] { return exec_of(id, exec).text_of("running") == "false"; });
    const Answer ended = exec_of(id, exec);
    const json::value* exit = ended.object().if_contains("exit");
    return exit == nullptr ? ended.text : json::serialize(exit->at("exitCode"));
  }
  static Answer set_egress(const std::string& id, const std::string& policy) {
    return server->call("PATCH", "/v1/microvms/" + id, json::object{{"egress", policy}});
  }
  static ServerProcess::Output build(const std::string& name, const std::string& step,
                                     const std::vector<std::string>& more = {}) {
    const Context context("FROM python:3.11-slim\nRUN " + step + "\n");
    std::vector<std::string> words{"image", "build", name, context.path()};
    words.insert(words.end(), more.begin(), more.end());
    return server->cli(words);
  }
  // A step that succeeds when the one is reached and the other is not.
  static std::string reaches(const std::string& one, const std::string& not_other) {
    return R"(["bash", "-c", "echo > /dev/tcp/)" + one + "/80 && ! echo > /dev/tcp/" + not_other +
           R"(/80"])";
  }
};

TEST_F(Changing, AnOpenConnectionIsCutByAnotherPolicy) {
  set_policy("held", R"({"internet":true})");
  const std::string id = launch("held");
  const std::string exec = hold(id, "203.0.113.10", "80");
  set_policy("held", R"({"rules":[{"action":"allow","cidr":"203.0.113.20"}]})");
  EXPECT_THAT(exit_code(id, exec), AnyOf("104", "32")) << "ECONNRESET or EPIPE";
  EXPECT_THAT(log_of(id), HasSubstr(R"("verdict":"deny")"));
  kill(id);
}

// The machine's process is stopped, so that nothing in it answers; then goes on.
TEST_F(Changing, ASilentGuestKeepsNoNetworkThatItMayNotHave) {
  const std::string id = launch("INTERNET_EGRESS");
  start(id, {"python3", "-c", kBeats});
  ASSERT_TRUE(internet->wait_arrived("udp 7 from"));
  const auto record =
      sys::read_file(server->data_dir() + "/machines/" + id + "/machine.json").value_or("{}");
  const auto pid = static_cast<pid_t>(json::parse(record).at("pid").as_int64());
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const Answer changed = set_egress(id, "NO_EGRESS");
  const std::size_t arrived = internet->count_arrived("udp 7 from");
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_EQ(changed.status, 200) << changed.text;
  EXPECT_EQ(changed.text_of("egress"), "NO_EGRESS");
  const auto beats = [&id] { return std::atoi(shell(id, "wc -c < /tmp/beats").c_str()); };
  const int first = beats();
  EXPECT_TRUE(wait_until([&] { return beats() > first; }));
  EXPECT_EQ(internet->count_arrived("udp 7 from"), arrived);
  EXPECT_EQ(server->call("POST", "/v1/check").text_of("ok"), "true");
  kill(id);
}

// The peer hears of it while the microVM is suspended, the guest when it wakes.
TEST_F(Changing, SuspendEndsOutsideConnectionsOnBothSides) {
  const std::string id = launch("INTERNET_EGRESS");
  const std::string exec = hold(id, "203.0.113.30", "8080");
  ASSERT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  EXPECT_TRUE(internet->wait_arrived("tcp-end 203.0.113.30 8080 ConnectionResetError"));
  ASSERT_EQ(server->call("POST", "/v1/microvms/" + id + "/resume").status, 200);
  EXPECT_THAT(exit_code(id, exec), AnyOf("103", "104")) << "ECONNABORTED or ECONNRESET";
  EXPECT_THAT(probe(id, {"tcp 203.0.113.30 8080"})[0], testing::StartsWith("ok"));
  kill(id);
}

TEST_F(Changing, AForksChildHasNoneOfItsParentsConnections) {
  const std::string id = launch("INTERNET_EGRESS");
  const std::string exec = hold(id, "203.0.113.30", "53");
  const Answer forked =
      server->call("POST", "/v1/microvms/" + id + "/fork", json::object{{"count", 1}});
  ASSERT_EQ(forked.status / 100, 2) << forked.text;
  const std::string child(forked.object().at("items").at(0).at("id").as_string());
  EXPECT_EQ(server->wait_for("/v1/microvms/" + child, "state", "RUNNING").text_of("state"),
            "RUNNING");
  EXPECT_THAT(exit_code(child, exec), AnyOf("103", "104"));
  EXPECT_THAT(probe(child, {"tcp 203.0.113.30 80"})[0], testing::StartsWith("ok"));
  EXPECT_EQ(exec_of(id, exec).text_of("running"), "true");
  EXPECT_FALSE(internet->has_arrived("tcp-end 203.0.113.30 53 "));
  kill(child);
  kill(id);
}

TEST_F(Changing, ARunThatNamesNoPolicyGetsTheTenants) {
  ASSERT_EQ(set_tenant({{"default", "narrow"}}).status, 200);
  const Answer made = server->call("POST", "/v1/microvms", json::object{{"image", "python"}});
  ASSERT_EQ(set_tenant({{"default", "INTERNET_EGRESS"}}).status, 200);
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.text_of("egress"), "narrow");
  const std::string id = made.text_of("id");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.20 80", "tcp 203.0.113.10 80"}),
            (std::vector<std::string>{"ok I am 203.0.113.20", "ECONNREFUSED"}));
  kill(id);
}

// The server's own setting is "narrow".
TEST_F(Changing, BuildsGetTheServersPolicyOrTheirOwnAndRunsTheImages) {
  const auto servers = build("by-server", reaches("203.0.113.20", "203.0.113.10"));
  EXPECT_EQ(servers.status, 0) << servers.out << servers.err;
  set_policy("other", R"({"rules":[{"action":"allow","cidr":"203.0.113.10"}]})");
  const auto own = build("by-build", reaches("203.0.113.10", "203.0.113.20"),
                         {"--build-egress", "other", "--egress", "narrow"});
  ASSERT_EQ(own.status, 0) << own.out << own.err;
  const Answer made = server->call("POST", "/v1/microvms", json::object{{"image", "by-build"}});
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.text_of("egress"), "narrow");
  const std::string id = made.text_of("id");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.20 80", "tcp 203.0.113.10 80"}),
            (std::vector<std::string>{"ok I am 203.0.113.20", "ECONNREFUSED"}));
  kill(id);
}

TEST_F(Changing, ANarrowerMaximumReachesABuildThatRuns) {
  ServerProcess::Output built;
  std::thread building([&] {
    built = build("kept-in",
                  R"(["bash", "-c", "for i in $(seq 600); do )"
                  R"(echo > /dev/tcp/203.0.113.30/853 || exit 0; sleep 0.2; done; exit 1"])",
                  {"--build-egress", "INTERNET_EGRESS"});
  });
  EXPECT_TRUE(wait_until([] { return internet->has_arrived("tcp 203.0.113.30 853"); }));
  EXPECT_EQ(set_maximum("narrow").status, 200);
  building.join();
  EXPECT_EQ(set_maximum("INTERNET_EGRESS").status, 200);
  EXPECT_EQ(built.status, 0) << built.out << built.err;
}

TEST_F(Changing, WhatIsLearntFromAWideRunSufficesForTheNext) {
  const std::vector<std::string> what{"tcp allowed.example 80", "udp 203.0.113.20 4000"};
  const std::string wide = launch("INTERNET_EGRESS");
  const std::vector<std::string> reached = probe(wide, what);
  EXPECT_THAT(reached[0], testing::StartsWith("ok"));
  EXPECT_THAT(reached[1], testing::StartsWith("ok"));
  const auto suggested = server->cli({"egress", wide, "--suggest"});
  EXPECT_EQ(suggested.status, 0) << suggested.err;
  kill(wide);
  const std::string file = server->data_dir() + "/learned.json";
  ASSERT_TRUE(sys::swap_file(file, suggested.out));
  const auto set = server->cli({"egress", "set", "learned", file});
  ASSERT_EQ(set.status, 0) << set.err;
  const std::string id = launch("learned");
  EXPECT_EQ(probe(id, what), reached);
  EXPECT_EQ(probe(id, {"tcp 203.0.113.20 80"})[0], "ECONNREFUSED");
  kill(id);
}

}  // namespace
}  // namespace firebreak::testing_support
