// Operations on microVMs: run, get, list, suspend, resume, terminate, access tokens.
#include "api/lambda/lambda_api.h"
#include "api/lambda/lambda_json.h"

namespace firebreak::api {
namespace {

using core::MicrovmState;
using lambda::Direction;

constexpr std::int64_t kDefaultDuration = 28800;
constexpr std::int64_t kLongestToken = 60;
constexpr auto kPendingWait = std::chrono::milliseconds(100);

std::unexpected<AwsError> invalid(std::string message) {
  return refuse("ValidationException", 400, std::move(message));
}

std::vector<std::string> names_in(const json::object& kept, std::string_view member) {
  std::vector<std::string> names;
  const json::value* list = kept.if_contains(member);
  if (list == nullptr || !list->is_array()) return names;
  for (const json::value& name : list->as_array()) names.emplace_back(name.as_string());
  return names;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

core::IdlePolicy read_idle(const json::object& idle) {
  return {.max_idle = core::Seconds(idle.at("maxIdleDurationSeconds").as_int64()),
          .suspended = core::Seconds(idle.at("suspendedDurationSeconds").as_int64()),
          .auto_resume = idle.at("autoResumeEnabled").as_bool(),
          .rule = core::IdleRule::traffic};
}

// What AWS does when none is given: never suspended for idling, and resumed only when asked.
core::IdlePolicy no_idle() {
  return {.max_idle = core::Seconds(0),
          .suspended = core::IdleBounds{}.longest,
          .auto_resume = false,
          .rule = core::IdleRule::traffic};
}

Result<bool> is_managed(const store::Store& store, const core::Microvm& microvm) {
  if (const auto kept = lambda::kept_managed(microvm)) return *kept;
  FB_TRY_ASSIGN(const auto image, store.find_image(core::kSystemTenant, microvm.image));
  return image.has_value();
}

}  // namespace

json::object LambdaApi::microvm_json(const lambda::ArnScope& place, const core::Microvm& microvm,
                                     bool managed) const {
  json::object out{
      {"microvmId", microvm.id.str()},
      {"state", to_string(microvm.state)},
      {"endpoint", parts_.endpoint(microvm)},
      {"imageArn", lambda::image_arn(place, managed ? lambda::kManagedAccount : place.account,
                                     microvm.image_name)},
      {"imageVersion", core::version_text(microvm.image_version)},
      {"maximumDurationInSeconds",
       microvm.max_duration ? microvm.max_duration->count() : kDefaultDuration},
      {"startedAt", epoch_seconds(microvm.started)}};
  const json::object kept = lambda::kept(microvm.config);
  if (const json::value* role = kept.if_contains("executionRoleArn"))
    out["executionRoleArn"] = *role;
  else if (!microvm.role.empty())
    out["executionRoleArn"] = core::role_arn(microvm.tenant, microvm.role);
  if (microvm.idle && microvm.idle->max_idle.count() != 0)
    out["idlePolicy"] = lambda::idle_json(*microvm.idle);
  if (microvm.terminated) out["terminatedAt"] = epoch_seconds(*microvm.terminated);
  if (!microvm.state_reason.empty()) out["stateReason"] = microvm.state_reason;
  const auto put = [&](std::string_view member, std::string_view stored) {
    json::array arns;
    for (const std::string& name : names_in(kept, stored))
      arns.emplace_back(lambda::connector_arn(place, lambda::connector_named(name)));
    if (!arns.empty()) out[member] = std::move(arns);
  };
  put("ingressNetworkConnectors", "ingress");
  out["egressNetworkConnectors"] =
      json::array{lambda::connector_arn(place, lambda::connector_named(microvm.egress))};
  return out;
}

AwsResult<json::array> LambdaApi::connectors(const Input& in, const json::array& arns,
                                             Direction direction) const {
  json::array names;
  for (const json::value& arn : arns) {
    FB_TRY_ASSIGN(const lambda::Connector connector,
                  lambda::parse_connector(in.place, std::string(arn.as_string()), direction));
    names.emplace_back(connector.name);
  }
  const auto lone = [&names](std::string_view name) {
    return names.size() > 1 && std::ranges::find(names, json::value(name)) != names.end();
  };
  if (lone("NO_INGRESS") || lone(core::kNoEgress))
    return invalid("NO_INGRESS and NO_EGRESS cannot be combined with other network connectors");
  return names;
}

// What is kept with the microVM: the effective connectors, the role, the logging.
AwsResult<json::object> LambdaApi::run_config(const Input& in,
                                              const core::ImageVersion& version) const {
  json::object config;
  const json::array* ingress = in.list("ingressNetworkConnectors");
  json::array effective{lambda::kHttpIngress};
  if (ingress != nullptr && !ingress->empty()) {
    FB_TRY_ASSIGN(effective, connectors(in, *ingress, Direction::ingress));
  }
  config["ingress"] = std::move(effective);

  const json::array* egress = in.list("egressNetworkConnectors");
  const json::object image = lambda::kept(version.config);
  json::array out;
  if (egress != nullptr && !egress->empty()) {
    FB_TRY_ASSIGN(out, connectors(in, *egress, Direction::egress));
  } else if (const json::value* inherited = image.if_contains("egressNetworkConnectors");
             inherited != nullptr && inherited->is_array() && !inherited->as_array().empty()) {
    FB_TRY_ASSIGN(out, connectors(in, inherited->as_array(), Direction::egress));
  }
  if (out.size() > 1)
    return invalid("A MicroVM has one egress network connector; " + std::to_string(out.size()) +
                   " were given");
  if (!out.empty()) config["egress"] = std::move(out);
  if (in.has("executionRoleArn")) config["executionRoleArn"] = in.text("executionRoleArn");
  if (const json::object* logging = in.object("logging")) config["logging"] = *logging;
  return config;
}

LambdaApi::Answer LambdaApi::run_microvm(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), true));
  const std::string wanted = in.text("imageVersion");
  core::ImageVersion version;
  if (wanted.empty()) {
    FB_CO_TRY_ASSIGN(const auto latest, co_await db().run([&image](const store::Store& store) {
      return store.latest_runnable(image.id);
    }));
    if (latest) version = *latest;
  } else {
    FB_CO_TRY_ASSIGN(version, co_await find_version(image, wanted));
  }
  if (!core::runnable(version))
    co_return std::unexpected(
        AwsError(Error{Code::not_found,
                       "The MicroVM image " + lambda::image_arn(in.place, image) + " is " +
                           std::string(to_string(image.state)) +
                           " and has no such version that is SUCCESSFUL and ACTIVE",
                       {}}));
  FB_CO_TRY_ASSIGN(json::object config, run_config(in, version));
  config["managedImage"] = image.tenant == core::kSystemTenant;
  control::LaunchRequest request;
  if (const std::vector<std::string> named = names_in(config, "egress"); !named.empty())
    request.egress = named.front();
  const std::string inherited =
      parts_.supervisor.egress().default_for(in.call.caller.tenant, version);
  FB_CO_TRY(allow_run(in, names_in(config, "ingress"), request.egress.value_or(inherited)));
  FB_CO_TRY_ASSIGN(request.role, execution_role(in));
  request.chosen = {.image = image, .version = version};
  const json::object* idle = in.object("idlePolicy");
  request.idle = idle != nullptr ? read_idle(*idle) : no_idle();
  request.max_duration = core::Seconds(in.number("maximumDurationInSeconds", kDefaultDuration));
  request.payload = in.text("runHookPayload");
  request.client_token = in.text("clientToken");
  request.request_hash = wire::sha256_hex(lambda::canonical_json(in.body));
  request.config =
      json::serialize(json::object{{"lambda", std::move(config)}, {"region", in.place.region}});
  auto launched = co_await parts_.supervisor.launch(in.call.caller.tenant, std::move(request),
                                                    in.call.deadline);
  if (!launched && launched.error().reason == "egress_policy_not_found")
    co_return invalid("The network connector does not exist: " + launched.error().message);
  if (!launched && launched.error().code == Code::unavailable)
    co_return refuse("InsufficientCapacityException", 500, launched.error().message);
  if (!launched) co_return std::unexpected(launched.error());
  co_return microvm_json(in.place, *launched, image.tenant == core::kSystemTenant);
}

