// Every operation of Lambda with values of wrong types in every place of its input, against the
// handlers themselves: a caller's mistake is told, and is never a failure of the server's.
#include <array>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/fake_exchange_test_support.h"
#include "api/guard.h"
#include "api/lambda/lambda_api.h"
#include "api/wrong_json_test_support.h"
#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::api {
namespace {

using testing::HasSubstr;

constexpr const char* kAccount = "123456789012";
const std::string kImageArn = "arn:aws:lambda:eu-1:123456789012:microvm-image:demo";

// What fills every member of the operations that take a body.
const std::map<std::string, const char*> kBodies{
    {"RunMicrovm", R"({"imageIdentifier": "demo", "imageVersion": "1.0",
        "ingressNetworkConnectors": ["arn:aws:lambda:eu-1:aws:network-connector:aws-network-connector:HTTP_INGRESS"],
        "egressNetworkConnectors": ["arn:aws:lambda:eu-1:aws:network-connector:aws-network-connector:NO_EGRESS"],
        "executionRoleArn": "arn:aws:iam::123456789012:role/r",
        "idlePolicy": {"maxIdleDurationSeconds": 60, "suspendedDurationSeconds": 60,
                       "autoResumeEnabled": true},
        "logging": {"cloudWatch": {"logGroup": "g", "logStream": "s"}},
        "runHookPayload": "p", "maximumDurationInSeconds": 60, "clientToken": "t"})"},
    {"CreateMicrovmAuthToken", R"({"expirationInMinutes": 1,
        "allowedPorts": [{"port": 80}, {"range": {"startPort": 1, "endPort": 2}},
                         {"allPorts": {}}]})"},
    {"CreateMicrovmShellAuthToken", R"({"expirationInMinutes": 1})"},
    {"CreateMicrovmImage", R"({"name": "other", "baseImageArn": "BASE", "baseImageVersion": "1",
        "buildRoleArn": "arn:aws:iam::123456789012:role/r", "codeArtifact": {"uri": "s3://b/k"},
        "description": "d", "logging": {"disabled": {}},
        "egressNetworkConnectors": ["arn:aws:lambda:eu-1:aws:network-connector:aws-network-connector:NO_EGRESS"],
        "cpuConfigurations": [{"architecture": "X86_64"}],
        "resources": [{"minimumMemoryInMiB": 512}], "additionalOsCapabilities": ["ALL"],
        "hooks": {"port": 9000, "microvmImageHooks": {"ready": "ENABLED", "readyTimeoutInSeconds": 1,
                                                     "validate": "DISABLED"},
                  "microvmHooks": {"run": "ENABLED", "runTimeoutInSeconds": 1}},
        "environmentVariables": {"A": "b"}, "tags": {"k": "v"}, "clientToken": "t"})"},
    {"UpdateMicrovmImage", R"({"baseImageArn": "BASE", "baseImageVersion": "1",
        "buildRoleArn": "arn:aws:iam::123456789012:role/r", "codeArtifact": {"uri": "s3://b/k"},
        "description": "d", "logging": {"disabled": {}},
        "egressNetworkConnectors": ["arn:aws:lambda:eu-1:aws:network-connector:aws-network-connector:NO_EGRESS"],
        "cpuConfigurations": [{"architecture": "X86_64"}],
        "resources": [{"minimumMemoryInMiB": 512}], "additionalOsCapabilities": ["ALL"],
        "hooks": {"port": 9000, "microvmImageHooks": {"ready": "ENABLED"},
                  "microvmHooks": {"run": "ENABLED", "runTimeoutInSeconds": 1}},
        "environmentVariables": {"A": "b"}, "tags": {"k": "v"}, "clientToken": "t"})"},
    {"UpdateMicrovmImageVersion", R"({"status": "INACTIVE"})"},
    {"TagResource", R"({"Tags": {"k": "v"}})"}};

class FixedTokens final : public ingress::EndpointTokens {
 public:
  net::Task<Result<ingress::IssuedToken>> issue(core::TenantId, core::MicrovmId,
                                                ingress::TokenRequest) override {
    co_return ingress::IssuedToken{.record = {}, .token = "token"};
  }
  net::Task<Result<std::vector<core::AccessToken>>> list(core::TenantId, core::MicrovmId) override {
    co_return std::vector<core::AccessToken>{};
  }
  net::Task<Result<>> revoke(core::TenantId, core::MicrovmId, core::TokenId) override {
    co_return Result<>();
  }
};

