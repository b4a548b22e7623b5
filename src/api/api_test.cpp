#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/native/fields.h"
#include "api/native/openapi.h"
#include "api/router.h"

namespace firebreak::api {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

Router sample() {
  Router router;
  router.add({"GET", "/v1/images", "List", false, {}});
  router.add({"POST", "/v1/images", "Make one", false, {}});
  router.add({"GET", "/v1/images/{image}", "One", false, {}});
  router.add({"DELETE", "/v1/images/{image}", "Remove", true, {}});
  router.add({"PUT", "/v1/microvms/{id}/files", "Write", false, {}});
  router.add({"POST", "/v1/microvms/{id}/contexts/{context}/run", "Run", false, {}});
  router.add({"GET", "/v1/microvms/{id}/contexts", "Contexts", false, {}});
  return router;
}

// ---- router

TEST(Router, FindsTheRouteAndItsParameters) {
  const Router router = sample();
  const Match match = router.match("POST", {"v1", "microvms", "m1", "contexts", "a/b", "run"});
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.route->summary, "Run");
  EXPECT_THAT(match.params, UnorderedElementsAre(Pair("id", "m1"), Pair("context", "a/b")));
}

TEST(Router, AFixedWordIsNoParameter) {
  const Router router = sample();
  const Match match = router.match("GET", {"v1", "images"});
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.route->pattern, "/v1/images");
  EXPECT_THAT(match.params, IsEmpty());
}

TEST(Router, AWrongMethodIsNotAWrongPath) {
  const Router router = sample();
  const Match match = router.match("PATCH", {"v1", "images", "i1"});
  EXPECT_EQ(match.route, nullptr);
  EXPECT_TRUE(match.path_known);
  EXPECT_THAT(match.methods, ElementsAre("GET", "DELETE"));
}

TEST(Router, RefusesWhatIsNotInTheTable) {
  const Router router = sample();
  const std::vector<std::vector<std::string>> unknown{
      {},
      {""},
      {"v1"},
      {"v1", "Images"},
      {"v1", "images", ""},  // an empty name would be the list with a slash
      {"v1", "images", "i1", ""},
      {"v1", "images", "i1", "other"},
      {"v1", "microvms", "m1", "contexts", "c"},
      {"v2", "images"},
  };
  for (const auto& segments : unknown) {
    const Match match = router.match("GET", segments);
    EXPECT_EQ(match.route, nullptr) << testing::PrintToString(segments);
    EXPECT_FALSE(match.path_known) << testing::PrintToString(segments);
    EXPECT_THAT(match.methods, IsEmpty());
  }
}

TEST(Router, TheFirstOfTwoThatFitWins) {
  Router router;
  router.add({"GET", "/v1/things/new", "fixed", false, {}});
  router.add({"GET", "/v1/things/{id}", "named", false, {}});
  EXPECT_EQ(router.match("GET", {"v1", "things", "new"}).route->summary, "fixed");
  EXPECT_EQ(router.match("GET", {"v1", "things", "old"}).route->summary, "named");
}

// ---- openapi

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> names(const json::object& operation, std::string_view in) {
  std::vector<std::string> list;
  for (const json::value& parameter : operation.at("parameters").as_array()) {
    if (parameter.at("in").as_string() == in) list.emplace_back(parameter.at("name").as_string());
  }
  return list;
}

TEST(OpenApi, HasWhatADocumentNeeds) {
  const json::object document = openapi_document(sample().routes());
  EXPECT_EQ(document.at("openapi").as_string(), "3.1.0");
  EXPECT_FALSE(document.at("info").at("title").as_string().empty());
  EXPECT_FALSE(document.at("info").at("version").as_string().empty());
  EXPECT_TRUE(document.at("paths").is_object());
  EXPECT_EQ(document.at("components").at("securitySchemes").at("bearer").at("scheme"), "bearer");
  EXPECT_TRUE(document.at("components").at("schemas").at("Error").is_object());
  // An array of objects that name schemes: easily an object by mistake in a nested initialiser.
  ASSERT_TRUE(document.at("security").is_array());
  EXPECT_TRUE(document.at("security").at(0).at("bearer").is_array());
  EXPECT_EQ(json::serialize(parse_json(json::serialize(document)).value()),
            json::serialize(document));
}

