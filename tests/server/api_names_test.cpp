// What microVMs are called, and what an administrator may do with those of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Api, ANameIsAsGoodAsAnId) {
  const std::string id = run({{"name", "web-1"}});
  EXPECT_EQ(server->call("GET", path("web-1")).text_of("id"), id);
  EXPECT_EQ(exec("web-1", "echo named").text_of("stdout"), "named\n");
  EXPECT_THAT(server->call("GET", "/v1/microvms").text, HasSubstr("\"name\":\"web-1\""));
  const Answer taken =
      server->call("POST", "/v1/microvms", json::object{{"image", "python"}, {"name", "web-1"}});
  EXPECT_EQ(taken.status, 409) << taken.text;
  EXPECT_THAT(taken.text_of("message"), HasSubstr(id));

  const Answer forked = server->call("POST", path("web-1", "/fork"));
  ASSERT_EQ(forked.status, 201) << forked.text;
  const json::object& child = forked.object().at("items").at(0).as_object();
  EXPECT_FALSE(child.contains("name")) << "a copy is not called like its original";
  server->call("DELETE", path(std::string(child.at("id").as_string())));

  const Answer renamed = server->call("PATCH", path("web-1"), json::object{{"name", "web.2"}});
  EXPECT_EQ(renamed.text_of("name"), "web.2") << renamed.text;
  EXPECT_EQ(server->call("GET", path("web-1")).status, 404);
  EXPECT_EQ(server->call("PATCH", path(id), json::object{{"name", "Web"}}).status, 400);
  EXPECT_EQ(server->call("DELETE", path("web.2")).text_of("state"), "TERMINATED");
  EXPECT_EQ(server->call("GET", path("web.2")).text_of("id"), id);
  EXPECT_EQ(server->call("DELETE", path("web.2")).status, 200);
  EXPECT_THAT(server->call("GET", "/v1/events?microvm=web.2&after=0&follow=0").text, HasSubstr(id));
}

TEST_F(Api, ExecsHaveTheEnvironmentTheMicrovmWasRunWith) {
  const Answer made =
      server->call("POST", "/v1/microvms",
                   json::object{{"image", "python"},
                                {"env", {{"GREETING", "secret-hello"}, {"WHO", "secret-world"}}}});
  ASSERT_EQ(made.status, 201) << made.text;
  const std::string id = made.text_of("id");
  const auto say = [&](const std::string& of) {
    return server
        ->call("POST", path(of, "/exec"),
               json::object{{"shell", "echo $GREETING $WHO"}, {"env", {{"WHO", "you"}}}})
        .text_of("stdout");
  };
  EXPECT_EQ(say(id), "secret-hello you\n");
  EXPECT_EQ(exec(id, "echo $WHO").text_of("stdout"), "secret-world\n");
  server->call("POST", path(id, "/suspend"));
  EXPECT_EQ(say(id), "secret-hello you\n");
  const Answer forked = server->call("POST", path(id, "/fork"));
  ASSERT_EQ(forked.status, 201) << forked.text;
  const std::string child(forked.object().at("items").at(0).at("id").as_string());
  EXPECT_EQ(say(child), "secret-hello you\n");
  for (const Answer& shown :
       {made, forked, server->call("GET", path(id)), server->call("GET", "/v1/microvms")})
    EXPECT_THAT(shown.text, Not(HasSubstr("secret-")));
  EXPECT_THAT(server->log(), Not(HasSubstr("secret-hello")));
  for (const std::string& each : {id, child}) server->call("DELETE", path(each));
}

TEST_F(Api, TheBeginningOfAnIdIsEnough) {
  const std::string id = run();
  const std::string uuid = id.substr(8);
  EXPECT_EQ(server->call("GET", path(uuid.substr(0, 13))).text_of("id"), id);
  EXPECT_EQ(exec(id.substr(0, 24), "echo here").text_of("stdout"), "here\n");
  EXPECT_EQ(server->call("GET", path(uuid.substr(0, 3))).status, 404);
  const std::string other = new_tenant("prefixes");
  EXPECT_EQ(server->call_as(other, "GET", path(uuid.substr(0, 13))).status, 404);
  server->call("DELETE", path(id));
}

TEST_F(Api, AnAdministratorLooksAtAndEndsWhatOthersHave) {
  const Answer tenant = server->call("POST", "/v1/tenants", json::object{{"name", "watched"}});
  const std::string account = tenant.text_of("accountId");
  const std::string key(tenant.object().at("key").at("apiKey").as_string());
  const Answer made = server->call_as(key, "POST", "/v1/microvms",
                                      json::object{{"image", "python"}, {"name", "theirs"}});
  ASSERT_EQ(made.status, 201) << made.text;
  const std::string id = made.text_of("id");
  const std::string mine = run();

  EXPECT_THAT(server->call("GET", "/v1/microvms").text, Not(HasSubstr(id)));
  for (const std::string& whose : {account, std::string("all")}) {
    const Answer listed = server->call("GET", "/v1/microvms?tenant=" + whose);
    EXPECT_THAT(listed.text, HasSubstr(id));
    EXPECT_THAT(listed.text, HasSubstr("\"tenant\":\"" + account + "\""));
    EXPECT_EQ(listed.text.contains(mine), whose == "all") << listed.text;
  }
  EXPECT_EQ(server->call("GET", "/v1/microvms?tenant=999999999999").status, 404);
  EXPECT_EQ(server->call("GET", "/v1/microvms?tenant=all&image=python").status, 400);

  EXPECT_EQ(server->call("GET", path(id)).text_of("tenant"), account);
  EXPECT_EQ(server->call("GET", path("theirs")).status, 404) << "only by the whole id";
  for (const char* inside : {"/execs", "/contexts", "/files?path=/", "/logs", "/tokens"})
    EXPECT_EQ(server->call("GET", path(id, inside)).status, 404) << inside;
  EXPECT_EQ(server->call("POST", path(id, "/suspend")).status, 404);
  EXPECT_EQ(exec(id, "true").status, 404);
  const Answer ended = server->call("DELETE", path(id));
  EXPECT_EQ(ended.text_of("state"), "TERMINATED") << ended.text;

  EXPECT_EQ(server->call_as(key, "GET", path(id)).text_of("stateReason"),
            "An administrator ended it.");
  const std::string events =
      server->call_as(key, "GET", "/v1/events?after=0&follow=0&microvm=" + id).text;
  EXPECT_THAT(events, HasSubstr("An administrator looked at it."));
  EXPECT_THAT(events, HasSubstr("An administrator ended it."));

  // Nobody else may.
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms?tenant=all").status, 403);
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms?tenant=" + account).status, 403);
  EXPECT_EQ(server->call_as(key, "GET", path(mine)).status, 404);
  EXPECT_EQ(server->call_as(key, "DELETE", path(mine)).status, 404);
  EXPECT_EQ(server->call("GET", path(mine)).text_of("state"), "RUNNING");
  server->call("DELETE", path(mine));
}

}  // namespace
}  // namespace firebreak::testing_support
