// The agent's whole protocol without a guest: the real binary over two sockets, running its execs
// and files on this host.
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent_fixture.h"
#include "base/text.h"

namespace firebreak::testing_agent {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class AgentNative : public AgentFixture {
 protected:
  Output run(std::string_view body) {
    return parse_output(data_->call("POST", "/execs?attach=1", body).body);
  }

  std::string start(std::string_view body) {
    const Reply reply = data_->call("POST", "/execs", body);
    EXPECT_EQ(reply.status, 201) << reply.body;
    return std::string(reply.json().at("id").as_string());
  }

  json::object status(const std::string& id) { return data_->call("GET", "/execs/" + id).json(); }

  Output output(const std::string& id, std::uint64_t offset = 0) {
    return parse_output(
        data_->call("GET", "/execs/" + id + "/output?offset=" + std::to_string(offset)).body);
  }
};

TEST_F(AgentNative, HealthBeforeAndAfterTheTenant) {
  Reply health = ctl_->call("GET", "/health");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.json().at("tenant").as_string(), "none");
  EXPECT_EQ(health.json().at("protocol").as_int64(), 1);
  EXPECT_EQ(data_->call("POST", "/execs", R"({"argv":["true"]})").status, 409);
  EXPECT_EQ(data_->call("GET", "/files?path=/etc/passwd").status, 409);
  make_tenant();
  EXPECT_EQ(ctl_->call("GET", "/health").json().at("tenant").as_string(), "running");
  EXPECT_EQ(ctl_->call("POST", "/tenant", R"({"root":{"device":"none"}})").status, 409);
  EXPECT_EQ(ctl_->call("POST", "/freeze", "{}").status, 409);
  EXPECT_EQ(ctl_->call("GET", "/nothing").status, 404);
  EXPECT_EQ(ctl_->call("POST", "/wake", "{not json").status, 400);
}

TEST_F(AgentNative, ExecGivesOutputInOrderAndExit) {
  make_tenant();
  const Output output = run(
      R"({"shell":"echo one; sleep 0.05; echo two >&2; sleep 0.05; echo $FROM $MINE; exit 3","env":{"MINE":"exec"}})");
  EXPECT_EQ(output.out, "one\ntenant exec\n");
  EXPECT_EQ(output.err, "two\n");
  EXPECT_EQ(output.order, "01213");
  EXPECT_EQ(output.exit_code(), 3);
  EXPECT_FALSE(output.exit_json().at("timed_out").as_bool());
}

TEST_F(AgentNative, ProgramsThatCannotStart) {
  make_tenant();
  const auto code = [&](std::string_view body) {
    return data_->call("POST", "/execs", body).status;
  };
  EXPECT_EQ(code(R"({"argv":["no-such-program"]})"), 404);
  EXPECT_EQ(code(R"({"argv":["/etc/passwd"]})"), 403);
  EXPECT_EQ(code(R"({"argv":["true"],"cwd":"/nowhere"})"), 400);
  EXPECT_EQ(code(R"({"argv":["true"],"user":"nobody-of-that-name"})"), 400);
  EXPECT_EQ(code(R"({"argv":[]})"), 400);
  EXPECT_EQ(code(R"({"argv":["true"],"id":"app"})"), 400);
  const Reply twice = data_->call("POST", "/execs", R"({"argv":["true"],"id":"mine"})");
  EXPECT_EQ(twice.status, 201);
  EXPECT_EQ(code(R"({"argv":["true"],"id":"mine"})"), 409);
  EXPECT_EQ(data_->call("GET", "/execs/none").status, 404);
}

TEST_F(AgentNative, StdinWithOffsetsAndEnd) {
  make_tenant();
  const std::string id = start(R"({"argv":["cat"],"stdin":true})");
  const std::string base = "/execs/" + id + "/stdin";
  EXPECT_EQ(data_->call("POST", base + "?offset=0", "hello ").json().at("stdin_offset").as_int64(),
            6);
  // A write that was cut is repeated from the start: what arrived is skipped.
  EXPECT_EQ(
      data_->call("POST", base + "?offset=0", "hello world").json().at("stdin_offset").as_int64(),
      11);
  EXPECT_EQ(data_->call("POST", base + "?offset=99", "x").status, 409);
  EXPECT_EQ(data_->call("POST", base + "?offset=11&eof=1", "!").status, 200);
  const Output result = output(id);
  EXPECT_EQ(result.out, "hello world!");
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_EQ(data_->call("POST", base + "?offset=0&eof=1", "hello world!").status, 200)
      << "a repeat";
  EXPECT_EQ(data_->call("POST", base + "?offset=12", "more").status, 409);
}

