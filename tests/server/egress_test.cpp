// Networks of microVMs in real guests, against an internet made of namespaces: what a policy allows
// works, everything else is refused at once and written down.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/egress_fixture.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;

using EgressTest = EgressFixture;

TEST_F(EgressTest, TheInternetIsReachedAndNothingPrivateIs) {
  const std::string id = launch("INTERNET_EGRESS");
  const auto reached =
      probe(id, {"tcp 203.0.113.10 80", "tcp allowed.example 80", "udp 203.0.113.20 4000",
                 "tcp 2001:db8:2::10 8080", "name allowed.example"});
  EXPECT_EQ(reached[0], "ok I am 203.0.113.10");
  EXPECT_THAT(reached[1], testing::StartsWith("ok I am"));
  EXPECT_EQ(reached[2], "ok echo hello");
  EXPECT_EQ(reached[3], "ok I am 2001:db8:2::10");
  EXPECT_EQ(reached[4], "2001:db8:2::10,203.0.113.10");
  const auto refused =
      probe(id, {"tcp 10.5.5.5 80", "tcp 172.20.1.1 80", "tcp 192.168.7.7 80", "tcp 100.64.9.9 80",
                 "tcp 169.254.169.253 80", "tcp fd00:5::5 80", "tcp fd00:ec2::254 80",
                 "udp 10.5.5.5 4000", "name rebind.example", "name metadata.example",
                 "tcp 198.51.100.2 22", "tcp 10.107.0.1 80", "name nothing.example"});
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_THAT(refused[i], testing::AnyOf("ECONNREFUSED", "EHOSTUNREACH", "EACCES", "EPERM",
                                           "ENETUNREACH", "no such name"))
        << i;
  }
  for (const char* address : {"10.5.5.5", "172.20.1.1", "192.168.7.7", "100.64.9.9",
                              "169.254.169.254", "fd00:5::5", "fd00:ec2::254"})
    EXPECT_FALSE(internet->has_arrived(std::string("tcp ") + address));
  const std::string log = log_of(id);
  for (const char* address : {"10.5.5.5", "169.254.169.253", "192.168.7.7", "rebind.example"})
    EXPECT_THAT(log, HasSubstr(address));
  // Its own metadata service answers there; nothing of it reaches the network.
  EXPECT_THAT(probe(id, {"tcp 169.254.169.254 80"})[0], testing::StartsWith("ok"));
  EXPECT_FALSE(internet->has_arrived("tcp 169.254.169.254"));
  kill(id);
}

TEST_F(EgressTest, WithoutEgressThereIsOnlyLoopback) {
  const std::string id = launch("NO_EGRESS");
  EXPECT_EQ(shell(id, "ls /sys/class/net"), "lo\n");
  const auto refused = probe(id, {"tcp 203.0.113.10 80", "name allowed.example"});
  EXPECT_EQ(refused[0], "ENETUNREACH");
  EXPECT_EQ(refused[1], "no such name");
  EXPECT_THAT(probe(id, {"tcp 169.254.169.254 80"})[0], testing::StartsWith("ok"));
  kill(id);
}

// Parked clones have a network, until nobody wants one; whoever comes then still gets it.
TEST_F(EgressTest, ParkedClonesFollowWhatIsLaunched) {
  const auto networks = [] { return sys::list_dir(server->data_dir() + "/netns")->size(); };
  const auto parked = [] {
    return static_cast<std::size_t>(server->metric("firebreak_pool_size"));
  };
  const auto wait_until = [](const auto& come) {
    for (int i = 0; i < 600; ++i) {
      if (come()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  };
  kill(launch("INTERNET_EGRESS"));
  ASSERT_TRUE(wait_until([&] { return parked() > 0 && networks() == parked(); }));
  const std::string first = launch("NO_EGRESS");
  EXPECT_EQ(shell(first, "ls /sys/class/net"), "lo\n") << "the parked clone had a card";
  kill(first);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(wait_until([&] { return parked() > 0; }));
    kill(launch("NO_EGRESS"));
  }
  ASSERT_TRUE(wait_until([&] { return parked() > 0 && networks() == 0; }));
  const std::string late = launch("INTERNET_EGRESS");
  EXPECT_THAT(probe(late, {"tcp 203.0.113.10 80"})[0], testing::StartsWith("ok"));
  kill(late);
  EXPECT_TRUE(wait_until([&] { return parked() > 0 && networks() == parked(); }));
}

TEST_F(EgressTest, NamesDecideWhereAPolicyHasThem) {
  set_policy("names", R"({"rules":[{"action":"allow","domain":"allowed.example"},
                                   {"action":"allow","domain":"*.wild.example","ports":[8080]}]})");
  const std::string id = launch("names");
  // Nobody resolved it yet.
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80"})[0], "ECONNREFUSED");
  const auto reached = probe(id, {"tcp allowed.example 80", "tcp deep.a.wild.example 8080"});
  EXPECT_THAT(reached[0], testing::StartsWith("ok I am"));
  EXPECT_EQ(reached[1], "ok I am 203.0.113.30");
  const auto refused =
      probe(id, {"tcp allowed.example 8080", "tcp deep.a.wild.example 80", "name other.example",
                 "tcp 203.0.113.20 80", "udp 203.0.113.10 443", "udp 203.0.113.53 53"});
  for (const std::string& one : refused)
    EXPECT_THAT(one, testing::AnyOf("ECONNREFUSED", "EHOSTUNREACH", "EACCES", "no such name"));
  // A denied name does not leave the host at all.
  EXPECT_FALSE(internet->has_arrived("dns other.example"));
  kill(id);
}

