// Hostile code in real guests against their networks: root with raw sockets, forged packets,
// tunnels, other microVMs. Each test first shows that the same means work where they are allowed.
#include <fstream>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "server/egress_fixture.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr int kRounds = 10;
constexpr std::string_view kDnsRefused = "5 ";
// The host's own address, as guests' packets have it outside.
constexpr const char* kHost = "198.51.100.2";

auto is_refused() {
  return AnyOf("ECONNREFUSED", "EHOSTUNREACH", "EACCES", "EPERM", "ENETUNREACH", "no such name");
}

class EgressRedTeam : public EgressFixture {
 protected:
  static json::array hostile_argv(std::string_view command, const json::value& steps) {
    std::ifstream file(FIREBREAK_HOSTILE_GUEST);
    const std::string script{std::istreambuf_iterator<char>(file), {}};
    return {"python3", "-c", script, command, json::serialize(steps)};
  }
  static std::vector<std::string> hostile(const std::string& id, std::string_view command,
                                          const json::value& steps) {
    return lines_of(id, hostile_argv(command, steps));
  }

  static json::object packet(std::string_view protocol, std::string_view to, int port,
                             std::string_view text) {
    return {{"protocol", protocol}, {"to", to}, {"port", port}, {"text", text}};
  }
  static json::object with(json::object step, const json::object& more) {
    for (const auto& member : more) step[member.key()] = member.value();
    return step;
  }
  // Sends them, and then an honest one; when that has arrived, so has all that ever will.
  static void send_all(const std::string& id, json::array steps) {
    const std::string last = "last-" + std::to_string(++sent_);
    steps.push_back(packet("udp", "203.0.113.20", 4000, last));
    EXPECT_THAT(hostile(id, "send", steps), SizeIs(steps.size()));
    EXPECT_TRUE(wait_datagram(last)) << "not even the honest packet arrived";
  }
  static bool wait_datagram(const std::string& text) {
    return internet->wait_arrived("udp 4000 from " + std::string(kHost) + " b'" + text);
  }
  static bool has_datagram(const std::string& text) {
    for (const std::string& line : internet->arrived())
      if (line.starts_with("udp ") && line.contains("b'" + text)) return true;
    return false;
  }

 private:
  static inline int sent_ = 0;
};

TEST_F(EgressRedTeam, ForgedSendersLeadNowhere) {
  const std::string id = launch("INTERNET_EGRESS");
  const json::object v4 = packet("udp", "203.0.113.20", 4000, "forged");
  const json::object v6 = packet("udp", "2001:db8:2::10", 4000, "forged6");
  send_all(id, {with(v6, {{"text", "honest6"}})});
  EXPECT_TRUE(internet->has_arrived("seen 17 2001:db8:2::10 4000")) << "the same means, honest";

  json::array steps;
  for (const char* source : {"203.0.113.99", "10.107.0.1", "10.107.0.3", "100.127.0.0",
                             "100.127.0.1", "127.0.0.1", kHost})
    steps.push_back(with(v4, {{"source", source}}));
  for (const char* source : {"2001:db8:2::99", "fd7e:fb::1", "fd7f:fb::1", "fd7e:fb::3", "::1"})
    steps.push_back(with(v6, {{"source", source}}));
  steps.push_back(with(v4, {{"mac", "020000000666"}}));
  steps.push_back(with(packet("tcp", "203.0.113.20", 80, ""), {{"source", "203.0.113.99"}}));
  send_all(id, std::move(steps));
  EXPECT_FALSE(has_datagram("forged"));
  EXPECT_FALSE(internet->has_arrived("seen 6 203.0.113.20 80"));
  for (const std::string& line : internet->arrived())
    EXPECT_TRUE(!line.starts_with("seen") || line.ends_with(kHost) ||
                line.contains("from 2001:db8:1::2") || line.contains("from fe80:") ||
                line.ends_with(" ::"))
        << line;
  EXPECT_THAT(log_of(id), HasSubstr("wiring:spoofed"));
  kill(id);
}

