// The native API of a real server with real guests: one server for the whole program.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Api, RunExecTerminate) {
  const std::string id = run();
  const Answer done = exec(id, "echo out; echo err >&2; exit 3");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.text_of("stdout"), "out\n");
  EXPECT_EQ(done.text_of("stderr"), "err\n");
  EXPECT_EQ(done.text_of("exitCode"), "3");
  EXPECT_EQ(server->call("DELETE", path(id)).text_of("state"), "TERMINATED");
  EXPECT_EQ(server->call("DELETE", path(id)).status, 200);  // again is fine
  const Answer gone = server->call("GET", path(id));
  EXPECT_EQ(gone.text_of("state"), "TERMINATED");
  EXPECT_EQ(gone.text_of("stateReason"), "Success.");
  const Answer refused = exec(id, "true");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.text_of("code"), "conflict");
}

TEST_F(Api, ExecTakesStdinEnvironmentAndStreams) {
  const std::string id = run();
  const Answer fed = server->call("POST", path(id, "/exec"),
                                  json::object{{"argv", json::array{"cat"}}, {"stdin", "hello"}});
  EXPECT_EQ(fed.text_of("stdout"), "hello") << fed.text;
  const Answer env =
      server->call("POST", path(id, "/exec"),
                   json::object{{"shell", "echo $A; pwd"}, {"env", {{"A", "b"}}}, {"cwd", "/tmp"}});
  EXPECT_EQ(env.text_of("stdout"), "b\n/tmp\n") << env.text;
  const Answer binary = exec(id, "printf '\\377\\000x'");
  EXPECT_EQ(binary.text_of("stdoutBase64"), "/wB4") << binary.text;
  const Answer lines = server->call("POST", path(id, "/exec"),
                                    json::object{{"shell", "echo a; exit 2"}, {"stream", true}});
  EXPECT_EQ(lines.status, 200);
  EXPECT_THAT(lines.text, HasSubstr(R"({"type":"stdout","data":"a\n"})"));
  EXPECT_THAT(lines.text, HasSubstr(R"("exitCode":2)"));
  const Answer slow = server->call("POST", path(id, "/exec"),
                                   json::object{{"shell", "sleep 60"}, {"timeoutMs", 300}});
  EXPECT_EQ(slow.text_of("timedOut"), "true") << slow.text;
  EXPECT_EQ(server->call("POST", path(id, "/exec"), json::object{}).status, 400);
  EXPECT_EQ(
      server->call("POST", path(id, "/exec"), json::object{{"shell", "x"}, {"timeout", 3}}).status,
      400);
  server->call("DELETE", path(id));
}

TEST_F(Api, WhatNobodyWaitsForAnyMoreIsEnded) {
  const std::string id = run();
  for (const bool stream : {false, true}) {
    const json::object body{{"shell", "sleep 3; touch /tmp/ran"}, {"stream", stream}};
    server->call_and_leave(path(id, "/exec"), body, std::chrono::milliseconds(700));
  }
  // Longer than the commands would have needed: that is the test.
  EXPECT_EQ(exec(id, "sleep 4; ls /tmp/ran").text_of("exitCode"), "2");
  server->call("DELETE", path(id));
}

TEST_F(Api, SuspendKeepsMemoryAndExecBringsItBack) {
  const std::string id = run();
  exec(id, "echo kept > /dev/shm/x");
  EXPECT_EQ(server->call("POST", path(id, "/suspend")).text_of("state"), "SUSPENDED");
  EXPECT_EQ(server->call("POST", path(id, "/suspend")).status, 200);  // again is fine
  EXPECT_EQ(exec(id, "cat /dev/shm/x").text_of("stdout"), "kept\n");
  EXPECT_EQ(server->call("GET", path(id)).text_of("state"), "RUNNING");
  EXPECT_EQ(server->call("POST", path(id, "/resume")).status, 200);
  server->call("DELETE", path(id));
}