TEST_F(AgentNative, StdinStallsWithItsReader) {
  make_tenant();
  const std::string id = start(R"({"shell":"sleep 0.3; cat","stdin":true})");
  std::string big(3 << 20, '\0');
  std::mt19937 random(1);
  for (char& c : big) c = static_cast<char>(random());
  const auto in = data_->start("POST", "/execs/" + id + "/stdin?offset=0&eof=1", "", false);
  const auto out = data_->start("GET", "/execs/" + id + "/output?offset=0");
  data_->write(in, big);
  data_->finish(in);
  ASSERT_TRUE(data_->until([&] { return data_->reply(in).closed && data_->reply(out).closed; }));
  EXPECT_EQ(data_->reply(in).status, 200);
  EXPECT_EQ(parse_output(data_->reply(out).body).out, big);
}

TEST_F(AgentNative, SignalsReachTheGroupOrOneProcess) {
  make_tenant();
  const std::string id = start(
      R"({"shell":"trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.05; done"})");
  const auto stream = data_->start("GET", "/execs/" + id + "/output?offset=0");
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).body.size() > 5; }));
  EXPECT_EQ(
      data_->call("POST", "/execs/" + id + "/signal", R"({"signal":10,"group":false})").status,
      200);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }));
  const Output result = parse_output(data_->reply(stream).body);
  EXPECT_EQ(result.out, "ready\ngot\n");
  EXPECT_EQ(result.exit_code(), 9);
  EXPECT_EQ(data_->call("POST", "/execs/" + id + "/signal", R"({"signal":15})").status, 409);

  const std::string sleeper = start(R"({"shell":"sleep 100 | sleep 100"})");
  EXPECT_EQ(data_->call("POST", "/execs/" + sleeper + "/signal", R"({"signal":99999})").status,
            400);
  EXPECT_EQ(data_->call("POST", "/execs/" + sleeper + "/signal", "{}").status, 200);
  EXPECT_EQ(output(sleeper).exit_json().at("signal").as_int64(), SIGTERM);
}

TEST_F(AgentNative, TimeoutKills) {
  make_tenant();
  const Output output = run(R"({"shell":"echo before; sleep 100","timeout_ms":150})");
  EXPECT_EQ(output.out, "before\n");
  EXPECT_TRUE(output.exit_json().at("timed_out").as_bool());
  EXPECT_EQ(output.exit_json().at("signal").as_int64(), SIGKILL);
}

TEST_F(AgentNative, BackgroundChildrenDoNotHoldTheCall) {
  make_tenant();
  const auto before = std::chrono::steady_clock::now();
  const Output output = run(R"({"shell":"sleep 3 & echo done"})");
  EXPECT_EQ(output.out, "done\n");
  EXPECT_EQ(output.exit_code(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
}

TEST_F(AgentNative, BackgroundChildrenOutliveTheirPipe) {
  make_tenant();
  const std::string mark = dir_ + "/mark";
  run(R"({"shell":"(sleep 0.4; echo late && echo alive > )" + mark + R"() & echo done"})");
  ASSERT_TRUE(data_->until([&] { return sys::exists(mark); }, 5s));
}

TEST_F(AgentNative, LargeOutputStopsAtAStalledReader) {
  make_tenant();
  data_->hold(true);
  const auto stream =
      data_->start("POST", "/execs?attach=1",
                   R"({"shell":"head -c 20000000 /dev/zero | tr '\\0' x; echo end >&2"})");
  data_->until([] { return false; }, 500ms);
  const std::string id = "e1";
  const auto produced = status(id).at("offset").as_int64();
  EXPECT_LT(produced, 4 << 20) << "a full ring stops the process";
  // Another stream is not held up.
  EXPECT_EQ(data_->call("GET", "/execs").status, 200);
  data_->hold(false);
  data_->release(stream);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }, 60s));
  const Output result = parse_output(data_->reply(stream).body);
  EXPECT_EQ(result.out.size(), 20'000'000U);
  EXPECT_EQ(result.err, "end\n");
  EXPECT_EQ(result.exit_code(), 0);
}

