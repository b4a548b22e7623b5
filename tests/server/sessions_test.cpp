// Sessions with real guests: code of agents, counted and recorded, in machines of their own. Tests
// that show a requirement of the sandbox contract are named by it (TW-n).
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class SandboxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=100"});
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
    account = server->call("GET", "/v1/tenant").text_of("accountId");
  }
  static void TearDownTestSuite() { server.reset(); }

  struct Tenant {
    std::string account;
    std::string key;
  };
  static Tenant new_tenant(const std::string& name) {
    const Answer made = server->call("POST", "/v1/tenants", json::object{{"name", name}});
    EXPECT_EQ(made.status, 201) << made.text;
    return {made.text_of("accountId"),
            std::string(made.object().at("key").at("apiKey").as_string())};
  }
  static Answer execute(const std::string& code, const std::string& turn = "",
                        json::object more = {}) {
    more["agentId"] = "agent";
    more["code"] = code;
    if (!turn.empty()) more["turnId"] = turn;
    return server->call("POST", "/v1/execute-code", more);
  }
  static void end_turn(const std::string& turn) {
    const Answer ended =
        server->call("POST", "/v1/turns/" + turn + "/end", json::object{{"agentId", "agent"}});
    EXPECT_EQ(ended.status, 200) << ended.text;
  }
  static json::array records(const std::string& query = "") {
    return server->call("GET", "/v1/invocations?limit=1000" + query)
        .object()
        .at("items")
        .as_array();
  }
  static void set_limits(const json::object& limits) {
    const Answer set = server->call("PUT", "/v1/tenants/" + account + "/limits", limits);
    EXPECT_EQ(set.status, 200) << set.text;
  }
  static std::vector<std::string> members(const Answer& answer) {
    std::vector<std::string> names;
    for (const auto& member : answer.object()) names.emplace_back(member.key());
    return names;
  }
  static std::size_t machines() { return sys::list_dir(server->data_dir() + "/machines")->size(); }

  static inline std::unique_ptr<ServerProcess> server;
  static inline std::string account;
};

TEST_F(SandboxTest, TW1_TW11_TW12_ATurnHasOneGuestAndNothingElse) {
  const Answer first = execute("x = 'kept'\nopen('/tmp/mark', 'w').write('m')\nprint(1)", "one");
  ASSERT_EQ(first.status, 200) << first.text;
  EXPECT_THAT(members(first), UnorderedElementsAre("ok", "stdout", "stderr", "exit_status",
                                                   "duration_ms", "session_id", "invocation_id"))
      << first.text;
  EXPECT_EQ(first.text_of("stdout"), "1\n");
  EXPECT_EQ(first.text_of("exit_status"), "ok");
  const Answer second = execute("print(x)", "one");
  EXPECT_EQ(second.text_of("stdout"), "kept\n") << second.text;
  EXPECT_EQ(second.text_of("session_id"), first.text_of("session_id"));
  const Answer other = execute("import os\nprint(os.path.exists('/tmp/mark'))\nx", "two");
  EXPECT_EQ(other.text_of("stdout"), "False\n");
  EXPECT_THAT(other.text_of("stderr"), HasSubstr("NameError"));
  EXPECT_EQ(other.text_of("error"), "SandboxError");
  EXPECT_EQ(records("&session=" + first.text_of("session_id")).size(), 2U);
  // Files of the session are those of its guest.
  const Answer read =
      server->call("GET", "/v1/sessions/" + first.text_of("session_id") + "/files?path=/tmp/mark");
  EXPECT_EQ(read.text, "m");
  end_turn("one");
  end_turn("two");
  EXPECT_EQ(server->call("GET", "/v1/sessions/" + first.text_of("session_id")).text_of("state"),
            "ENDED");
  EXPECT_EQ(machines(), 0U);
}

// Every way out that a program with all rights has.
constexpr const char* kReach = R"py(
import socket, subprocess, os
def tried(what):
    try:
        what(); return 'open'
    except Exception as e:
        return 'closed'
def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(3); s.connect(address)
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
    s.sendto(b'x', ('1.1.1.1', 53)); s.recv(1)
def icmp():
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.settimeout(3)
    s.sendto(b'\x08\x00\xf7\xff\x00\x00\x00\x00', ('1.1.1.1', 0)); s.recv(1)
