// Many at once: a burst far beyond the pool, and memory that runs out.
#include <algorithm>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

std::string path(const std::string& id, const std::string& rest = "") {
  return "/v1/microvms/" + id + rest;
}

TEST(Load, ABurstBeyondThePoolSucceedsWhole) {
  constexpr std::size_t kBurst = 100;
  ServerProcess server;
  server.set_options({"--pool-most=2"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  std::vector<Answer> answers(kBurst);
  std::vector<std::thread> clients;
  for (Answer& answer : answers)
    clients.emplace_back(
        [&] { answer = server.call("POST", "/v1/microvms", json::object{{"image", "python"}}); });
  for (std::thread& client : clients) client.join();
  std::set<std::string> ids;
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.status, 201) << answer.text;
    EXPECT_EQ(answer.text_of("state"), "RUNNING");
    ids.insert(answer.text_of("id"));
  }
  EXPECT_EQ(ids.size(), kBurst);
  const Answer alive =
      server.call("POST", path(*ids.begin(), "/exec"), json::object{{"shell", "echo ok"}});
  EXPECT_EQ(alive.text_of("stdout"), "ok\n");
  for (const std::string& id : ids) EXPECT_EQ(server.call("DELETE", path(id)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/check").text_of("ok"), "true");
}

TEST(Load, WhenMemoryRunsOutTheLongestUnusedIsSuspended) {
  ServerProcess server;
  server.set_options({"--pool-least=0", "--pool-most=0", "--memory-mib=900", "--tick-ms=100"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  // Longer unused than any other, but its tenant holds less than the one who launches.
  const Answer tenant = server.call("POST", "/v1/tenants", json::object{{"name", "small"}});
  const std::string small(tenant.object().at("key").at("apiKey").as_string());
  const Answer others =
      server.call_as(small, "POST", "/v1/microvms", json::object{{"image", "python"}});
  ASSERT_EQ(others.status, 201) << others.text;

  // Longest unused of those of who launches, but nothing would bring them back.
  std::vector<std::string> stay;
  for (const json::object& idle : {json::object{{"maxIdleSeconds", 0}, {"autoResume", false}},
                                   json::object{{"maxIdleSeconds", 0}, {"suspendedSeconds", 0}}}) {
    const Answer made =
        server.call("POST", "/v1/microvms", json::object{{"image", "python"}, {"idle", idle}});
    ASSERT_EQ(made.status, 201) << made.text;
    stay.push_back(made.text_of("id"));
  }

  std::vector<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
    ASSERT_EQ(made.status, 201) << made.text;
    ids.push_back(made.text_of("id"));
  }
  const Answer first = server.call("GET", path(ids.front()));
  EXPECT_EQ(first.text_of("state"), "SUSPENDED") << first.text;
  EXPECT_EQ(first.text_of("stateReason"), "Suspended because the host needs memory.");
  EXPECT_EQ(server.call("GET", path(ids.back())).text_of("state"), "RUNNING");
  EXPECT_EQ(server.call_as(small, "GET", path(others.text_of("id"))).text_of("state"), "RUNNING");
  for (const std::string& id : stay)
    EXPECT_EQ(server.call("GET", path(id)).text_of("state"), "RUNNING");
  // It comes back when it is used, at the cost of another.
  const Answer used =
      server.call("POST", path(ids.front(), "/exec"), json::object{{"shell", "echo back"}});
  EXPECT_EQ(used.text_of("stdout"), "back\n") << used.text;
}

TEST(Load, AtOnceNotMoreAreTakenThanFit) {
  ServerProcess server;
  server.set_options(
      {"--pool-least=0", "--pool-most=0", "--memory-mib=500", "--suspend-under-pressure=false"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  std::vector<Answer> answers(12);
  std::vector<std::thread> clients;
  for (Answer& answer : answers)
    clients.emplace_back(
        [&] { answer = server.call("POST", "/v1/microvms", json::object{{"image", "python"}}); });
  for (std::thread& client : clients) client.join();
  const auto taken = std::ranges::count(answers, 201, &Answer::status);
  EXPECT_GE(taken, 1);
  EXPECT_LE(taken, 500 / 96) << "each counts with 96 MiB at least";
}

TEST(Load, WithoutSuspendingTheLaunchIsRefusedClearly) {
  ServerProcess server;
  server.set_options(
      {"--pool-least=0", "--pool-most=0", "--memory-mib=500", "--suspend-under-pressure=false"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  Answer last;
  for (int i = 0; i < 8 && last.status != 503; ++i)
    last = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
  EXPECT_EQ(last.status, 503);
  EXPECT_EQ(last.text_of("code"), "unavailable");
  EXPECT_THAT(last.text_of("message"), ::testing::HasSubstr("memory"));
  EXPECT_FALSE(last.text_of("repair").empty());
}

}  // namespace
}  // namespace firebreak::testing_support