TEST_F(AgentNative, DropKeepsTheEndAndReportsTheGap) {
  make_tenant();
  const std::string id = start(
      R"({"shell":"head -c 3000000 /dev/zero | tr '\\0' y; echo last","overflow":"drop","ring_bytes":65536})");
  ASSERT_TRUE(data_->until([&] { return !status(id).at("running").as_bool(); }));
  const Output result = output(id);
  EXPECT_GT(result.gap, 2'900'000U);
  EXPECT_EQ(result.offset(), 3'000'005U);
  EXPECT_TRUE(result.out.ends_with("yyylast\n"));
}

// The exec numbers its output; readers come and go at random bytes, and nothing may be lost or come
// twice.
TEST_F(AgentNative, ReattachAfterCutsAtRandomBytes) {
  make_tenant();
  const std::string id = start(R"({"shell":"seq 1 400000"})");
  std::mt19937 random(11);
  std::string all;
  for (int cut = 0; cut < 40 && all.size() < 2'000'000; ++cut) {
    const auto stream =
        data_->start("GET", "/execs/" + id + "/output?offset=" + std::to_string(all.size()));
    const std::size_t want = random() % 120'000;
    data_->until(
        [&] { return data_->reply(stream).body.size() >= want || data_->reply(stream).closed; });
    const Output seen = parse_output(data_->reply(stream).body);
    ASSERT_EQ(seen.gap, 0U);
    all += seen.out;
    if (!seen.exit.empty()) break;
    // Leave in the middle of a request, too.
    data_->start("POST", "/execs/" + id + "/signal", R"({"signal":0})");
    data_->cut_after(random() % 60);
    ASSERT_TRUE(data_->connect());
  }
  const Output rest = output(id, all.size());
  all += rest.out;
  std::string expected;
  for (int i = 1; i <= 400'000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(all.size(), expected.size());
  EXPECT_TRUE(all == expected);
  EXPECT_EQ(rest.exit_code(), 0);
}

TEST_F(AgentNative, ANewReaderReplacesTheOld) {
  make_tenant();
  const std::string id = start(R"({"shell":"echo a; sleep 0.4; echo b"})");
  const auto first = data_->start("GET", "/execs/" + id + "/output?offset=0");
  ASSERT_TRUE(data_->until([&] { return !data_->reply(first).body.empty(); }));
  const Output second = output(id, 2);
  EXPECT_EQ(second.out, "b\n");
  EXPECT_TRUE(data_->reply(first).closed);
  EXPECT_NE(data_->reply(first).error, 0U);
  EXPECT_EQ(data_->call("GET", "/execs/" + id + "/output?offset=100").status, 400);
}

TEST_F(AgentNative, TerminalEchoesResizesAndEnds) {
  make_tenant();
  const auto stream = data_->start(
      "POST", "/execs?attach=1",
      R"({"shell":"stty size; echo $TERM; read x; stty size; cat; echo over","pty":{"cols":100,"rows":30}})");
  ASSERT_TRUE(
      data_->until([&] { return data_->reply(stream).body.find("xterm") != std::string::npos; }));
  EXPECT_EQ(data_->call("POST", "/execs/e1/resize", R"({"cols":50,"rows":20})").status, 200);
  EXPECT_EQ(data_->call("POST", "/execs/e1/stdin?offset=0", "line\n").status, 200);
  ASSERT_TRUE(
      data_->until([&] { return data_->reply(stream).body.find("20 50") != std::string::npos; }));
  EXPECT_EQ(data_->call("POST", "/execs/e1/stdin?offset=5&eof=1", "tail\n").status, 200);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }));
  const Output result = parse_output(data_->reply(stream).body);
  EXPECT_THAT(result.out, HasSubstr("30 100"));
  EXPECT_THAT(result.out, HasSubstr("tail\r\ntail\r\nover"));
  EXPECT_EQ(result.exit_code(), 0);
}

