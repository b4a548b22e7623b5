// What holds for all calls of the native API: what they take, who may make them, what they tell.
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "server/api_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A path of the document with something in its braces.
std::string fill(std::string path, const std::string& tenant) {
  for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
    const std::size_t end = path.find('}', at);
    const std::string name = path.substr(at, end - at + 1);
    // A whole id is looked for only when the rest of the request is in order.
    path.replace(at, end - at + 1,
                 name == "{tenant}" ? tenant
                 : name == "{id}"   ? "microvm-00000000-0000-4000-8000-000000000000"
                                    : "nothing");
  }
  return path;
}

std::set<std::string> words(const std::string& list) {
  std::set<std::string> set;
  for (const std::string_view word : split(list, ',')) {
    std::string one(word);
    if (one.starts_with(' ')) one.erase(0, 1);
    set.insert(one);
  }
  return set;
}

TEST_F(Api, EveryCallRefusesQueryValuesItDoesNotKnow) {
  const std::string tenant = server->call("GET", "/v1/tenant").text_of("accountId");
  const Answer document = server->call("GET", "/v1/openapi.json");
  std::size_t calls = 0;
  for (const auto& path : document.object().at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      const std::string method = upper(std::string(operation.key()));
      const std::string target = fill(std::string(path.key()), tenant) + "?nonsense=1";
      const Answer refused = server->call(method, target);
      EXPECT_EQ(refused.status, 400) << method << " " << target << "\n" << refused.text;
      EXPECT_THAT(refused.text_of("message"), HasSubstr("'nonsense'")) << method << " " << target;
      ++calls;
    }
  }
  EXPECT_GT(calls, 50U);
  EXPECT_EQ(server->call("GET", "/v1/microvms?status=RUNNING").status, 400);
}

std::string first_type(const json::object& schema) {
  const json::value& type = schema.at("type");
  return std::string(type.is_array() ? type.at(0).as_string() : type.as_string());
}

// The least that a schema takes: members that are required.
json::object least_object(const json::object& schema);

json::value least(const std::string& name, const json::object& schema) {
  static const std::map<std::string, json::value> kMeanSomething{
      {"Effect", "Allow"}, {"Action", "*"}, {"action", "allow"}};
  if (const auto at = kMeanSomething.find(name); at != kMeanSomething.end()) return at->second;
  const std::string type = first_type(schema);
  if (type == "object") return least_object(schema);
  if (type == "array") return json::array{least("", schema.at("items").as_object())};
  return type == "string" ? json::value("x") : json::value(1);
}

json::object least_object(const json::object& schema) {
  json::object body;
  const json::value* required = schema.if_contains("required");
  if (required == nullptr) return body;
  for (const json::value& name : required->as_array()) {
    const std::string member(name.as_string());
    body[member] = least(member, schema.at("properties").at(member).as_object());
  }
  return body;
}

// Each object that a body may hold, with what makes a body of it.
using Wrap = std::function<json::object(json::object)>;
using Visit = std::function<void(const json::object& schema, const Wrap& wrap)>;

void each_object(const json::object& schema, const Wrap& wrap, const Visit& visit) {
  if (!schema.contains("properties")) return;
  visit(schema, wrap);
  for (const auto& member : schema.at("properties").as_object()) {
    const json::object& inner = member.value().as_object();
    const std::string name(member.key());
    const bool array = first_type(inner) == "array";
    if (array && !inner.contains("items")) continue;
    const Wrap outer = [&](json::object object) {
      json::object body = least_object(schema);
      body[name] = array ? json::value(json::array{std::move(object)}) : std::move(object);
      return wrap(std::move(body));
    };
    each_object(array ? inner.at("items").as_object() : inner, outer, visit);
  }
}