TEST_F(EgressRedTeam, ForgedNeighboursChangeNothingForAnybody) {
  const std::string id = launch("INTERNET_EGRESS");
  const std::string other = launch("INTERNET_EGRESS");
  const std::vector<std::string> asked{"tcp 203.0.113.10 80", "tcp 2001:db8:2::10 80",
                                       "tcp allowed.example 80"};
  const std::vector<std::string> before = probe(other, asked);
  EXPECT_THAT(before, Each(StartsWith("ok I am ")));
  const json::array claims{"10.107.0.1",   "10.107.0.2",     "203.0.113.10",
                           "198.51.100.1", "100.127.0.0",    "fd7e:fb::1",
                           "fd7f:fb::",    "2001:db8:2::10", "2001:db8:1::1"};
  EXPECT_THAT(hostile(id, "neighbours", claims), SizeIs(claims.size()));
  EXPECT_EQ(probe(other, asked), before);
  EXPECT_EQ(probe(id, asked), before) << "it is believed only that its own address is its own";
  kill(id);
  kill(other);
}

TEST_F(EgressRedTeam, FragmentsHideNothing) {
  set_policy("one-port", R"({"rules":[
      {"action":"allow","cidr":"203.0.113.20","protocol":"udp","ports":[4000]},
      {"action":"allow","cidr":"2001:db8:2::10","protocol":"udp","ports":[4000]}]})");
  const std::string id = launch("one-port");
  const json::object big{{"repeat", 300}, {"fragment", 512}};
  const auto whole = [&](std::string_view to, int port, std::string_view text) {
    return with(packet("udp", to, port, text), big);
  };
  send_all(id, {whole("203.0.113.20", 4000, "whole4 "), whole("2001:db8:2::10", 4000, "whole6 "),
                with(whole("203.0.113.20", 4000, "turned "), {{"reverse", true}})});
  for (const char* text : {"whole4", "whole6", "turned"})
    EXPECT_TRUE(has_datagram(text)) << "allowed, whatever its pieces: " << text;

  send_all(id, {whole("203.0.113.20", 7, "hidden-a "), whole("2001:db8:2::10", 7, "hidden-b "),
                with(whole("203.0.113.20", 7, "hidden-c "), {{"reverse", true}}),
                // So small that the ports are in the second piece.
                with(packet("udp", "203.0.113.20", 7, "hidden-d"), {{"fragment", 8}}),
                with(packet("tcp", "203.0.113.20", 80, "hidden-e"), {{"fragment", 8}}),
                // A second header over the first, each way round: one of the two decides.
                with(whole("203.0.113.20", 4000, "either "), {{"overlap", 7}}),
                with(whole("203.0.113.20", 7, "hidden-g "), {{"overlap", 4000}}),
                with(whole("203.0.113.20", 4000, "hidden-h "), {{"drop_first", true}})});
  EXPECT_FALSE(has_datagram("hidden"));
  for (const char* line :
       {"seen 17 203.0.113.20 7 ", "seen 17 2001:db8:2::10 7 ", "seen 6 203.0.113.20 80 "})
    EXPECT_FALSE(internet->has_arrived(line)) << line;
  EXPECT_THAT(log_of(id), HasSubstr(R"("port":7)"));
  kill(id);
}

TEST_F(EgressRedTeam, PingIsNoTunnelWhereNamesDecide) {
  const std::string open = launch("INTERNET_EGRESS");
  EXPECT_THAT(hostile(open, "ping", json::array{"203.0.113.30", "2001:db8:2::20"}),
              ElementsAre("reply", "reply"));
  EXPECT_TRUE(internet->has_arrived("seen 1 203.0.113.30 8 "));
  kill(open);

  set_policy("a-name", R"({"rules":[{"action":"allow","domain":"allowed.example"}]})");
  const std::string id = launch("a-name");
  EXPECT_THAT(probe(id, {"tcp allowed.example 80"})[0], StartsWith("ok"));
  const auto answers = hostile(
      id, "ping", json::array{"203.0.113.10", "2001:db8:2::10", "203.0.113.53", "10.5.5.5"});
  EXPECT_THAT(answers, Each(AnyOf(StartsWith("prohibited"), "EACCES", "EHOSTUNREACH")))
      << "also of the address it may reach by TCP";
  for (const char* line : {"seen 1 203.0.113.10 8 ", "seen 58 2001:db8:2::10 128 ",
                           "seen 1 203.0.113.53 8 ", "seen 1 10.5.5.5 8 "})
    EXPECT_FALSE(internet->has_arrived(line)) << line;
  EXPECT_THAT(log_of(id), HasSubstr(R"("protocol":"icmp")"));
  kill(id);
}