TEST_F(AgentNative, DeleteKillsAndForgets) {
  make_tenant();
  const std::string id = start(R"({"shell":"sleep 100"})");
  const auto stream = data_->start("GET", "/execs/" + id + "/output?offset=0");
  data_->until([] { return false; }, 50ms);
  EXPECT_EQ(data_->call("DELETE", "/execs/" + id).status, 200);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }));
  EXPECT_EQ(parse_output(data_->reply(stream).body).exit_json().at("signal").as_int64(), SIGKILL);
  EXPECT_EQ(data_->call("GET", "/execs/" + id).status, 404);
}

TEST_F(AgentNative, FinishedExecsAreForgottenOldestFirst) {
  make_tenant();
  for (int i = 0; i < 70; ++i) run(R"({"argv":["true"]})");
  const Reply list = data_->call("GET", "/execs");
  EXPECT_EQ(list.json().at("execs").as_array().size(), 64U);
  EXPECT_EQ(data_->call("GET", "/execs/e1").status, 404);
  EXPECT_EQ(data_->call("GET", "/execs/e70").status, 200);
}

TEST_F(AgentNative, ManyAtOnceAndTheLimit) {
  make_tenant();
  std::vector<std::string> ids;
  ids.reserve(256);
  for (int i = 0; i < 256; ++i) ids.push_back(start(R"({"argv":["sleep","100"]})"));
  EXPECT_EQ(data_->call("POST", "/execs", R"({"argv":["true"]})").status, 429);
  for (const std::string& id : ids) EXPECT_EQ(data_->call("DELETE", "/execs/" + id).status, 200);
  ASSERT_TRUE(data_->until(
      [&] { return data_->call("POST", "/execs", R"({"argv":["true"]})").status == 201; }));
}

TEST_F(AgentNative, TheApplicationIsAnExec) {
  make_tenant(R"(,"app":{"argv":["sh","-c","echo serving; sleep 0.2; exit 5"]})");
  const Output log = output("app");
  EXPECT_EQ(log.out, "serving\n");
  EXPECT_EQ(log.exit_code(), 5);
  const json::object health = ctl_->call("GET", "/health").json();
  EXPECT_FALSE(health.at("app").as_object().at("running").as_bool());
  EXPECT_EQ(health.at("app").as_object().at("exit_code").as_int64(), 5);
}

TEST_F(AgentNative, FilesRoundTrip) {
  make_tenant();
  std::string content(5 << 20, '\0');
  std::mt19937 random(3);
  for (char& c : content) c = static_cast<char>(random());
  const std::string path = dir_ + "/a b/\xC3\xA9";
  const std::string query = "path=" + percent_encode(path);
  const auto up = data_->start("PUT", "/files?" + query + "&mode=0640&parents=1", "", false);
  data_->write(up, content);
  data_->finish(up);
  ASSERT_TRUE(data_->until([&] { return data_->reply(up).closed; }));
  EXPECT_EQ(data_->reply(up).status, 200) << data_->reply(up).body;

  const Reply whole = data_->call("GET", "/files?" + query);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(wire::find_header(whole.headers, "x-size"), std::to_string(content.size()));
  EXPECT_TRUE(whole.body == content);
  const Reply part = data_->call("GET", "/files?" + query + "&offset=1000&length=77");
  EXPECT_EQ(part.body, content.substr(1000, 77));

  const json::object stat = data_->call("GET", "/files/stat?" + query).json();
  EXPECT_EQ(stat.at("mode").as_int64(), 0640);
  EXPECT_EQ(stat.at("type").as_string(), "file");
  EXPECT_EQ(data_->call("PUT", "/files?append=1&" + query, "tail").status, 200);
  EXPECT_EQ(
      data_->call("GET", "/files?offset=" + std::to_string(content.size()) + "&" + query).body,
      "tail");
  EXPECT_EQ(data_->call("GET", "/files?path=" + percent_encode(dir_)).status, 409);
  EXPECT_EQ(data_->call("GET", "/files?path=/no/such").status, 404);
  EXPECT_EQ(data_->call("GET", "/files").status, 400);
  EXPECT_EQ(data_->call("PUT", "/files?path=/no/such/file", "x").status, 404);
}

