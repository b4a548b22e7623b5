// Runs of code, commands with input, events: calls that take as long as what they wait for.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

json::object code(const std::string& text, bool stream) {
  return {{"code", text}, {"stream", stream}};
}

// The results of a run, streamed or not.
std::vector<json::object> results_of(const Answer& answer, bool stream) {
  std::vector<json::object> list;
  if (!stream) {
    for (const json::value& item : answer.object().at("results").as_array())
      list.push_back(item.as_object());
    return list;
  }
  std::istringstream lines(answer.text);
  for (std::string line; std::getline(lines, line);) {
    json::object object = parse_json_object(line).value_or(json::object{});
    if (object.contains("type") && object.at("type") == "result") list.push_back(object);
  }
  return list;
}

TEST_F(Api, ResultsOfAnySizeArriveWhole) {
  const std::string id = run();
  const std::string at = path(id, "/contexts/default/run");
  const std::string png =
      "class P:\n  def _repr_png_(self): return b'\\x89PNG' + bytes(300000)\nP()";
  for (const bool stream : {false, true}) {
    const Answer text = server->call("POST", at, code("'x' * 200000", stream));
    ASSERT_EQ(text.status, 200) << text.text;
    const auto one = results_of(text, stream);
    ASSERT_EQ(one.size(), 1U) << text.text.substr(0, 500);
    EXPECT_EQ(one[0].at("data").as_string().size(), 200002U);
    const Answer picture = server->call("POST", at, code(png, stream));
    ASSERT_EQ(picture.status, 200) << picture.text;
    bool found = false;
    for (const json::object& result : results_of(picture, stream)) {
      if (result.at("kind") != "png") continue;
      found = true;
      EXPECT_EQ(result.at("data").as_string().size(), 400008U);
    }
    EXPECT_TRUE(found) << picture.text.substr(0, 500);
  }
  const auto shown = server->cli({"code", id, "-c", "'y' * 100000"});
  EXPECT_EQ(shown.out.size(), 100003U) << shown.err;
  server->call("DELETE", path(id));
}

TEST_F(Api, ASecondRunDoesNotDisturbTheFirst) {
  const std::string id = run();
  const std::string context = path(id, "/contexts/default");
  Answer first;
  std::thread client([&] {
    first = server->call("POST", context + "/run",
                         code("import os, time\nwhile not os.path.exists('/tmp/go'): "
                              "time.sleep(0.1)\n'first'",
                              false));
  });
  EXPECT_EQ(server->wait_for(context, "state", "busy").text_of("state"), "busy");
  for (const bool stream : {false, true})
    EXPECT_EQ(server->call("POST", context + "/run", code("2", stream)).status, 409);
  exec(id, "touch /tmp/go");
  client.join();
  EXPECT_EQ(first.text_of("status"), "ok") << first.text;
  EXPECT_THAT(first.text, HasSubstr("first"));
  server->call("DELETE", path(id));
}

TEST_F(Api, AnInterruptCanNameItsRun) {
  const std::string id = run();
  const std::string context = path(id, "/contexts/default");
  const Answer first = server->call("POST", context + "/run", code("1", false));
  const std::string run = first.text_of("run");
  ASSERT_NE(run, "") << first.text;
  EXPECT_EQ(first.text_of("state"), "fresh") << first.text;
  const auto interrupt = [&](const std::string& name) {
    return server->call("POST", context + "/interrupt", json::object{{"run", name}});
  };
  Answer second;
  std::thread client([&] {
    second = server->call("POST", context + "/run", code("import time; time.sleep(3600)", true));
  });
  const Answer busy = server->wait_for(context, "state", "busy");
  EXPECT_EQ(interrupt(run).text, "{\"interrupted\":false}\n") << "it has ended";
  EXPECT_EQ(server->call("GET", context).text_of("state"), "busy");
  EXPECT_EQ(interrupt(busy.text_of("run")).text, "{\"interrupted\":true}\n");
  client.join();
  EXPECT_THAT(second.text, ::testing::StartsWith("{\"type\":\"started\",\"run\":\"" +
                                                 busy.text_of("run") + "\",\"state\":\"kept\"}\n"));
  EXPECT_THAT(second.text, HasSubstr("\"status\":\"interrupted\""));
  EXPECT_EQ(server->call("POST", context + "/interrupt", json::object{{"runs", "1"}}).status, 400);
  server->call("DELETE", path(id));
}