LambdaApi::Answer LambdaApi::get_microvm(Input& in) {
  FB_CO_TRY_ASSIGN(core::Microvm microvm,
                   co_await parts_.supervisor.get(in.tenant(), in.microvm()));
  // A client that asks now waits for RUNNING: waiting here is cheaper than many polls.
  if (microvm.state == MicrovmState::pending) {
    FB_CO_TRY_ASSIGN(microvm, co_await parts_.supervisor.wait_started(in.tenant(), in.microvm(),
                                                                      Deadline::in(kPendingWait)));
  }
  FB_CO_TRY_ASSIGN(const bool managed, co_await has_managed_image(microvm));
  co_return microvm_json(in.place, microvm, managed);
}

LambdaApi::Answer LambdaApi::list_microvms(Input& in) {
  store::MicrovmFilter filter;
  if (in.has("imageIdentifier")) {
    FB_CO_TRY_ASSIGN(const core::Image image,
                     co_await find_image(in, in.text("imageIdentifier"), true));
    filter.image = image.id;
  }
  if (in.has("imageVersion")) {
    filter.version = core::parse_version(in.text("imageVersion"));
    if (!filter.version) co_return invalid("imageVersion must be like 1.0");
  }
  const store::PageRequest page{.size = in.page_size(), .token = in.text("nextToken")};
  json::object answer;
  FB_CO_TRY(co_await db().run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto found, store.list_microvms(in.tenant(), filter, page));
    json::array items;
    for (const core::Microvm& microvm : found.items) {
      FB_TRY_ASSIGN(const bool managed, is_managed(store, microvm));
      items.push_back(json::object{
          {"microvmId", microvm.id.str()},
          {"state", to_string(microvm.state)},
          {"imageArn",
           lambda::image_arn(in.place, managed ? lambda::kManagedAccount : in.place.account,
                             microvm.image_name)},
          {"imageVersion", core::version_text(microvm.image_version)},
          {"startedAt", epoch_seconds(microvm.started)}});
    }
    answer["items"] = std::move(items);
    if (!found.next.empty()) answer["nextToken"] = found.next;
    return {};
  }));
  co_return answer;
}