TEST_F(AgentNative, ACutUploadLeavesTheOldFile) {
  make_tenant();
  const std::string query = "path=" + percent_encode(dir_ + "/f");
  ASSERT_EQ(data_->call("PUT", "/files?" + query, "old").status, 200);
  const auto up = data_->start("PUT", "/files?" + query, "half of the new", false);
  data_->until([] { return false; }, 100ms);
  data_->reset(up);
  data_->until([] { return false; }, 100ms);
  EXPECT_EQ(data_->call("GET", "/files?" + query).body, "old");
  const auto names = sys::list_dir(dir_);
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, testing::ElementsAre("f"));
}

TEST_F(AgentNative, AnErrorDoesNotWaitForTheBody) {
  make_tenant();
  for (int i = 0; i < 300; ++i) {
    const auto up = data_->start("PUT", "/files?path=/no/such/file", "begun", false);
    ASSERT_TRUE(data_->until([&] { return data_->reply(up).closed; })) << "after " << i;
    EXPECT_EQ(data_->reply(up).status, 404);
    EXPECT_EQ(data_->reply(up).error, 0U);
  }
}

TEST_F(AgentNative, DirectoriesAndTar) {
  make_tenant();
  const auto at = [&](const std::string& name) { return percent_encode(dir_ + "/" + name); };
  EXPECT_EQ(data_->call("POST", "/files/mkdir?parents=1&path=" + at("src/deep")).status, 200);
  for (int i = 0; i < 600; ++i)
    ASSERT_TRUE(sys::open(dir_ + "/src/f" + std::to_string(i), O_CREAT | O_WRONLY, 0644));
  EXPECT_EQ(data_->call("PUT", "/files?path=" + at("src/deep/file"), "content").status, 200);
  const Reply list = data_->call("GET", "/files/list?path=" + at("src"));
  EXPECT_EQ(std::ranges::count(list.body, '\n'), 601);

  const Reply tar = data_->call("GET", "/tar?path=" + at("src"));
  EXPECT_EQ(tar.status, 200);
  EXPECT_EQ(data_->call("POST", "/files/mkdir?path=" + at("dst")).status, 200);
  EXPECT_EQ(data_->call("PUT", "/tar?path=" + at("dst"), tar.body).status, 200);
  EXPECT_EQ(*sys::read_file(dir_ + "/dst/deep/file"), "content");
  EXPECT_EQ(data_->call("PUT", "/tar?path=" + at("dst"), std::string(1000, 'z')).status, 400);

  EXPECT_EQ(data_->call("POST", "/files/rename?from=" + at("dst") + "&to=" + at("moved")).status,
            200);
  EXPECT_EQ(data_->call("POST", "/files/remove?path=" + at("moved")).status, 409);
  EXPECT_EQ(data_->call("POST", "/files/remove?recursive=1&path=" + at("moved")).status, 200);
  EXPECT_EQ(data_->call("GET", "/files/stat?path=" + at("moved")).status, 404);
}

// A server on this host: echoes until the client is done, then says goodbye.
class EchoServer {
 public:
  EchoServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;
  ~EchoServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  void run() {
    for (;;) {
      const UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
      if (!peer) return;
      char buffer[10000];
      ssize_t n = 0;
      while ((n = ::read(peer.get(), buffer, sizeof buffer)) > 0) {
        if (!sys::write_all(peer.get(), std::string_view(buffer, static_cast<std::size_t>(n))))
          break;
      }
      EXPECT_TRUE(sys::write_all(peer.get(), std::string_view("bye")));
    }
  }
  UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(AgentNative, TunnelCarriesBothWaysAndHalfCloses) {
  make_tenant();
  EchoServer server;
  const auto stream =
      data_->start("POST", "/tunnel?port=" + std::to_string(server.port()), "", false);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).status != 0; }));
  EXPECT_EQ(data_->reply(stream).status, 200);
  std::string big(4 << 20, '\0');
  std::mt19937 random(5);
  for (char& c : big) c = static_cast<char>(random());
  data_->write(stream, big);
  data_->finish(stream);
  ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }, 60s));
  EXPECT_EQ(data_->reply(stream).error, 0U);
  EXPECT_TRUE(data_->reply(stream).body == big + "bye");
}