TEST_F(EgressRedTeam, DeniedNamesCarryNothingOutAndSayWhy) {
  set_policy("few-names", R"({"rules":[{"action":"allow","domain":"allowed.example"},
                                       {"action":"allow","domain":"*.wild.example"}]})");
  const std::string id = launch("few-names");
  json::array asked;
  const std::string label(60, 'x');
  for (int i = 0; i < 100; ++i) {
    const std::string data = std::to_string(i) + "." + label + "." + label + "." + label;
    asked.push_back(json::array{data + ".evil.example", i % 2 == 0 ? 1 : 28});
  }
  // Other types, below an allowed name, and an allowed name as a part of another.
  for (const int type : {2, 5, 15, 16, 33, 65, 255}) {
    asked.push_back(json::array{"evil.example", type});
    asked.push_back(json::array{"data.allowed.example", type});
  }
  asked.push_back(json::array{"allowed.example.evil.example", 1});
  const auto answers = hostile(id, "ask", asked);
  ASSERT_THAT(answers, SizeIs(asked.size()));
  EXPECT_THAT(answers, Each(StartsWith(std::string(kDnsRefused))));
  EXPECT_THAT(answers[0], HasSubstr("no rule of the egress policy allows the name"));
  for (const std::string& line : internet->arrived())
    EXPECT_FALSE(line.starts_with("dns") &&
                 (line.contains("evil.example") || line.contains("data.allowed")))
        << line;
  json::array text;
  text.push_back(json::array{"allowed.example", 16});
  EXPECT_THAT(hostile(id, "ask", text), ElementsAre(StartsWith("0 ")))
      << "of an allowed name, no text, and nobody is asked for it";
  EXPECT_FALSE(internet->has_arrived("dns allowed.example 16"));

  // Below an allowed wildcard names can carry data, so they are counted.
  json::array many;
  for (int i = 0; i < 520; ++i)
    many.push_back(json::array{"data" + std::to_string(i) + ".wild.example", 1});
  const auto counted = hostile(id, "ask", many);
  ASSERT_THAT(counted, SizeIs(many.size()));
  EXPECT_EQ(std::ranges::count_if(counted, [](const auto& one) { return one.starts_with("3"); }),
            500);
  EXPECT_THAT(counted.back(), StartsWith(std::string(kDnsRefused)));
  EXPECT_FALSE(internet->has_arrived("dns data519.wild.example"));
  kill(id);
}

TEST_F(EgressRedTeam, OtherResolversAndTheirDisguisesAreDenied) {
  // One with the address block as well: a rule without ports does not mean these.
  set_policy("sites", R"({"rules":[{"action":"allow","domain":"allowed.example"}]})");
  set_policy("sites-and-block", R"({"rules":[{"action":"allow","domain":"allowed.example"},
                                             {"action":"allow","cidr":"203.0.113.0/24"},
                                             {"action":"allow","cidr":"2001:db8:2::/64"}]})");
  for (const char* policy : {"sites", "sites-and-block"}) {
    const std::string id = launch(policy);
    EXPECT_THAT(probe(id, {"tcp allowed.example 443"})[0], StartsWith("ok"));
    const auto refused =
        probe(id, {"udp 203.0.113.53 53", "tcp 203.0.113.53 53", "udp 203.0.113.10 53",
                   "tcp 203.0.113.10 53", "tcp 203.0.113.10 853", "tcp 2001:db8:2::10 853",
                   "udp 203.0.113.10 443", "udp 2001:db8:2::10 443", "tcp 203.0.113.53 853",
                   "udp 198.51.100.1 53"});
    EXPECT_THAT(refused, Each(is_refused())) << policy;
    for (const char* line :
         {"seen 17 203.0.113.53 53", "seen 6 203.0.113.53 53", "seen 6 203.0.113.10 853",
          "seen 6 2001:db8:2::10 853", "seen 17 203.0.113.10 443", "seen 17 2001:db8:2::10 443"})
      EXPECT_FALSE(internet->has_arrived(line)) << policy << ": " << line;
    kill(id);
  }
  // Of DNS over HTTPS there is nothing to see but an address: nobody resolved it.
  const std::string id = launch("sites");
  EXPECT_THAT(probe(id, {"tcp 203.0.113.20 443", "tcp 2001:db8:2::20 443"}), Each(is_refused()));
  kill(id);

  const std::string open = launch("INTERNET_EGRESS");
  EXPECT_THAT(probe(open, {"tcp 203.0.113.10 853", "udp 203.0.113.10 443"}), Each(StartsWith("ok")))
      << "they are there, and reached where all is allowed";
  kill(open);
}

