// Each kind of key on each route, as the route table has them.
#include <set>

#include <gtest/gtest.h>

#include "api/native/duties.h"
#include "api/native/native_world_test_support.h"

namespace firebreak::api {
namespace {

using enum core::KeyKind;

// What the narrow kinds may do, said here once more: a route that is opened to them by mistake, and
// one that is closed to them, both show.
const std::map<core::KeyKind, std::set<std::string>> kAllowed{
    {core::KeyKind::agent,
     {"POST /v1/execute-code", "POST /v1/turns/{turn}/end", "POST /v1/sessions", "GET /v1/sessions",
      "GET /v1/sessions/{session}", "DELETE /v1/sessions/{session}",
      "POST /v1/sessions/{session}/execute", "POST /v1/sessions/{session}/exec", "GET /v1/tenant"}},
    {approver, {"GET /v1/tenant"}},
    {auditor,
     {"GET /v1/invocations", "GET /v1/invocations/{invocation}",
      "GET /v1/invocations/{invocation}/output", "GET /v1/sessions", "GET /v1/sessions/{session}",
      "GET /v1/events", "GET /v1/usage", "GET /v1/tenant"}}};

class KeyKinds : public NativeWorld {};

TEST_F(KeyKinds, EachKindMayDoWhatItIsFor) {
  for (const Route& route : api_.router().routes()) {
    const std::string call = route.method + " " + route.pattern;
    for (const core::KeyKind kind :
         {owner, core::KeyKind::agent, approver, auditor, administrator}) {
      const bool narrow = kAllowed.contains(kind);
      const bool expected =
          kind == administrator || (!route.admin && (!narrow || kAllowed.at(kind).contains(call)));
      EXPECT_EQ(may_call(kind, route.admin, route.method, route.pattern), expected)
          << call << " " << core::to_string(kind);
      if (expected) continue;
      const Said said = ask(kind, route.method, path_of(route), "{}");
      EXPECT_EQ(said.status, 403) << call << " " << core::to_string(kind) << " " << said.text;
    }
  }
}

TEST_F(KeyKinds, CapsAndPolicyAreAnAdministrators) {
  EXPECT_EQ(ask(owner, "PUT", "/v1/tenants/" + other_ + "/limits", R"({"tenant_daily":1})").status,
            403);
  EXPECT_EQ(ask(owner, "PATCH", "/v1/tenants/" + other_ + "/policy", R"({"enabled":true})").status,
            403);
  EXPECT_EQ(ask(administrator, "PUT", "/v1/tenants/" + other_ + "/limits", R"({"tenant_daily":1})")
                .status,
            200);
  const Said said = ask(administrator, "PATCH", "/v1/tenants/" + other_ + "/policy",
                        R"({"tier":"regulated","enabled":true})");
  EXPECT_EQ(said.status, 200) << said.text;
}

TEST_F(KeyKinds, AnOwnerMakesNarrowKeysAndNoAdministrators) {
  const auto make = [&](const char* body) { return ask(owner, "POST", "/v1/keys", body).status; };
  EXPECT_EQ(make(R"({"kind":"agent","agentId":"a"})"), 201);
  EXPECT_EQ(make(R"({"kind":"auditor"})"), 201);
  EXPECT_EQ(make(R"({"kind":"administrator"})"), 403);
  EXPECT_EQ(make(R"({"kind":"agent"})"), 400);
  EXPECT_EQ(make(R"({"kind":"auditor","agentId":"a"})"), 400);
  EXPECT_EQ(make(R"({"kind":"king"})"), 400);
}

TEST_F(KeyKinds, NarrowKeysSignNoRequests) {
  for (const core::Key& key : keys_.keys(keys_.authenticate(api_keys_.at(owner))->tenant.id)) {
    const auto signer = keys_.signer(key.id.str());
    EXPECT_EQ(signer.has_value(), key.kind == owner || key.kind == administrator);
  }
}

}  // namespace
}  // namespace firebreak::api