TEST_F(Api, CodeDoesNotRunOnForNobody) {
  const std::string id = run();
  const std::string context = path(id, "/contexts/default");
  for (const bool stream : {false, true}) {
    server->call_and_leave(context + "/run", code("import time; time.sleep(3600)", stream), 700ms);
    EXPECT_EQ(server->wait_for(context, "state", "idle").text_of("state"), "idle") << stream;
  }
  const Answer large =
      server->call("POST", context + "/run",
                   code("print('x' * 17000000); import time; time.sleep(3600)", false));
  EXPECT_EQ(large.status, 429) << large.text.substr(0, 500);
  EXPECT_EQ(server->wait_for(context, "state", "idle").text_of("state"), "idle");
  server->call("DELETE", path(id));
}

TEST_F(Api, InputIsFedWhileOutputIsRead) {
  const std::string id = run();
  std::string input;
  while (input.size() < 900'000) input += std::string(99, 'a') + "\n";
  for (const bool stream : {false, true}) {
    // Twice and a half what the agent keeps of output that nobody reads.
    const Answer doubled =
        server->call("POST", path(id, "/exec"),
                     json::object{{"shell", "sed 'p;p'"}, {"stdin", input}, {"stream", stream}});
    ASSERT_EQ(doubled.status, 200) << doubled.text.substr(0, 500);
    EXPECT_THAT(doubled.text, HasSubstr(R"("exitCode":0)"));
    EXPECT_GT(doubled.text.size(), 3 * input.size());
    // A command that does not read to the end is no error.
    const Answer some = server->call(
        "POST", path(id, "/exec"),
        json::object{{"shell", "head -c 3; exit 4"}, {"stdin", input}, {"stream", stream}});
    EXPECT_EQ(some.status, 200) << some.text;
    EXPECT_THAT(some.text, HasSubstr(R"("exitCode":4)"));
    server->call_and_leave(
        path(id, "/exec"),
        json::object{{"shell", "cat; sleep 3; touch /tmp/ran"}, {"stdin", "x"}, {"stream", stream}},
        700ms);
  }
  // Longer than the commands that were left would have needed: that is the test.
  EXPECT_EQ(exec(id, "sleep 4; ls /tmp/ran").text_of("exitCode"), "2");
  const auto refused = [&](const std::string& where, json::object body) {
    body["argv"] = json::array{"cat"};
    return server->call("POST", path(id, where), body).status;
  };
  EXPECT_EQ(refused("/exec", {{"openStdin", true}}), 400);
  EXPECT_EQ(refused("/execs", {{"stream", true}}), 400);
  EXPECT_EQ(refused("/execs", {{"stdin", input}}), 400);
  EXPECT_EQ(refused("/execs", {{"stdin", "x"}}), 201);
  server->call("DELETE", path(id));
}

TEST_F(Api, EventsTellNothingAboutOthers) {
  const std::string other = new_tenant("watcher");
  std::string heard;
  std::thread client([&] { heard = server->listen_as(other, "/v1/events?after=0", 6s); });
  for (int i = 0; i < 2; ++i) server->call("DELETE", path(run()));
  client.join();
  EXPECT_THAT(heard, HasSubstr("text/event-stream"));
  EXPECT_EQ(heard.find("data:"), std::string::npos) << heard;
  // One comment at the beginning, not one for each change of somebody else.
  const auto first = heard.find(": \n\n");
  ASSERT_NE(first, std::string::npos) << heard;
  EXPECT_EQ(heard.find(": \n\n", first + 1), std::string::npos) << heard;
  EXPECT_EQ(server->call_as(other, "GET", "/v1/events?after=0&follow=0").text, "");
  const Answer usage = server->call_as(other, "GET", "/v1/usage");
  EXPECT_EQ(usage.object().at("items").as_array().size(), 0U) << usage.text;
}

TEST_F(Api, EventsArriveAsTheyHappen) {
  const std::string id = run();
  const std::string end = R"("to":"TERMINATED")";
  std::string heard;
  std::thread client([&] {
    heard = server->listen_as(server->api_key(), "/v1/events?after=0&microvm=" + id, 60s, end);
  });
  std::this_thread::sleep_for(1s);  // by then it has heard what was before, and waits
  server->call("DELETE", path(id));
  client.join();
  for (const char* state : {R"("to":"RUNNING")", R"("to":"TERMINATING")"})
    EXPECT_THAT(heard, HasSubstr(state));
  EXPECT_THAT(heard, HasSubstr(end));
}

}  // namespace
}  // namespace firebreak::testing_support