TEST_F(EgressTest, APolicyChangesWhileItRuns) {
  set_policy("open", R"({"internet":true})");
  const std::string id = launch("open");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80"})[0], "ok I am 203.0.113.10");
  set_policy("open", R"({"rules":[{"action":"allow","cidr":"203.0.113.20"}]})");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80"})[0], "ECONNREFUSED");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.20 80"})[0], "ok I am 203.0.113.20");
  const Answer none =
      server->call("PATCH", "/v1/microvms/" + id, json::object{{"egress", "NO_EGRESS"}});
  EXPECT_EQ(none.status, 200) << none.text;
  EXPECT_EQ(shell(id, "ls /sys/class/net"), "lo\n");
  const Answer back =
      server->call("PATCH", "/v1/microvms/" + id, json::object{{"egress", "INTERNET_EGRESS"}});
  EXPECT_EQ(back.status, 200) << back.text;
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80"})[0], "ok I am 203.0.113.10");
  kill(id);
}

TEST_F(EgressTest, ARunCannotWidenWhatItsTenantGetsAtMost) {
  set_policy("lan", R"({"rules":[{"action":"allow","cidr":"192.168.7.0/24"}]})");
  const std::string id = launch("lan");
  EXPECT_EQ(probe(id, {"tcp 192.168.7.7 80"})[0], "ECONNREFUSED");
  EXPECT_THAT(log_of(id), HasSubstr("maximum"));
  kill(id);
}

TEST_F(EgressTest, ATenantCannotWidenItsMaximumByItsName) {
  ASSERT_EQ(set_maximum("narrow").status, 200);
  const std::string id = launch("INTERNET_EGRESS");
  const std::vector<std::string> what{"tcp 203.0.113.20 80", "tcp 203.0.113.10 80"};
  const std::vector<std::string> kept{"ok I am 203.0.113.20", "ECONNREFUSED"};
  EXPECT_EQ(probe(id, what), kept);
  set_policy("narrow", R"({"internet":true})");
  EXPECT_EQ(probe(id, what), kept);
  set_policy("mine", R"({"internet":true})");
  const Answer own = set_maximum("mine");
  EXPECT_EQ(own.status, 404) << own.text;
  EXPECT_THAT(own.text, HasSubstr("--egress-policies"));
  EXPECT_EQ(server->call("DELETE", "/v1/egress-policies/narrow").status / 100, 2);
  ASSERT_EQ(set_maximum("INTERNET_EGRESS").status, 200);
  kill(id);
}

TEST_F(EgressTest, TheNetworkSurvivesSuspendAndANewServer) {
  const std::string id = launch("INTERNET_EGRESS");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80"})[0], "ok I am 203.0.113.10");
  EXPECT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  EXPECT_EQ(server->call("POST", "/v1/check").text_of("ok"), "true");
  EXPECT_EQ(probe(id, {"tcp 203.0.113.10 80", "tcp 10.5.5.5 80"}),
            (std::vector<std::string>{"ok I am 203.0.113.10", "ECONNREFUSED"}));
  // Reading it brings the last moment to the disk.
  EXPECT_THAT(log_of(id), HasSubstr("10.5.5.5"));
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_EQ(probe(id, {"tcp allowed.example 80"})[0].substr(0, 7), "ok I am");
  EXPECT_THAT(log_of(id), HasSubstr("10.5.5.5"));
  kill(id);
  const Answer check = server->call("POST", "/v1/check");
  EXPECT_EQ(check.text_of("ok"), "true") << check.text;
}

TEST_F(EgressTest, TheGuestReadsWhyItWasRefused) {
  const std::string id = launch("INTERNET_EGRESS");
  (void)probe(id, {"tcp 10.5.5.5 80"});
  std::string seen;
  for (int i = 0; i < 100 && seen.find("10.5.5.5") == std::string::npos; ++i)
    seen = shell(id, "cat /run/firebreak/egress.json; sleep 0.1");
  EXPECT_THAT(seen, HasSubstr("10.5.5.5"));
  kill(id);
}

TEST_F(EgressTest, TheCommandLineShowsWhatCameOfIt) {
  set_policy("shown", R"({"rules":[{"action":"allow","domain":"allowed.example"}]})");
  const std::string id = launch("shown");
  const auto seen = probe(id, {"tcp allowed.example 80", "tcp 10.5.5.5 80", "name other.example"});
  EXPECT_THAT(seen[0], testing::StartsWith("ok"));
  // Of one line of the table: its words, in order.
  const auto line = [](const std::string& text, const std::string& with) {
    const std::size_t at = text.find(with);
    if (at == std::string::npos) return "no line with " + with + " in\n" + text;
    const std::size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  using testing::ContainsRegex;
  const std::string out = server->cli({"egress", id}).out;
  EXPECT_THAT(out, testing::StartsWith("WHEN"));
  EXPECT_THAT(line(out, " 10.5.5.5"),
              ContainsRegex("^[0-9]+ s ago +connect +deny +tcp +10.5.5.5 +80 +[0-9]+ "
                            "+[a-z]+:[a-z-]+ +[a-z]"));
  EXPECT_THAT(line(out, "203.0.113.10"), ContainsRegex("^[0-9]+ s ago +(name|connect) +allow"));
  EXPECT_THAT(line(out, " name "), ContainsRegex("allowed.example +[0-9]+ +policy:1"));
  EXPECT_THAT(line(out, "other.example"), ContainsRegex("name +deny +other.example +[0-9]+"));
  const auto suggested = parse_json(server->cli({"egress", id, "--suggest"}).out);
  ASSERT_TRUE(suggested);
  EXPECT_THAT(json::serialize(*suggested), HasSubstr(R"("domain":"allowed.example")"));
  kill(id);
}

}  // namespace
}  // namespace firebreak::testing_support