TEST_F(Api, TheDocumentNamesTheMembersThatHandlersTake) {
  const std::string tenant = server->call("GET", "/v1/tenant").text_of("accountId");
  const Answer document = server->call("GET", "/v1/openapi.json");
  std::size_t objects = 0;
  for (const auto& path : document.object().at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      const json::value* body = operation.value().as_object().if_contains("requestBody");
      if (body == nullptr) continue;
      const json::value* content = body->at("content").as_object().if_contains("application/json");
      if (content == nullptr) continue;
      const std::string method = upper(std::string(operation.key()));
      const auto check = [&](const json::object& schema, const Wrap& wrap) {
        const json::object sent = wrap(json::object{{"nonsense", 1}});
        SCOPED_TRACE(method + " " + std::string(path.key()) + " " + json::serialize(sent));
        const Answer refused = server->call(method, fill(std::string(path.key()), tenant), sent);
        EXPECT_EQ(refused.status, 400) << refused.text;
        const std::string message = refused.text_of("message");
        EXPECT_THAT(message, HasSubstr("nonsense'"));
        const std::string_view before = message.contains("; use ") ? "; use " : "known are ";
        const auto at = message.find(before);
        ASSERT_NE(at, std::string::npos) << message;
        std::set<std::string> declared;
        for (const auto& member : schema.at("properties").as_object())
          declared.emplace(member.key());
        EXPECT_EQ(words(message.substr(at + before.size())), declared);
        EXPECT_EQ(schema.at("additionalProperties"), json::value(false));
        ++objects;
      };
      each_object(
          content->at("schema").as_object(), [](json::object whole) { return whole; }, check);
    }
  }
  EXPECT_GT(objects, 35U);
}

TEST_F(Api, AdministratorsSeeAndRevokeKeysOfOthers) {
  const Answer made = server->call("POST", "/v1/tenants", json::object{{"name", "keyed"}});
  const std::string account = made.text_of("accountId");
  const std::string key(made.object().at("key").at("apiKey").as_string());
  const std::string id(made.object().at("key").at("accessKeyId").as_string());
  const Answer listed = server->call("GET", "/v1/keys?tenant=" + account);
  EXPECT_THAT(listed.text, HasSubstr(id));
  EXPECT_EQ(server->call("GET", "/v1/keys").text.find(id), std::string::npos);
  EXPECT_EQ(server->call("GET", "/v1/keys?tenant=999999999999").status, 404);
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms").status, 200);
  const std::string own = server->call("GET", "/v1/tenant").text_of("accountId");
  EXPECT_EQ(server->call_as(key, "GET", "/v1/keys?tenant=" + own).status, 403);
  EXPECT_EQ(server->call_as(key, "DELETE", "/v1/keys/" + id + "?tenant=" + own).status, 403);
  EXPECT_EQ(server->call("DELETE", "/v1/keys/" + id + "?tenant=" + account).status, 200);
  EXPECT_EQ(server->call_as(key, "GET", "/v1/microvms").status, 401);
}

TEST_F(Api, APlainKeyMakesNoAdministrator) {
  const std::string key = new_tenant("plain");
  const std::string own = server->call("GET", "/v1/tenant").text_of("accountId");
  EXPECT_EQ(server->call_as(key, "POST", "/v1/keys", json::object{{"admin", true}}).status, 403);
  EXPECT_EQ(server->call_as(key, "POST", "/v1/keys", json::object{{"tenant", own}}).status, 403);
  EXPECT_EQ(server->call_as(key, "GET", "/v1/keys").object().at("items").as_array().size(), 1U);
  EXPECT_EQ(server->call_as(key, "POST", "/v1/check").status, 403);
}

TEST_F(Api, ImagesOfTheSystemStayAsTheyAre) {
  const std::string key = new_tenant("image-breaker");
  for (const auto& [method, path] : std::vector<std::pair<std::string, std::string>>{
           {"DELETE", "/v1/images/python"},
           {"DELETE", "/v1/images/python/versions/latest"},
           {"POST", "/v1/images/python/versions/latest/cancel"}})
    EXPECT_EQ(server->call_as(key, method, path).status, 403) << method << " " << path;
  EXPECT_EQ(server->call("GET", "/v1/images/python").text_of("system"), "true");
}