print('uid', os.getuid())
print('dns', tried(lambda: socket.getaddrinfo('example.com', 80)))
print('tcp', tried(lambda: tcp(socket.AF_INET, ('1.1.1.1', 80))))
print('udp', tried(udp))
print('icmp', tried(icmp))
print('ipv6', tried(lambda: tcp(socket.AF_INET6, ('2606:4700:4700::1111', 80, 0, 0))))
print('metadata', tried(lambda: tcp(socket.AF_INET, ('169.254.169.254', 80))))
print('cards', [n for n in os.listdir('/sys/class/net') if n != 'lo'])
)py";

TEST_F(SandboxTest, TW6_InternalOnlyReachesNothing) {
  const Answer made = server->call(
      "POST", "/v1/templates", json::object{{"name", "closed"}, {"environment", "internal-only"}});
  ASSERT_EQ(made.status, 201) << made.text;
  const Answer answer = execute(kReach, "", {{"template", "closed"}});
  ASSERT_TRUE(answer.object().at("ok").as_bool()) << answer.text;
  const std::string out = answer.text_of("stdout");
  EXPECT_THAT(out, HasSubstr("uid 0\n"));
  for (const char* way : {"dns", "tcp", "udp", "icmp", "ipv6"})
    EXPECT_THAT(out, HasSubstr(std::string(way) + " closed\n"));
}

TEST_F(SandboxTest, TW8_TwoTenantsHaveEqualHashesAndNothingElseInCommon) {
  const Tenant a = new_tenant("tenant-a");
  const Tenant b = new_tenant("tenant-b");
  const json::object call{{"agentId", "agent"}, {"turnId", "turn"}, {"code", "print('same')"}};
  const Answer mine = server->call_as(a.key, "POST", "/v1/execute-code", call);
  const Answer theirs = server->call_as(b.key, "POST", "/v1/execute-code", call);
  ASSERT_EQ(mine.text_of("stdout"), "same\n") << mine.text;
  const std::string session = mine.text_of("session_id");
  EXPECT_NE(session, theirs.text_of("session_id"));
  const auto look = [&](const std::string& key, const std::string& method,
                        const std::string& path) {
    return server->call_as(key, method, path).status;
  };
  EXPECT_EQ(look(a.key, "GET", "/v1/sessions/" + session), 200);
  EXPECT_EQ(look(b.key, "GET", "/v1/sessions/" + session), 404);
  EXPECT_EQ(look(b.key, "DELETE", "/v1/sessions/" + session), 404);
  EXPECT_EQ(look(b.key, "GET", "/v1/sessions/" + session + "/files?path=/etc/hostname"), 404);
  const std::string record = "/v1/invocations/" + mine.text_of("invocation_id");
  EXPECT_EQ(look(b.key, "GET", record), 404);
  EXPECT_EQ(look(b.key, "GET", record + "/output"), 404);
  const Answer ours = server->call_as(a.key, "GET", record);
  const Answer other =
      server->call_as(b.key, "GET", "/v1/invocations/" + theirs.text_of("invocation_id"));
  EXPECT_EQ(ours.text_of("executed_code_hash"), other.text_of("executed_code_hash"));
  EXPECT_NE(ours.text_of("tenant_id"), other.text_of("tenant_id"));
  const auto microvm = [&](const std::string& key, const std::string& id) {
    return server->call_as(key, "GET", "/v1/sessions/" + id).text_of("microvm");
  };
  const std::string vm_a = microvm(a.key, session);
  const std::string vm_b = microvm(b.key, theirs.text_of("session_id"));
  EXPECT_NE(vm_a, vm_b);
  EXPECT_NE(server->machine_pid(vm_a), server->machine_pid(vm_b));
  for (const std::string& key : {a.key, b.key})
    server->call_as(key, "POST", "/v1/turns/turn/end", json::object{{"agentId", "agent"}});
}