TEST_F(Api, WithoutAutoResumeOnlyAskingWakes) {
  const std::string id = run({{"idle", {{"maxIdleSeconds", 3600}, {"autoResume", false}}}});
  server->call("POST", path(id, "/suspend"));
  EXPECT_EQ(exec(id, "true").status, 409);
  EXPECT_EQ(server->call("POST", path(id, "/resume")).text_of("state"), "RUNNING");
  EXPECT_EQ(exec(id, "true").status, 200);
  server->call("DELETE", path(id));
}

TEST_F(Api, ForksGoTheirOwnWay) {
  const std::string id = run();
  exec(id, "echo parent > /dev/shm/who");
  const Answer forked = server->call("POST", path(id, "/fork"), json::object{{"count", 2}});
  ASSERT_EQ(forked.status, 201) << forked.text;
  std::set<std::string> ids{id};
  for (const json::value& child : forked.object().at("items").as_array()) {
    const std::string child_id(child.at("id").as_string());
    EXPECT_EQ(child.at("state").as_string(), "RUNNING");
    EXPECT_EQ(child.at("parent").as_string(), id);
    EXPECT_EQ(exec(child_id, "cat /dev/shm/who; echo child > /dev/shm/who").text_of("stdout"),
              "parent\n");
    ids.insert(child_id);
  }
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(exec(id, "cat /dev/shm/who").text_of("stdout"), "parent\n");
  for (const std::string& each : ids) server->call("DELETE", path(each));
}

TEST_F(Api, ForeignIsExactlyMissing) {
  const std::string other = new_tenant("other-a");
  const std::string id = run();
  const std::string missing = "microvm-00000000-0000-4000-8000-000000000000";
  for (const auto& [method, rest] :
       std::vector<std::pair<std::string, std::string>>{{"GET", ""},
                                                        {"DELETE", ""},
                                                        {"POST", "/suspend"},
                                                        {"POST", "/resume"},
                                                        {"POST", "/fork"},
                                                        {"GET", "/execs"},
                                                        {"GET", "/files?path=/etc/passwd"},
                                                        {"GET", "/contexts"},
                                                        {"GET", "/logs"}}) {
    const Answer foreign = server->call_as(other, method, path(id, rest));
    const Answer absent = server->call_as(other, method, path(missing, rest));
    EXPECT_EQ(foreign.status, 404) << method << rest;
    EXPECT_EQ(absent.status, 404) << method << rest;
    std::string text = foreign.text;
    if (const auto at = text.find(id); at != std::string::npos)
      text.replace(at, id.size(), missing);
    EXPECT_EQ(text, absent.text) << method << rest;
  }
  EXPECT_EQ(server->call_as(other, "GET", "/v1/microvms").object().at("items").as_array().size(),
            0U);
  EXPECT_EQ(server->call("GET", path(id)).text_of("state"), "RUNNING");
  server->call("DELETE", path(id));
}

TEST_F(Api, LimitsAreTypedErrors) {
  const Answer made = server->call(
      "POST", "/v1/tenants",
      json::object{{"name", "small"}, {"limits", {{"microvms", 1}, {"launchesPerSecond", 1}}}});
  const std::string key(made.object().at("key").at("apiKey").as_string());
  const Answer first =
      server->call_as(key, "POST", "/v1/microvms", json::object{{"image", "python"}});
  ASSERT_EQ(first.status, 201) << first.text;
  // On a slow host the first launch took longer than it is counted for; a refusal takes no time.
  Answer fast;
  for (int i = 0; i < 10 && fast.text_of("resetsAt").empty(); ++i)
    fast = server->call_as(key, "POST", "/v1/microvms", json::object{{"image", "python"}});
  EXPECT_EQ(fast.status, 429);
  EXPECT_EQ(fast.text_of("code"), "exhausted");
  EXPECT_FALSE(fast.text_of("resetsAt").empty()) << fast.text;
  const std::string account = made.text_of("accountId");
  EXPECT_EQ(server
                ->call("PUT", "/v1/tenants/" + account + "/limits",
                       json::object{{"microvms", 1}, {"launchesPerSecond", 100}})
                .status,
            200);
  const Answer full =
      server->call_as(key, "POST", "/v1/microvms", json::object{{"image", "python"}});
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.text_of("message"), HasSubstr("microvms"));
  EXPECT_FALSE(full.text_of("repair").empty());
  server->call_as(key, "DELETE", path(first.text_of("id")));
  EXPECT_EQ(server->call_as(key, "GET", "/v1/tenants").status, 403);
}