TEST(OpenApi, EveryRouteIsThereWithItsMethodAndNames) {
  const Router router = sample();
  const json::object document = openapi_document(router.routes());
  const json::object& paths = document.at("paths").as_object();
  std::size_t operations = 0;
  std::set<std::string> ids;
  for (const auto& path : paths) operations += path.value().as_object().size();
  EXPECT_EQ(operations, router.routes().size());
  for (const Route& route : router.routes()) {
    SCOPED_TRACE(route.method + " " + route.pattern);
    ASSERT_TRUE(paths.contains(route.pattern));
    const json::object& path = paths.at(route.pattern).as_object();
    ASSERT_TRUE(path.contains(lower(route.method)));
    const json::object& operation = path.at(lower(route.method)).as_object();
    EXPECT_EQ(operation.at("summary").as_string(), route.summary);
    EXPECT_TRUE(ids.emplace(operation.at("operationId").as_string()).second);
    EXPECT_TRUE(operation.at("responses").is_object());
    for (const std::string& name : names(operation, "path"))
      EXPECT_THAT(route.pattern, HasSubstr("{" + name + "}"));
    EXPECT_EQ(operation.contains("description"), route.admin);
    EXPECT_EQ(operation.contains("requestBody"), route.method == "POST" || route.method == "PUT");
  }
}

TEST(OpenApi, PathAndQueryParametersAreNamed) {
  const json::object document = openapi_document(sample().routes());
  const json::object& paths = document.at("paths").as_object();
  const json::object& run =
      paths.at("/v1/microvms/{id}/contexts/{context}/run").at("post").as_object();
  EXPECT_EQ(run.at("operationId").as_string(), "postMicrovmsIdContextsContextRun");
  EXPECT_THAT(names(run, "path"), ElementsAre("id", "context"));
  EXPECT_THAT(names(run, "query"), IsEmpty());
  for (const json::value& parameter : run.at("parameters").as_array())
    EXPECT_TRUE(parameter.at("required").as_bool());
  const json::object& list = paths.at("/v1/images").at("get").as_object();
  EXPECT_THAT(names(list, "path"), IsEmpty());
  EXPECT_THAT(names(list, "query"), ElementsAre("name", "pageToken"));
}

TEST(OpenApi, BodiesAreDescribed) {
  const json::object document = openapi_document(sample().routes());
  const json::object& paths = document.at("paths").as_object();
  const json::object& write = paths.at("/v1/microvms/{id}/files").at("put").as_object();
  EXPECT_TRUE(
      write.at("requestBody").at("content").as_object().contains("application/octet-stream"));
  const json::value& body = paths.at("/v1/microvms/{id}/contexts/{context}/run")
                                .at("post")
                                .at("requestBody")
                                .at("content")
                                .at("application/json")
                                .at("schema");
  EXPECT_EQ(body.at("required"), json::value(json::array{"code"}));
  EXPECT_EQ(body.at("additionalProperties"), json::value(false));
  EXPECT_EQ(body.at("properties").at("timeoutMs").at("type"), "integer");
}

// Every schema that a document refers to.
void collect_references(const json::value& value, std::set<std::string>& found) {
  if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) collect_references(item, found);
  }
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) {
      if (member.key() == "$ref") found.emplace(member.value().as_string());
      collect_references(member.value(), found);
    }
  }
}

TEST(OpenApi, AnswersAreDescribedAndEverySchemaExists) {
  Router router = sample();
  router.add({"POST", "/v1/microvms/{id}/exec", "s", false, {}});
  router.add({"GET", "/v1/microvms/{id}/tar", "s", false, {}});
  router.add({"GET", "/v1/build-cache", "s", false, {}});
  const json::object document = openapi_document(router.routes());
  const json::object& schemas = document.at("components").at("schemas").as_object();
  std::set<std::string> references;
  collect_references(document, references);
  EXPECT_GT(references.size(), 20U);
  for (const std::string& reference : references)
    EXPECT_TRUE(schemas.contains(reference.substr(reference.rfind('/') + 1))) << reference;
  EXPECT_FALSE(schemas.at("Microvm").as_object().contains("additionalProperties"))
      << "answers may get more members";
  const auto content = [&](const char* path, const char* method) {
    return document.at("paths").at(path).at(method).at("responses").at("2XX").at("content");
  };
  EXPECT_EQ(document.at("paths").at("/v1/build-cache").at("get").at("operationId"),
            "getBuildCache");
  const json::value exec = content("/v1/microvms/{id}/exec", "post");
  EXPECT_EQ(exec.at("application/json").at("schema").at("$ref"), "#/components/schemas/ExecResult");
  EXPECT_EQ(exec.at("application/x-ndjson").at("schema").at("$ref"),
            "#/components/schemas/OutputLine");
  EXPECT_TRUE(
      content("/v1/microvms/{id}/tar", "get").as_object().contains("application/octet-stream"));
}