// Listens on every address of the host.
class HostListener {
 public:
  HostListener() : fd_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    socklen_t size = sizeof any;
    if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&any), size) != 0 ||
        ::listen(fd_.get(), 64) != 0 ||
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
      ADD_FAILURE() << "no listener on the host";
    port_ = std::to_string(ntohs(any.sin6_port));
  }
  const std::string& port() const { return port_; }
  bool connected() const { return UniqueFd(::accept(fd_.get(), nullptr, nullptr)).get() >= 0; }
  // As anybody who may.
  bool reached_from_here() const {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port_)));
    ::inet_pton(AF_INET, kHost, &to.sin_addr);
    return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 && connected();
  }

 private:
  UniqueFd fd_;
  std::string port_;
};

TEST_F(EgressRedTeam, NoPolicyOpensTheHostItsNeighboursOrMetadata) {
  ASSERT_EQ(set_maximum("wide").status, 200);
  const std::string id = launch("wide");
  const std::string other = launch("wide");
  EXPECT_THAT(probe(id, {"tcp 10.5.5.5 80", "tcp fd00:5::5 80"}), Each(StartsWith("ok I am")))
      << "the policy is as wide as can be";

  const HostListener listener;
  ASSERT_TRUE(listener.reached_from_here());
  (void)shell(other, "cd /tmp && python3 -m http.server 80 >/dev/null 2>/tmp/served &");
  std::string served;
  for (int i = 0; i < 100 && !served.contains("GET /mine"); ++i)
    served = shell(other,
                   "python3 -c \"import urllib.request as r; "
                   "r.urlopen('http://127.0.0.1/mine')\" 2>/dev/null; cat /tmp/served");
  ASSERT_THAT(served, HasSubstr("GET /mine"));

  std::vector<std::string> what;
  for (const char* host : {kHost, "2001:db8:1::2", "10.107.0.1", "fd7e:fb::1"}) {
    what.push_back("tcp " + std::string(host) + " " + listener.port());
    what.push_back("udp " + std::string(host) + " 9");
  }
  const std::string api = server->url().substr(server->url().rfind(':') + 1);
  for (const char* host : {kHost, "10.107.0.1"})
    what.push_back("tcp " + std::string(host) + " " + api);
  // Both ends of everybody's uplinks.
  for (int i = 0; i < 12; ++i) {
    what.push_back("tcp 100.127.0." + std::to_string(i) + " " +
                   (i % 2 == 0 ? listener.port() : "80"));
    char v6[32];
    std::snprintf(v6, sizeof v6, "tcp fd7f:fb::%x ", static_cast<unsigned>(i));
    what.push_back(v6 + (i % 2 == 0 ? listener.port() : std::string("80")));
  }
  // 169.254.169.254 itself never leaves the guest; its neighbour does.
  for (const char* metadata : {"169.254.169.253", "fd00:ec2::254", "64:ff9b::a9fe:a9fe",
                               "2002:a9fe:a9fe::1", "64:ff9b::a05:505", "2002:a05:505::1"})
    what.push_back("tcp " + std::string(metadata) + " 80");
  const auto refused = probe(id, what);
  for (std::size_t i = 0; i < what.size(); ++i) EXPECT_THAT(refused[i], is_refused()) << what[i];
  EXPECT_FALSE(listener.connected());
  EXPECT_EQ(shell(other, "grep -c GET /tmp/served"), shell(other, "grep -c mine /tmp/served"));
  what = {"tcp 169.254.169.254 80"};
  EXPECT_THAT(probe(id, what)[0], testing::StartsWith("ok"));
  for (const char* address : {"169.254.169.254", "fd00:ec2::254"})
    EXPECT_FALSE(internet->has_arrived("tcp " + std::string(address))) << address;
  const std::string log = log_of(id);
  for (const char* address : {kHost, "169.254.169.253", "fd00:ec2::254", "100.127.0.3"})
    EXPECT_THAT(log, HasSubstr('"' + std::string(address) + '"'));
  kill(id);
  kill(other);
  ASSERT_EQ(set_maximum("INTERNET_EGRESS").status, 200);
}