class LambdaInputs : public control::FakeWorld {
 protected:
  LambdaInputs()
      : supervisor_(*services_), images_(*services_, supervisor_.pool(), "", {}, dir_ + "/builds") {
    services_->options.budget = {.memory_mib = 65536, .millicpu = 64000};
    image_.id = core::ImageId("image-demo");
    image_.tenant = tenant_.id;
    image_.name = "demo";
    image_.state = core::ImageState::created;
    const core::ImageVersion version{.image = image_.id,
                                     .number = 1,
                                     .state = core::VersionState::successful,
                                     .active = true,
                                     .snapshot = "a"};
    core::Microvm microvm;
    microvm.id = core::MicrovmId("microvm-1");
    microvm.tenant = tenant_.id;
    microvm.endpoint = core::EndpointId("e");
    microvm.image = image_.id;
    microvm.image_name = "demo";
    microvm.config = R"({"lambda":{"ingress":["ALL_INGRESS"]}})";
    auto made = control::run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant(tenant_));
      FB_TRY(store.create_image(image_));
      FB_TRY(store.create_version(version));
      FB_TRY_ASSIGN(const auto created, store.create_microvm(microvm, {}));
      FB_TRY(store.change({.id = microvm.id,
                           .expected = created.microvm.revision,
                           .state = core::MicrovmState::running}));
      return {};
    }));
    EXPECT_TRUE(made) << made.error().text();
    EXPECT_TRUE(control::run_task(
        io_, supervisor_.roles().put(tenant_.id, "r", policy_for("arn:aws:lambda:*"))));
    const auto ordered = [this, version](auto&&...) -> net::Task<Result<control::NewVersion>> {
      co_return control::NewVersion{.image = image_, .version = version, .build = {}};
    };
    api_ = std::make_unique<LambdaApi>(
        LambdaParts{.supervisor = supervisor_,
                    .images = images_,
                    .artifacts = artifacts_,
                    .tokens = tokens_,
                    .build = ordered,
                    .endpoint = [](const core::Microvm&) { return std::string("host"); }},
        LambdaOptions{});
  }

  static core::RolePolicy policy_for(const std::string& resource) {
    return {
        {{.sid = "", .allow = true, .actions = {"*"}, .resources = {resource}, .prefixes = {}}}};
  }
  static std::string body_of(std::string_view operation) {
    const auto at = kBodies.find(std::string(operation));
    if (at == kBodies.end()) return "";
    std::string text = at->second;
    const std::string base = lambda::image_arn({"eu-1", kAccount}, lambda::kManagedAccount,
                                               std::string(lambda::base_images().back().name));
    if (const auto mark = text.find("BASE"); mark != std::string::npos) text.replace(mark, 4, base);
    return text;
  }
  // The operation's path with names of things that are there.
  static std::string path_of(const lambda::Operation& operation) {
    std::string path(operation.path);
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
        {{"{microvmIdentifier}", "microvm-1"},
         {"{imageIdentifier}", "demo"},
         {"{imageVersion}", "1.0"},
         {"{buildId}", "build-1"}}};
    for (const auto& [label, name] : kNames)
      if (const auto at = path.find(label); at != std::string::npos)
        path.replace(at, label.size(), name);
    if (const auto at = path.find("{Resource}"); at != std::string::npos)
      path.replace(at, 10, kImageArn);
    if (operation.name == "UntagResource") path += "?tagKeys=k";
    return path;
  }

  AwsReply call(std::string_view method, const std::string& path, const std::string& body) {
    FakeExchange exchange{std::string(method), path};
    auto target = net::parse_target(path);
    if (!target) return {.status = 400};
    AwsCall call{.exchange = exchange,
                 .target = *std::move(target),
                 .caller = {.tenant = tenant_, .key = {}, .session = {}},
                 .role = role_,
                 .claim = {},
                 .signing_key = {},
                 .request_id = "r",
                 .body = body,
                 .deadline = Deadline::in(std::chrono::seconds(10))};
    call.claim.region = "eu-1";
    if (role_) call.caller.session = control::RoleSession{.role = role_->name};
    const auto done = control::run_task(io_, caught(api_->handle(call), obs::Exceptions(), "test"));
    if (done)
      return {.status = exchange.status, .headers = exchange.headers, .body = exchange.answer};
    return api_->render(done.error(), "r");
  }

  // It says what is wrong, if anything is, in a body that a client can read.
  static void expect_told(const AwsReply& reply, const std::string& sent) {
    EXPECT_LT(reply.status, 500) << sent << "\n" << reply.body;
    EXPECT_GE(reply.status, 200) << sent;
    if (reply.status != 204)
      EXPECT_TRUE(parse_json_object(reply.body)) << sent << "\n" << reply.body;
  }

  // No microVM is started: the tenant may have none.
  core::Tenant tenant_{
      core::TenantId(kAccount), "a", {.microvms = 0, .launches_per_second = 1'000'000}, {}};
  core::Image image_;
  control::Supervisor supervisor_;
  control::Images images_;
  control::RolePtr role_;
  FixedTokens tokens_;
  net::asio::thread_pool pool_{1};
  object::ObjectStore objects_{dir_ + "/objects", {}, clock_};
  Artifacts artifacts_{objects_, nullptr, supervisor_.roles(), pool_, dir_};
  std::unique_ptr<LambdaApi> api_;
};