TEST_F(Api, KeysAreRevokedAtOnce) {
  const Answer made = server->call("POST", "/v1/keys", json::object{{"name", "short"}});
  const std::string key = made.text_of("apiKey");
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms").status, 200);
  EXPECT_EQ(server->call("DELETE", "/v1/keys/" + made.text_of("accessKeyId")).status, 200);
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms").status, 401);
  EXPECT_EQ(server->call_as("nonsense", "GET", "/v1/microvms").status, 401);
  EXPECT_EQ(server->call_as("", "GET", "/v1/microvms").status, 401);
  EXPECT_EQ(server->call("GET", "/v1/keys").text.find(made.text_of("secretAccessKey")),
            std::string::npos);
}

TEST_F(Api, TheSameTokenRunsOnce) {
  const json::object body{{"image", "python"}, {"clientToken", "once"}};
  const Answer first = server->call("POST", "/v1/microvms", body);
  const Answer second = server->call("POST", "/v1/microvms", body);
  EXPECT_EQ(first.text_of("id"), second.text_of("id"));
  json::object other = body;
  other["maxDurationSeconds"] = 60;
  EXPECT_EQ(server->call("POST", "/v1/microvms", other).status, 409);
  server->call("DELETE", path(first.text_of("id")));
}

TEST_F(Api, ListsPagesAndFilters) {
  std::set<std::string> made;
  for (int i = 0; i < 3; ++i) made.insert(run({{"tags", {{"batch", "list"}}}}));
  std::set<std::string> seen;
  std::string token;
  do {
    const Answer page =
        server->call("GET", "/v1/microvms?tag=batch%3Dlist&pageSize=2&pageToken=" + token);
    ASSERT_EQ(page.status, 200) << page.text;
    EXPECT_LE(page.object().at("items").as_array().size(), 2U);
    for (const json::value& item : page.object().at("items").as_array())
      EXPECT_TRUE(seen.insert(std::string(item.at("id").as_string())).second);
    token = page.text_of("nextPageToken");
  } while (!token.empty());
  EXPECT_EQ(seen, made);
  EXPECT_EQ(server->call("GET", "/v1/microvms?pageToken=nonsense").status, 400);
  for (const std::string& id : made) server->call("DELETE", path(id));
  EXPECT_EQ(server->call("GET", "/v1/microvms?tag=batch%3Dlist&state=RUNNING")
                .object()
                .at("items")
                .as_array()
                .size(),
            0U);
}

TEST_F(Api, FilesBothWays) {
  const std::string id = run();
  EXPECT_EQ(
      server->call("PUT", path(id, "/files?path=/tmp/a/b.json&parents=1"), json::object{{"x", 1}})
          .status,
      200);
  EXPECT_EQ(server->call("GET", path(id, "/files?path=/tmp/a/b.json")).text, R"({"x":1})");
  EXPECT_EQ(server->call("GET", path(id, "/files/stat?path=/tmp/a/b.json")).text_of("size"), "7");
  EXPECT_THAT(server->call("GET", path(id, "/files/list?path=/tmp/a")).text, HasSubstr("b.json"));
  EXPECT_EQ(server->call("POST", path(id, "/files/rename?from=/tmp/a/b.json&to=/tmp/a/c")).status,
            200);
  EXPECT_EQ(server->call("GET", path(id, "/files?path=/tmp/a/b.json")).status, 404);
  EXPECT_EQ(server->call("DELETE", path(id, "/files?path=/tmp/a&recursive=1")).status, 200);
  EXPECT_EQ(server->call("GET", path(id, "/files/stat?path=/tmp/a")).status, 404);
  EXPECT_EQ(server->call("GET", path(id, "/files")).status, 400);
  server->call("DELETE", path(id));
}