// Two sites at one address, of which a policy means one.
TEST_F(EgressRedTeam, TlsAsksOnlyForNamesThatMayBeReached) {
  static constexpr const char* kSite = "203.0.113.10";
  const std::string rules = R"("rules":[{"action":"allow","domain":"allowed.example"}])";
  set_policy("unchecked", "{" + rules + "}");
  set_policy("checked", R"({"sniCheck":true,)" + rules + "}");
  const auto asks = [](const json::value& name) {
    return json::object{{"to", kSite}, {"name", name}};
  };
  const json::array forbidden{asks("cdn.example"), asks(nullptr),
                              json::object{{"to", kSite}, {"raw", "GET / HTTP/1.1\r\n\r\n"}}};
  const auto names_heard = [] {
    std::vector<std::string> out;
    for (const std::string& line : internet->arrived())
      if (line.starts_with("tls ")) out.push_back(line);
    return out;
  };

  const std::string id = launch("unchecked");
  EXPECT_THAT(probe(id, {"name allowed.example"}), ElementsAre(HasSubstr(kSite)));
  EXPECT_THAT(hostile(id, "tls", json::array{asks("cdn.example")}),
              ElementsAre("ok I am 203.0.113.10 as cdn.example"));
  ASSERT_EQ(server->call("PATCH", "/v1/microvms/" + id, json::object{{"egress", "checked"}}).status,
            200);
  const std::size_t before = names_heard().size();
  EXPECT_THAT(hostile(id, "tls", forbidden), Each("ECONNRESET"));
  EXPECT_EQ(names_heard().size(), before);
  const json::array allowed{asks("allowed.example"), with(asks("Allowed.Example"), {{"piece", 1}}),
                            json::object{{"to", "2001:db8:2::10"}, {"name", "allowed.example"}},
                            with(asks("allowed.example"), {{"path", "/bytes/3000000"}})};
  const auto works = ElementsAre("ok I am 203.0.113.10 as allowed.example",
                                 "ok I am 203.0.113.10 as Allowed.Example",
                                 "ok I am 2001:db8:2::10 as allowed.example", "ok 3000000");
  EXPECT_THAT(hostile(id, "tls", allowed), works);
  EXPECT_THAT(probe(id, {"tcp allowed.example 80"}), ElementsAre(StartsWith("ok I am")));
  const std::string log = log_of(id);
  for (const char* rule : {"policy:server-name", "policy:no-server-name", "policy:not-tls"})
    EXPECT_THAT(log, HasSubstr('"' + std::string(rule) + '"'));
  EXPECT_THAT(log, HasSubstr("TLS asks for cdn.example"));
  EXPECT_GT(json::parse(log).at("bytesIn").to_number<std::uint64_t>(), 3'000'000U);

  // The next server listens again, and knows which names the addresses were given for.
  const json::array both{asks("allowed.example"), asks("cdn.example")};
  const auto one_works = ElementsAre("ok I am 203.0.113.10 as allowed.example", "ECONNRESET");
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_THAT(hostile(id, "tls", both), one_works);
  EXPECT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  EXPECT_EQ(server->call("POST", "/v1/check").text_of("ok"), "true");
  EXPECT_THAT(probe(id, {"name allowed.example"}), ElementsAre(HasSubstr(kSite)));
  EXPECT_THAT(hostile(id, "tls", both), one_works);
  ASSERT_EQ(
      server->call("PATCH", "/v1/microvms/" + id, json::object{{"egress", "unchecked"}}).status,
      200);
  EXPECT_THAT(hostile(id, "tls", json::array{asks("cdn.example")}),
              ElementsAre("ok I am 203.0.113.10 as cdn.example"));
  kill(id);
  EXPECT_EQ(server->call("POST", "/v1/check").text_of("ok"), "true");
}