TEST(OpenApi, NestedMembersAreDescribedToo) {
  Router router;
  for (const char* pattern : {"/v1/microvms", "/v1/images"})
    router.add({"POST", pattern, "s", false, {}});
  router.add({"PUT", "/v1/roles/{name}", "s", false, {}});
  const json::object document = openapi_document(router.routes());
  const auto member = [&](const char* path, const char* method, const char* name) {
    return document.at("paths")
        .at(path)
        .at(method)
        .at("requestBody")
        .at("content")
        .at("application/json")
        .at("schema")
        .at("properties")
        .at(name);
  };
  const json::value idle = member("/v1/microvms", "post", "idle");
  EXPECT_EQ(idle.at("type"), json::value(json::array{"object", "null"}));
  EXPECT_EQ(idle.at("properties").at("autoResume").at("type"), "boolean");
  EXPECT_EQ(idle.at("required"), json::value(json::array{"maxIdleSeconds"}));
  EXPECT_EQ(idle.at("additionalProperties"), json::value(false));
  const json::value tags = member("/v1/microvms", "post", "tags");
  EXPECT_EQ(tags.at("additionalProperties").at("type"), "string") << "any name is taken";
  const json::value hooks = member("/v1/images", "post", "hooks");
  EXPECT_EQ(hooks.at("properties").at("run").at("properties").at("timeout").at("type"), "integer");
  EXPECT_EQ(member("/v1/images", "post", "app").at("properties").at("argv").at("items").at("type"),
            "string");
  const json::value statement =
      member("/v1/roles/{name}", "put", "policy").at("properties").at("Statement");
  for (const json::value& one : {statement, statement.at("items")})
    EXPECT_EQ(one.at("properties").at("Effect").at("type"), "string");
}

// ---- query values

std::string refusal(std::string_view method, std::string_view pattern, const char* query) {
  const auto target = net::parse_target(std::string("/x?") + query);
  auto checked = check_query(fields_of(method, pattern), target.value());
  return checked ? "" : checked.error().message;
}

TEST(Query, WhatIsKnownIsTaken) {
  EXPECT_EQ(refusal("GET", "/v1/microvms", "state=RUNNING&pageSize=3"), "");
  EXPECT_EQ(refusal("POST", "/v1/images/{image}/builds", "arg=A=1&arg=B=2"), "");
  EXPECT_EQ(refusal("GET", "/v1/microvms/{id}/files", "path=/"), "");
}

TEST(Query, WhatIsUnknownMissingOrTwiceIsRefusedWithTheNames) {
  EXPECT_THAT(refusal("GET", "/v1/microvms", "status=RUNNING"),
              AllOf(HasSubstr("'status'"), HasSubstr("state, tag")));
  EXPECT_THAT(refusal("GET", "/v1/microvms/{id}", "a=b"), HasSubstr("there are none"));
  EXPECT_THAT(refusal("GET", "/v1/microvms", "state=RUNNING&state=PENDING"),
              HasSubstr("more than once"));
  EXPECT_THAT(refusal("GET", "/v1/microvms/{id}/files", "offset=1"), HasSubstr("path is missing"));
}

// ---- errors

TEST(ErrorJson, SaysWhatAndHowToRepairIt) {
  const Error plain{Code::not_found, "there is no microVM x", "errno 2"};
  EXPECT_EQ(error_json(plain),
            (json::object{{"code", "not_found"}, {"message", "there is no microVM x"}}));
  Error repair =
      fail(Code::invalid, Reason{"b_wrong"}, "a; b is wrong", Repair{"use c; or d"}).error();
  repair.data = {{"limit", "b"}};
  EXPECT_EQ(error_json(repair).at("repair").as_string(), "use c; or d");
  EXPECT_EQ(error_json(repair).at("message").as_string(), "a; b is wrong; use c; or d");
  EXPECT_EQ(error_json(repair).at("reason").as_string(), "b_wrong");
  EXPECT_EQ(error_json(repair).at("limit").as_string(), "b");
  // Nobody reads a repair out of a message.
  EXPECT_FALSE(error_json(Error{Code::invalid, "a; b", ""}).contains("repair"));
}

TEST(ErrorJson, NeverShowsTheDetail) {
  const Error error{Code::internal, "the disk failed", "/secret/path: EIO"};
  EXPECT_THAT(json::serialize(error_json(error)), testing::Not(HasSubstr("secret")));
}

TEST(ErrorJson, SaysWhenALimitIsFreeAgain) {
  Error error{Code::exhausted, "too many", ""};
  EXPECT_FALSE(error_json(error).contains("resetsAt"));
  error.resets_at_ms = 1'700'000'000'123;
  EXPECT_EQ(error_json(error).at("resetsAt").as_int64(), 1'700'000'000'123);
}

TEST(ErrorJson, EveryCodeHasAStatusOfItsKind) {
  for (const Code code : {Code::invalid, Code::unauthenticated, Code::denied, Code::not_found,
                          Code::conflict, Code::exhausted})
    EXPECT_EQ(http_status(code) / 100, 4) << to_string(code);
  for (const Code code :
       {Code::unavailable, Code::timeout, Code::corrupt, Code::guest, Code::internal})
    EXPECT_EQ(http_status(code) / 100, 5) << to_string(code);
}

}  // namespace
}  // namespace firebreak::api