TEST_F(SandboxTest, TW7_NoSecretOfACallerOrTheServerIsInAGuest) {
  const auto text = sys::read_file(server->data_dir() + "/credentials.json");
  ASSERT_TRUE(text);
  const json::object keys = parse_json_object(*text).value();
  const Answer first = execute("print(1)", "canary");
  const std::string id =
      server->call("GET", "/v1/sessions/" + first.text_of("session_id")).text_of("microvm");
  ASSERT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  for (const char* member : {"apiKey", "secretAccessKey"}) {
    const std::string canary(keys.at(member).as_string());
    const auto found =
        server->run({"/usr/bin/grep", "-rlF", canary, server->data_dir() + "/machines/" + id});
    EXPECT_EQ(found.out, "") << member;
    EXPECT_EQ(found.status, 1) << found.err;
  }
  // What the guest does hold is found in the same way: the search sees its memory.
  const Answer told = execute("mark = 'canary-' + 'of-the-guest-itself'", "canary");
  EXPECT_TRUE(told.object().at("ok").as_bool()) << told.text;
  ASSERT_EQ(server->call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  EXPECT_NE(server
                ->run({"/usr/bin/grep", "-rlF", "canary-of-the-guest-itself",
                       server->data_dir() + "/machines/" + id})
                .out,
            "");
  end_turn("canary");
}

TEST_F(SandboxTest, TW14_TW26_TimeAndMemoryAreToldApart) {
  ASSERT_EQ(
      server->call("POST", "/v1/templates", json::object{{"name", "short"}, {"callSeconds", 5}})
          .status,
      201);
  const Answer late = execute("while True: pass", "hog", {{"template", "short"}});
  EXPECT_EQ(late.text_of("exit_status"), "timeout") << late.text;
  EXPECT_EQ(late.text_of("error"), "SandboxTimeout");
  end_turn("hog");
  const Answer hog = execute("x = []\nwhile True: x.append(bytearray(8 << 20))", "hog");
  EXPECT_EQ(hog.text_of("exit_status"), "oom") << hog.text;
  EXPECT_EQ(hog.text_of("error"), "SandboxOutOfMemory");
  end_turn("hog");
}

TEST_F(SandboxTest, TW4_TW17_TW18_TW19_TW20_CapsHoldAtRunTime) {
  set_limits({{"tenant_daily", 0}});
  const Answer refused = execute("print(1)", "capped");
  EXPECT_EQ(refused.status, 200);
  EXPECT_EQ(refused.text_of("error"), "SandboxCapExceeded") << refused.text;
  EXPECT_EQ(refused.text_of("dimension"), "tenant_daily");
  EXPECT_THAT(refused.text_of("resets_at"), HasSubstr("T00:00:00Z"));
  EXPECT_EQ(machines(), 0U);
  EXPECT_EQ(records("&status=cap_exceeded").size(), 1U);
  set_limits({{"tenant_daily", 1000}});
  EXPECT_TRUE(execute("print(1)").object().at("ok").as_bool());
}

// The caps of microVMs, by every path that counts.
TEST_F(SandboxTest, CapsOfMicrovmsHoldOnEveryPath) {
  const std::string id =
      server->call("POST", "/v1/microvms", json::object{{"image", "python"}}).text_of("id");
  const std::string path = "/v1/microvms/" + id;
  ASSERT_EQ(server->call("POST", path + "/suspend").status, 200);
  set_limits({{"launches_daily", 0}, {"wakes_hourly", 0}, {"execs_daily", 0}, {"builds_daily", 0}});
  const auto expect_capped = [&](const Answer& answer, const char* dimension) {
    EXPECT_EQ(answer.status, 429) << answer.text;
    EXPECT_EQ(answer.text_of("reason"), "cap_exceeded") << answer.text;
    EXPECT_EQ(answer.text_of("dimension"), dimension) << answer.text;
  };
  expect_capped(server->call("POST", "/v1/microvms", json::object{{"image", "python"}}),
                "launches_daily");
  expect_capped(server->call("POST", path + "/resume"), "wakes_hourly");
  expect_capped(server->call("POST", path + "/exec", json::object{{"shell", "true"}}),
                "wakes_hourly");
  set_limits({{"wakes_hourly", nullptr}});
  ASSERT_EQ(server->call("POST", path + "/resume").status, 200);
  expect_capped(server->call("POST", path + "/fork", json::object{{"count", 2}}), "launches_daily");
  expect_capped(server->call("POST", path + "/exec", json::object{{"shell", "true"}}),
                "execs_daily");
  expect_capped(server->call("POST", path + "/execs", json::object{{"shell", "true"}}),
                "execs_daily");
  expect_capped(server->call("POST", path + "/contexts/default/run", json::object{{"code", "1"}}),
                "execs_daily");
  // A session's microVM is a microVM: its call says which cap it was.
  const Answer session = execute("print(1)");
  EXPECT_EQ(session.text_of("dimension"), "launches_daily") << session.text;
  EXPECT_EQ(session.text_of("exit_status"), "cap_exceeded");
  const Answer lambda = server->call_signed("POST", "/2025-09-09/microvms",
                                            json::object{{"imageIdentifier", "python"}});
  EXPECT_NE(lambda.status / 100, 2) << lambda.text;
  set_limits({{"launches_daily", nullptr}, {"execs_daily", nullptr}, {"builds_daily", nullptr}});
  server->call("DELETE", path);
}

TEST_F(SandboxTest, TW13_ASessionThatNobodyCallsEnds) {
  ASSERT_EQ(
      server->call("POST", "/v1/templates", json::object{{"name", "brief"}, {"idleSeconds", 1}})
          .status,
      201);
  const Answer answer = execute("print(1)", "idle", {{"template", "brief"}});
  const std::string path = "/v1/sessions/" + answer.text_of("session_id");
  EXPECT_EQ(server->wait_for(path, "state", "ENDED").text_of("state"), "ENDED");
}

TEST_F(SandboxTest, ThePilotWalksTheWholePath) {
  const auto pilot = server->cli({"session", "pilot"});
  EXPECT_EQ(pilot.status, 0) << pilot.out << pilot.err;
  EXPECT_THAT(pilot.out, Not(HasSubstr("FAILED")));
  const auto off = server->cli({"policy", "set", "enabled=false"});
  EXPECT_EQ(off.status, 0) << off.err;
  const Answer closed = execute("print(1)");
  EXPECT_EQ(closed.text_of("error"), "SandboxProvisioning");
  EXPECT_EQ(closed.object().at("session_id"), nullptr);
  EXPECT_EQ(server->cli({"session", "pilot"}).status, 1);
  EXPECT_EQ(server->cli({"policy", "set", "enabled=true"}).status, 0);
  EXPECT_EQ(server->cli({"quota", "set", "tenant_daily=900"}).status, 0);
  const auto ran = server->cli({"session", "run", "print(6*7)"});
  EXPECT_EQ(ran.out, "42\n") << ran.err;
}

// TW-24: killed at each step of a call.
class SandboxCrashTest : public SandboxTest, public testing::WithParamInterface<const char*> {};

TEST_P(SandboxCrashTest, TW24_ACountedCallHasOneRow) {
  const std::size_t before = records().size();
  server->stop();
  server->crash_at(GetParam());
  ASSERT_TRUE(server->start()) << server->log();
  (void)execute("print(1)", "crash");
  ASSERT_TRUE(server->wait_end(std::chrono::seconds(60))) << server->log();
  ASSERT_TRUE(server->start()) << server->log();
  const json::array rows = records();
  ASSERT_EQ(rows.size(), before + 1) << GetParam();
  const bool done = std::string(GetParam()) == "call.recorded";
  EXPECT_EQ(rows[0].at("exit_status"), done ? "ok" : "error") << GetParam();
  const Answer again = execute("print(2)", "crash");
  EXPECT_EQ(again.text_of("stdout"), "2\n") << again.text;
  end_turn("crash");
  EXPECT_EQ(machines(), 0U) << GetParam();
}
INSTANTIATE_TEST_SUITE_P(Steps, SandboxCrashTest,
                         testing::Values("call.counted", "session.launched", "call.running",
                                         "call.recorded"));

// One byte of a file, as another file in its place: the prepared data may be shared.
void flip(const std::string& path) {
  const std::string copy = path + ".copy";
  fs::copy_file(path, copy);
  {
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(4096);
    const char was = static_cast<char>(file.get());
    file.seekp(4096);
    file.put(static_cast<char>(was ^ 1));
  }
  fs::rename(path, path + ".kept");
  fs::rename(copy, path);
}
void put_back(const std::string& path) {
  fs::rename(path + ".kept", path);
}

TEST_F(SandboxTest, TW10_RT7_ASnapshotThatWasTouchedRunsNoCode) {
  ASSERT_TRUE(execute("print(1)").object().at("ok").as_bool());
  std::string directory;
  for (const std::string& name : *sys::list_dir(server->data_dir() + "/snapshots"))
    if (name.starts_with("image-")) directory = server->data_dir() + "/snapshots/" + name;
  ASSERT_NE(directory, "");
  for (const char* file : {"ram", "state", "disk.qcow2"}) {
    const std::string path = directory + "/" + file;
    flip(path);
    const Answer touched = execute("print(1)");
    EXPECT_EQ(touched.text_of("exit_status"), "provisioning") << file << touched.text;
    EXPECT_EQ(touched.text_of("error"), "SandboxProvisioning");
    EXPECT_EQ(touched.text_of("stdout"), "");
    if (file == std::string("ram")) {
      server->stop();
      ASSERT_TRUE(server->start()) << server->log();
      EXPECT_EQ(execute("print(1)").text_of("exit_status"), "provisioning");
    }
    put_back(path);
  }
  EXPECT_TRUE(execute("print(1)").object().at("ok").as_bool());
}

}  // namespace
}  // namespace firebreak::testing_support