TEST_F(LambdaInputs, TheBodiesAreRightAsTheyAre) {
  for (const lambda::Operation& operation : lambda::operations()) {
    if (!kBodies.contains(std::string(operation.name))) continue;
    const AwsReply reply = call(operation.method, path_of(operation), body_of(operation.name));
    // A run is refused by the tenant's limit, as the last step before the machine.
    EXPECT_EQ(reply.status, operation.name == "RunMicrovm" ? 402 : operation.status)
        << operation.name << " " << reply.body;
    // Each member of the table is in the body: a new one is to be added here.
    const json::value body = json::parse(body_of(operation.name));
    for (const lambda::Member& member : operation.input)
      if (member.in == lambda::In::body)
        EXPECT_TRUE(body.as_object().contains(member.name)) << operation.name << " " << member.name;
  }
}

TEST_F(LambdaInputs, AWrongTypeAnywhereInABodyIsTheCallersMistake) {
  for (const lambda::Operation& operation : lambda::operations()) {
    if (!kBodies.contains(std::string(operation.name))) continue;
    const json::value body = json::parse(body_of(operation.name));
    for (const std::string& wrong : wrong_values())
      for (const std::string& sent : with_each_replaced(body, wrong))
        expect_told(call(operation.method, path_of(operation), sent),
                    std::string(operation.name) + " " + sent.substr(0, 2000));
  }
}

TEST_F(LambdaInputs, MembersOfOtherOperationsAreIgnored) {
  std::set<std::string> names;
  for (const lambda::Operation& operation : lambda::operations())
    for (const lambda::Member& member : operation.input) names.insert(std::string(member.name));
  for (const lambda::Operation& operation : lambda::operations()) {
    if (!kBodies.contains(std::string(operation.name))) continue;
    const json::object body = json::parse(body_of(operation.name)).as_object();
    for (const std::string& name : names) {
      const bool own = std::ranges::any_of(operation.input, [&](const lambda::Member& member) {
        return member.name == name && member.in == lambda::In::body;
      });
      if (own) continue;
      for (const json::value& wrong :
           {json::value(-1), json::value("x"), json::value(json::array{})}) {
        json::object more = body;
        more[name] = wrong;
        const AwsReply plain = call(operation.method, path_of(operation), json::serialize(body));
        const AwsReply reply = call(operation.method, path_of(operation), json::serialize(more));
        EXPECT_EQ(reply.status, plain.status) << operation.name << " " << name << reply.body;
        EXPECT_EQ(reply.body, plain.body) << operation.name << " " << name;
      }
    }
  }
}

TEST_F(LambdaInputs, WrongPathsAndQueriesAreTheCallersMistake) {
  for (const lambda::Operation& operation : lambda::operations()) {
    const std::string path = path_of(operation);
    for (const char* value : {"", "-1", "0", "1e400", "99999999999999999999", "x", "%00", "%ff%fe",
                              "%1b", "[]", "%7B%7D"}) {
      for (const lambda::Member& member : operation.input) {
        if (member.in == lambda::In::body || member.in == lambda::In::label) continue;
        const std::string query = std::string(member.name) + "=" + value;
        const std::string sent = path + (path.contains('?') ? "&" : "?") + query + "&" + query;
        expect_told(call(operation.method, sent, body_of(operation.name)), sent);
      }
      for (const char* name : {"microvm-1", "demo", "1.0", "build-1", kImageArn.c_str()}) {
        std::string sent = path;
        const auto at = sent.find(name);
        if (at == std::string::npos) continue;
        sent.replace(at, std::string_view(name).size(), *value == '\0' ? "%20" : value);
        expect_told(call(operation.method, sent, body_of(operation.name)), sent);
      }
    }
  }
}

TEST_F(LambdaInputs, WrongTagsOfAnUpdateAreRefused) {
  json::object body = json::parse(body_of("UpdateMicrovmImage")).as_object();
  body["tags"] = -1;
  const AwsReply reply = call("PUT", "/2025-09-09/microvm-images/demo", json::serialize(body));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(wire::find_header(reply.headers, "x-amzn-errortype"), "ValidationException");
  EXPECT_THAT(reply.body, HasSubstr("'tags'"));
}

// What a role may do is decided on the thing that is acted on, not on one that the body names.
TEST_F(LambdaInputs, AMemberThatIsNotTheOperationsDoesNotChangeWhatARoleMayDo) {
  const std::string mine = "arn:aws:lambda:eu-1:123456789012:microvm-image:mine";
  core::Role role;
  role.name = "r";
  role.policy = policy_for(mine);
  role_ = std::make_shared<const core::Role>(role);
  json::object body = json::parse(body_of("UpdateMicrovmImageVersion")).as_object();
  for (const auto& [name, value] :
       {std::pair("Resource", mine), std::pair("name", std::string("mine")),
        std::pair("microvmIdentifier", std::string("none"))}) {
    json::object more = body;
    more[name] = value;
    const AwsReply reply =
        call("PATCH", "/2025-09-09/microvm-images/demo/versions/1.0", json::serialize(more));
    EXPECT_EQ(reply.status, 403) << name << " " << reply.body;
  }
}

}  // namespace
}  // namespace firebreak::api