TEST_F(Api, ContextsKeepTheirState) {
  const std::string id = run();
  const auto run_code = [&](const std::string& code) {
    return server->call("POST", path(id, "/contexts/default/run"), json::object{{"code", code}});
  };
  EXPECT_EQ(run_code("x = 41").text_of("status"), "ok");
  const Answer value = run_code("print('hi'); x + 1");
  EXPECT_EQ(value.text_of("stdout"), "hi\n") << value.text;
  EXPECT_THAT(value.text, HasSubstr("42"));
  const Answer error = run_code("1/0");
  EXPECT_EQ(error.text_of("status"), "error");
  EXPECT_EQ(error.object().at("error").at("name").as_string(), "ZeroDivisionError") << error.text;
  server->call("POST", path(id, "/suspend"));
  EXPECT_THAT(run_code("x").text, HasSubstr("41"));
  server->call("DELETE", path(id));
}

TEST_F(Api, EventsAndUsageTellWhatHappened) {
  const std::string id = run();
  // One that is suspended as soon as it is awake has done nothing that a counter would show.
  exec(id, "true");
  server->call("POST", path(id, "/suspend"));
  server->call("DELETE", path(id));
  const Answer events = server->call("GET", "/v1/events?after=0&follow=0&microvm=" + id);
  std::size_t at = 0;
  for (const char* state :
       {R"("to":"PENDING")", R"("to":"RUNNING")", R"("to":"SUSPENDING")", R"("to":"SUSPENDED")",
        R"("to":"TERMINATING")", R"("to":"TERMINATED")"}) {
    at = events.text.find(state, at);
    ASSERT_NE(at, std::string::npos) << state << "\n" << events.text;
  }
  const Answer usage = server->call("GET", "/v1/usage");
  bool found = false;
  for (const json::value& item : usage.object().at("items").as_array()) {
    if (item.at("microvm").as_string() != id) continue;
    found = true;
    EXPECT_GT(item.at("runningSeconds").to_number<double>(), 0);
    EXPECT_GT(item.at("cpuSeconds").to_number<double>(), 0);
    EXPECT_GT(item.at("snapshotReadBytes").to_number<double>(), 0);
    EXPECT_GT(item.at("snapshotWrittenBytes").to_number<double>(), 0);
  }
  EXPECT_TRUE(found) << usage.text;
  EXPECT_TRUE(usage.object().at("days").as_array().empty()) << "it ended just now: " << usage.text;
}

TEST_F(Api, MetricsHealthAndDocument) {
  EXPECT_EQ(server->call_as("", "GET", "/healthz").status, 200);
  const std::string id = run();
  const std::string metrics = server->call_as("", "GET", "/metrics").text;
  EXPECT_THAT(metrics, HasSubstr("firebreak_launches_total{path=\""));
  EXPECT_THAT(metrics, HasSubstr("firebreak_launch_seconds_count"));
  EXPECT_EQ(metrics.find(id), std::string::npos);  // no ids as labels
  const Answer document = server->call_as("", "GET", "/v1/openapi.json");
  EXPECT_EQ(document.text_of("openapi"), "3.1.0");
  for (const char* route : {"/v1/microvms/{id}/exec", "/v1/bases"})
    EXPECT_TRUE(document.object().at("paths").as_object().contains(route)) << route;
  server->call("DELETE", path(id));
}

TEST_F(Api, BadInputSaysWhatAndHow) {
  const Answer unknown = server->call("POST", "/v1/microvms", json::object{{"image", "nope"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.text_of("repair"), HasSubstr("image ls"));
  EXPECT_EQ(
      server->call("POST", "/v1/microvms", json::object{{"image", "python"}, {"idel", 1}}).status,
      400);
  EXPECT_EQ(server
                ->call("POST", "/v1/microvms",
                       json::object{{"image", "python"}, {"payload", std::string(4097, 'x')}})
                .status,
            400);
  EXPECT_EQ(server->call("GET", "/v1/nothing").status, 404);
  const Answer method = server->call("PUT", "/v1/microvms");
  EXPECT_EQ(method.status, 405);
  EXPECT_THAT(method.text_of("repair"), AllOf(HasSubstr("GET"), HasSubstr("POST")));
  EXPECT_EQ(server->call("GET", "/v1/microvms/%zz").status, 404);
}

TEST_F(Api, NothingIsLeft) {
  const Answer report = server->call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

}  // namespace
}  // namespace firebreak::testing_support