TEST_F(EgressRedTeam, MuchAllowedTrafficIsNotInTheWay) {
  const std::string id = launch("INTERNET_EGRESS");
  EXPECT_THAT(hostile(id, "download", json::array{"203.0.113.10", 20'000'000}),
              ElementsAre(testing::EndsWith("complete")));
  EXPECT_THAT(hostile(id, "hold", json::array{"203.0.113.10", 200}),
              ElementsAre("200 none", "again"));
  EXPECT_THAT(hostile(id, "http2", json::array{"203.0.113.10", 8082}),
              ElementsAre("200 spoken in HTTP/2"));
  kill(id);
}

TEST_F(EgressRedTeam, CapsHoldInTheGuest) {
  set_policy("capped", R"({"internet":true,"maxBytes":1000000})");
  const std::string id = launch("capped");
  EXPECT_THAT(hostile(id, "download", json::array{"203.0.113.10", 100'000}),
              ElementsAre(testing::EndsWith("complete")));
  const std::string cut = hostile(id, "download", json::array{"203.0.113.10", 5'000'000}).at(0);
  EXPECT_THAT(cut, HasSubstr("cut"));
  EXPECT_LT(std::stoul(cut), 900'000U) << "what was used before counts";
  EXPECT_THAT(probe(id, {"tcp 203.0.113.20 80"})[0], is_refused());
  EXPECT_THAT(log_of(id), HasSubstr("policy:byte-cap"));
  // Neither a sleep nor a new server gives bytes back: there is a rest of less than a packet.
  EXPECT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  server->kill_hard();
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_THAT(hostile(id, "download", json::array{"203.0.113.20", 5'000'000}).at(0),
              HasSubstr("cut"));
  const json::value counted = json::parse(log_of(id));
  const auto all = counted.at("bytesIn").to_number<std::uint64_t>() +
                   counted.at("bytesOut").to_number<std::uint64_t>();
  EXPECT_LE(all, 1'000'000U);
  EXPECT_GT(all, 100'000U);
  kill(id);

  set_policy("few", R"({"internet":true,"maxConnections":5})");
  const std::string few = launch("few");
  EXPECT_THAT(hostile(few, "hold", json::array{"203.0.113.10", 20}),
              ElementsAre("5 ECONNREFUSED", "again"));
  EXPECT_THAT(log_of(few), HasSubstr("policy:connection-cap"));
  kill(few);
}

// All have the same address and use the same ports at the same time; nobody hears another.
// 50 with ./dev test --long.
TEST_F(EgressRedTeam, ManyWithOneAddressDoNotHearEachOther) {
  const std::size_t count = how_many(12);
  std::vector<std::string> ids;
  std::vector<std::string> execs;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(launch("INTERNET_EGRESS"));
  for (const std::string& id : ids) {
    const Answer started =
        server->call("POST", "/v1/microvms/" + id + "/execs",
                     json::object{{"argv", hostile_argv("talk", json::array{id, count, kRounds})},
                                  {"timeoutMs", 300'000}});
    ASSERT_EQ(started.status, 201) << started.text;
    execs.push_back(started.text_of("exec"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string out =
        server->call("GET", "/v1/microvms/" + ids[i] + "/execs/" + execs[i] + "/output").text;
    EXPECT_THAT(out, HasSubstr("good " + std::to_string(kRounds) + " wrong 0 as 10.107.0.2"));
  }
  for (const std::string& id : ids) kill(id);
  EXPECT_EQ(server->call("POST", "/v1/check").text_of("ok"), "true");
}

}  // namespace
}  // namespace firebreak::testing_support