LambdaApi::Answer LambdaApi::suspend_microvm(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await parts_.supervisor.get(in.tenant(), in.microvm()));
  // The supervisor would wait for a launch to end; AWS refuses.
  if (microvm.state == MicrovmState::pending)
    co_return std::unexpected(
        Error{Code::conflict, "The MicroVM is PENDING: only a RUNNING one can be suspended", {}});
  FB_CO_TRY(co_await parts_.supervisor.suspend(in.tenant(), in.microvm(), in.call.deadline));
  co_return json::object{};
}

LambdaApi::Answer LambdaApi::resume_microvm(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await parts_.supervisor.get(in.tenant(), in.microvm()));
  if (microvm.state == MicrovmState::pending)
    co_return std::unexpected(
        Error{Code::conflict, "The MicroVM is PENDING: only a SUSPENDED one can be resumed", {}});
  FB_CO_TRY(co_await parts_.supervisor.resume(in.tenant(), in.microvm(), in.call.deadline));
  co_return json::object{};
}

LambdaApi::Answer LambdaApi::terminate_microvm(Input& in) {
  FB_CO_TRY(co_await parts_.supervisor.terminate(in.tenant(), in.microvm(), in.call.deadline));
  co_return json::object{};
}

// ------------------------------------------------------------------------------------------ tokens

LambdaApi::Answer LambdaApi::issue(Input& in, core::Microvm microvm,
                                   ingress::TokenRequest request) {
  const std::int64_t minutes = in.number("expirationInMinutes", 0);
  if (minutes > kLongestToken)
    co_return invalid("ExpirationMinutes " + std::to_string(minutes) +
                      " exceeded max allowed of 60.");
  if (microvm.state == MicrovmState::terminating || microvm.state == MicrovmState::terminated)
    co_return std::unexpected(
        Error{Code::conflict, "The MicroVM is " + std::string(to_string(microvm.state)), {}});
  request.life = std::chrono::minutes(minutes);
  FB_CO_TRY_ASSIGN(ingress::IssuedToken issued,
                   co_await parts_.tokens.issue(microvm.tenant, microvm.id, std::move(request)));
  co_return json::object{
      {"authToken", json::object{{"X-aws-proxy-auth", std::move(issued.token)}}}};
}

LambdaApi::Answer LambdaApi::create_auth_token(Input& in) {
  FB_CO_TRY_ASSIGN(core::Microvm microvm,
                   co_await parts_.supervisor.get(in.tenant(), in.microvm()));
  ingress::TokenRequest request;
  auto& allowed = request.ports.ranges;
  for (const json::value& each : *in.list("allowedPorts")) {
    const json::object& ports = each.as_object();
    const auto set = [&ports](std::string_view name) {
      const json::value* value = ports.if_contains(name);
      return value != nullptr && !value->is_null() ? value : nullptr;
    };
    const auto port = [](const json::value& value) {
      return static_cast<std::uint16_t>(value.as_int64());
    };
    if (const json::value* one = set("port")) {
      allowed.push_back({port(*one), port(*one)});
    } else if (const json::value* range = set("range")) {
      const core::PortRange wanted{port(range->at("startPort")), port(range->at("endPort"))};
      if (wanted.first > wanted.last)
        co_return invalid("A port range must not end before it starts");
      allowed.push_back(wanted);
    } else {
      allowed.push_back({1, 65535});
    }
  }
  const auto ingress = names_in(lambda::kept(microvm.config), "ingress");
  if (contains(ingress, "NO_INGRESS"))
    co_return invalid("The MicroVM was run with NO_INGRESS; it has no endpoint to authorize for");
  co_return co_await issue(in, std::move(microvm), std::move(request));
}

LambdaApi::Answer LambdaApi::create_shell_auth_token(Input& in) {
  FB_CO_TRY_ASSIGN(core::Microvm microvm,
                   co_await parts_.supervisor.get(in.tenant(), in.microvm()));
  const auto ingress = names_in(lambda::kept(microvm.config), "ingress");
  const bool all = ingress.size() == 1 && contains(ingress, lambda::kAllIngress);
  if (!all && !contains(ingress, lambda::kShellIngress))
    co_return invalid(
        "The MicroVM was not run with the SHELL_INGRESS network connector; run it with "
        "HTTP_INGRESS and SHELL_INGRESS");
  co_return co_await issue(in, std::move(microvm), {.kind = core::TokenKind::shell});
}

}  // namespace firebreak::api