// Its last bytes and its end may be announced together, or one after the other.
TEST_F(AgentNative, TunnelEndsWithTheServerHoweverSoonThatIs) {
  make_tenant();
  EchoServer server;
  for (int i = 0; i < 200; ++i) {
    const auto stream =
        data_->start("POST", "/tunnel?port=" + std::to_string(server.port()), "", false);
    data_->finish(stream);
    ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }, 20s)) << i;
    ASSERT_EQ(data_->reply(stream).body, "bye") << i;
  }
}

// A client that speaks first need not wait for the answer.
TEST_F(AgentNative, TunnelTakesBytesBeforeItIsConnected) {
  make_tenant();
  std::string port;
  {
    EchoServer server;
    port = std::to_string(server.port());
    const auto stream = data_->start("POST", "/tunnel?port=" + port, "", false);
    data_->write(stream, "early");
    data_->finish(stream);
    ASSERT_TRUE(data_->until([&] { return data_->reply(stream).closed; }, 20s));
    EXPECT_EQ(data_->reply(stream).body, "earlybye");
  }
  const auto refused = data_->start("POST", "/tunnel?port=" + port, "", false);
  data_->write(refused, std::string(100'000, 'e'));
  ASSERT_TRUE(data_->until([&] { return data_->reply(refused).closed; }, 20s));
  EXPECT_EQ(data_->reply(refused).status, 502);
  EXPECT_EQ(data_->call("POST", "/tunnel?port=0").status, 400);  // the connection is unharmed
}

TEST_F(AgentNative, TunnelRefusals) {
  make_tenant();
  std::string free_port;
  {
    EchoServer server;
    free_port = std::to_string(server.port());
  }
  const Reply refused = data_->call("POST", "/tunnel?port=" + free_port, "");
  EXPECT_EQ(refused.status, 502);
  EXPECT_EQ(refused.json().at("code").as_string(), "refused");
  EXPECT_EQ(data_->call("POST", "/tunnel?port=0").status, 400);
  EXPECT_EQ(data_->call("POST", "/tunnel?port=80&host=10.0.0.1").status, 400);
}

// A server with a short queue that accepts nobody until all are there. Those who found no room
// would try again after seconds, in any order; they wait with the agent instead.
TEST_F(AgentNative, TunnelsWaitInOrderForAListenerWithAShortQueue) {
  make_tenant();
  constexpr int kTunnels = 60;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const std::string path = "/tunnel?port=" + std::to_string(ntohs(address.sin_port));
  std::vector<wire::StreamId> streams;
  for (int i = 0; i < kTunnels; ++i) {
    streams.push_back(data_->start("POST", path, "", false));
    data_->write(streams.back(), std::to_string(i));
    data_->finish(streams.back());
  }
  // One that gives up leaves its place to the next.
  data_->reset(streams[kTunnels - 1]);
  ASSERT_TRUE(data_->until([&] { return data_->reply(streams[0]).status == 200; }, 20s));
  std::vector<std::string> order;
  std::thread server([&] {
    for (int i = 0; i + 1 < kTunnels; ++i) {
      const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
      std::string got;
      char buffer[16];
      for (ssize_t n = 0; (n = ::read(peer.get(), buffer, sizeof buffer)) > 0;)
        got.append(buffer, static_cast<std::size_t>(n));
      order.push_back(got);
    }
  });
  for (int i = 0; i + 1 < kTunnels; ++i)
    EXPECT_TRUE(data_->until([&] { return data_->reply(streams[i]).closed; }, 60s)) << i;
  server.join();
  std::vector<std::string> expected;
  for (int i = 0; i + 1 < kTunnels; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(order, expected);
}

TEST_F(AgentNative, ACutConnectionLeavesExecsAndTakesNewRequests) {
  make_tenant();
  std::mt19937 random(17);
  const std::string id = start(R"({"shell":"sleep 1; echo still here"})");
  for (int i = 0; i < 30; ++i) {
    data_->start("GET", "/execs/" + id + "/output?offset=0");
    data_->start("PUT", "/files?path=" + percent_encode(dir_ + "/never"), "partial", false);
    data_->cut_after(random() % 300);
    ASSERT_TRUE(data_->connect());
    ASSERT_EQ(status(id).at("id").as_string(), id);
  }
  EXPECT_EQ(output(id).out, "still here\n");
  EXPECT_FALSE(sys::exists(dir_ + "/never"));
}

}  // namespace
}  // namespace firebreak::testing_agent