TEST_F(Api, TheLogHoldsNoSecrets) {
  const Answer issued = server->call("POST", "/v1/keys", json::object{{"name", "logged"}});
  const std::string id = run({{"payload", "secret-of-the-payload"}});
  server->call("POST", path(id, "/exec"),
               json::object{{"shell", "cat; echo secret-of-the-command >&2; exit 1"},
                            {"env", {{"TOKEN", "secret-of-the-environment"}}},
                            {"stdin", "secret-of-the-input"}});
  server->call("POST", path(id, "/contexts/default/run"),
               json::object{{"code", "raise ValueError('secret-of-the-code')"}});
  server->call("PUT", path(id, "/files?path=/tmp/x"), json::object{{"a", "secret-of-the-file"}});
  const Answer token = server->call("POST", path(id, "/tokens"), json::object{{"ports", 80}});
  server->call("POST", "/v1/microvms", json::object{{"image", "secret"}, {"payload", 17}});
  server->call("DELETE", path(id));
  const std::string log = server->log();
  EXPECT_THAT(log, HasSubstr(id));
  EXPECT_EQ(log.find("secret-of-the"), std::string::npos) << log.substr(log.find("secret-of-the"));
  for (const std::string& secret : {issued.text_of("apiKey"), issued.text_of("secretAccessKey"),
                                    token.text_of("token"), server->api_key()}) {
    ASSERT_FALSE(secret.empty());
    EXPECT_EQ(log.find(secret), std::string::npos);
  }
}

TEST_F(Api, AForkBombLeavesTheAgentAnswering) {
  const std::string id = run();
  const Answer bomb = server->call(
      "POST", path(id, "/execs"),
      json::object{
          {"argv",
           json::array{"python3", "-c",
                       "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"}}});
  ASSERT_EQ(bomb.status, 201) << bomb.text;
  // "0.00 0.01 0.05 3/412 1234": hundreds of tasks. Reading it takes no process.
  std::string load;
  int bombed = 0;
  for (int i = 0; i < 600 && bombed < 20; ++i) {
    const Answer read = server->call("GET", path(id, "/files?path=/proc/loadavg"));
    ASSERT_EQ(read.status, 200) << read.text;
    load += read.text;
    if (::testing::Matches(::testing::ContainsRegex("/[0-9][0-9][0-9]+ "))(load)) ++bombed;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(bombed, 20) << load;
  EXPECT_EQ(server->call("DELETE", path(id, "/execs/" + bomb.text_of("exec"))).status, 200);
  const Answer after = exec(id, "echo alive");
  EXPECT_EQ(after.text_of("stdout"), "alive\n") << after.text << load;
  server->call("DELETE", path(id));
}

TEST_F(Api, ATunnelReachesAPortOfTheGuest) {
  const std::string id = run();
  const Answer served = server->call(
      "POST", path(id, "/execs"),
      json::object{{"argv", json::array{"python3", "-c",
                                        "import socket\ns = socket.create_server(('127.0.0.1', "
                                        "4000))\nwhile True:\n  c, _ = s.accept()\n  "
                                        "c.sendall(c.recv(99).upper())\n  c.close()"}}});
  ASSERT_EQ(served.status, 201) << served.text;
  std::string answer;
  for (int i = 0; i < 100 && answer.empty(); ++i) {
    answer = server->through_tunnel(path(id, "/tunnel?port=4000"), "hello");
    if (answer.empty()) exec(id, "sleep 0.3");
  }
  EXPECT_EQ(answer, "HELLO");
  EXPECT_EQ(server->call("GET", path(id, "/tunnel?port=4000")).status, 400);  // no WebSocket
  EXPECT_EQ(server->call("GET", path(id, "/tunnel")).status, 400);
  server->call("DELETE", path(id));
}

}  // namespace
}  // namespace firebreak::testing_support
