#include "api/lambda/lambda_api.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "store/page_token.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kServiceCode = "lambda";

bool is_tag_operation(std::string_view name) {
  return name == "TagResource" || name == "UntagResource" || name == "ListTags";
}

AwsErrorName name_of(const AwsError& error) {
  if (!error.name.empty()) return {error.name, error.status};
  if (error.auth) return auth_error_name(*error.auth, 403);
  switch (error.error.code) {
    case Code::invalid:
      return {"ValidationException", 400};
    case Code::unauthenticated:
    case Code::denied:
      return {"AccessDeniedException", 403};
    case Code::not_found:
      return {"ResourceNotFoundException", 404};
    case Code::conflict:
      return {"ConflictException", 409};
    case Code::exhausted:
      return error.error.resets_at_ms != 0 ? AwsErrorName{"ThrottlingException", 429}
                                           : AwsErrorName{"ServiceQuotaExceededException", 402};
    case Code::unavailable:
    case Code::timeout:
    case Code::corrupt:
    case Code::guest:
    case Code::internal:
      return {"InternalServerException", 500};
  }
  return {"InternalServerException", 500};
}

// The tag calls are those of classic Lambda and have its names for the same things.
AwsError as_tag_error(AwsError error) {
  const AwsErrorName usual = name_of(error);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{{
      {"ValidationException", "InvalidParameterValueException"},
      {"ConflictException", "ResourceConflictException"},
      {"ThrottlingException", "TooManyRequestsException"},
      {"InternalServerException", "ServiceException"},
  }};
  const auto at = std::ranges::find(kNames, usual.name, [](const auto& row) { return row.first; });
  error.name = at == kNames.end() ? usual.name : std::string(at->second);
  error.status = usual.status;
  error.members["Type"] = usual.status < 500 ? "User" : "Service";
  return error;
}

json::value query_number(const std::string& text) {
  const auto number = parse_u64(text);
  if (number && *number <= static_cast<std::uint64_t>(lambda::kNoLimit))
    return json::value(static_cast<std::int64_t>(*number));
  return json::value(text);
}

}  // namespace

// ------------------------------------------------------------------------------------------- input

bool LambdaApi::Input::has(std::string_view name) const {
  const json::value* value = body.if_contains(name);
  return value != nullptr && !value->is_null();
}

std::string LambdaApi::Input::text(std::string_view name) const {
  return has(name) ? std::string(body.at(name).as_string()) : std::string();
}

std::string LambdaApi::Input::text_in(std::string_view structure, std::string_view name) const {
  return std::string(object(structure)->at(name).as_string());
}

std::map<std::string, std::string> LambdaApi::Input::strings(std::string_view name) const {
  std::map<std::string, std::string> out;
  if (const json::object* map = object(name)) {
    for (const auto& entry : *map)
      out[std::string(entry.key())] = std::string(entry.value().as_string());
  }
  return out;
}

std::int64_t LambdaApi::Input::number(std::string_view name, std::int64_t fallback) const {
  return has(name) ? body.at(name).as_int64() : fallback;
}

const json::object* LambdaApi::Input::object(std::string_view name) const {
  return has(name) ? &body.at(name).as_object() : nullptr;
}

const json::array* LambdaApi::Input::list(std::string_view name) const {
  return has(name) ? &body.at(name).as_array() : nullptr;
}

AwsResult<json::object> LambdaApi::read_input(
    const AwsCall& call, const lambda::Operation& operation,
    const std::map<std::string, std::string>& labels) const {
  json::object body;
  const bool takes_body = std::ranges::any_of(
      operation.input, [](const lambda::Member& member) { return member.in == lambda::In::body; });
  if (takes_body && !call.body.empty()) {
    auto parsed = parse_json_object(call.body);
    if (!parsed)
      return refuse("ValidationException", 400,
                    "Could not parse request body into json: " + parsed.error().message);
    body = *std::move(parsed);
  }
  // Only what the operation's table names goes further: nobody has checked the rest, and handlers
  // ask for members by their names, also to decide what a role may do.
  json::object input;
  for (const lambda::Member& member : operation.input) {
    const std::string name(member.name);
    switch (member.in) {
      case lambda::In::body:
        if (const json::value* value = body.if_contains(name)) input[name] = *value;
        break;
      case lambda::In::label:
        input[name] = labels.at(name);
        break;
      case lambda::In::query: {
        if (!call.target.has_query(name)) break;
        const std::string value(call.target.query_value(name));
        input[name] = member.shape->kind == lambda::Shape::Kind::integer ? query_number(value)
                                                                         : json::value(value);
        break;
      }
      case lambda::In::query_list: {
        json::array values;
        for (const auto& [key, value] : call.target.query) {
          if (key == name) values.emplace_back(value);
        }
        if (!values.empty()) input[name] = std::move(values);
      }
    }
  }
  const auto wrong = lambda::violations(operation.input, input);
  if (!wrong.empty()) return refuse("ValidationException", 400, lambda::validation_message(wrong));
  return input;
}

AwsResult<> LambdaApi::throttle(const AwsCall& call, const lambda::Operation& operation) {
  const auto rate = options_.rates.find(std::string(operation.name));
  if (rate == options_.rates.end()) return {};
  auto [bucket, added] =
      buckets_.try_emplace({call.tenant(), std::string(operation.name)}, rate->second);
  const auto next = bucket->second.take(parts_.supervisor.services().clock.now());
  if (!next) return {};
  AwsError error(Error{Code::exhausted, "Rate exceeded", {}, core::to_unix_ms(*next)});
  error.members["serviceCode"] = kServiceCode;
  error.members["quotaCode"] = operation.name;
  return std::unexpected(std::move(error));
}

// ---------------------------------------------------------------------------------------- dispatch

LambdaApi::LambdaApi(LambdaParts parts, LambdaOptions options)
    : parts_(std::move(parts)), options_(std::move(options)) {
  const auto table = lambda::operations(options_.extensions);
  operations_.assign(table.begin(), table.end());
  for (const lambda::Operation& operation : operations_)
    router_.add({std::string(operation.method),
                 std::string(operation.path),
                 std::string(operation.name),
                 false,
                 operation.carries,
                 {}});
}

std::vector<Surface> LambdaApi::surface() const {
  std::vector<Surface> all;
  for (const lambda::Operation& operation : operations_)
    all.push_back({std::string(operation.name), operation.carries});
  return all;
}

LambdaApi::Handler LambdaApi::handler_of(std::string_view operation) {
  static constexpr std::array<std::pair<std::string_view, Handler>, 24> kHandlers{{
      {"RunMicrovm", &LambdaApi::run_microvm},
      {"GetMicrovm", &LambdaApi::get_microvm},
      {"ListMicrovms", &LambdaApi::list_microvms},
      {"SuspendMicrovm", &LambdaApi::suspend_microvm},
      {"ResumeMicrovm", &LambdaApi::resume_microvm},
      {"TerminateMicrovm", &LambdaApi::terminate_microvm},
      {"CreateMicrovmAuthToken", &LambdaApi::create_auth_token},
      {"CreateMicrovmShellAuthToken", &LambdaApi::create_shell_auth_token},
      {"CreateMicrovmImage", &LambdaApi::create_image},
      {"UpdateMicrovmImage", &LambdaApi::update_image},
      {"GetMicrovmImage", &LambdaApi::get_image},
      {"ListMicrovmImages", &LambdaApi::list_images},
      {"DeleteMicrovmImage", &LambdaApi::delete_image},
      {"GetMicrovmImageVersion", &LambdaApi::get_version},
      {"ListMicrovmImageVersions", &LambdaApi::list_versions},
      {"UpdateMicrovmImageVersion", &LambdaApi::update_version},
      {"DeleteMicrovmImageVersion", &LambdaApi::delete_version},
      {"GetMicrovmImageBuild", &LambdaApi::get_build},
      {"ListMicrovmImageBuilds", &LambdaApi::list_builds},
      {"ListManagedMicrovmImages", &LambdaApi::list_managed},
      {"ListManagedMicrovmImageVersions", &LambdaApi::list_managed_versions},
      {"TagResource", &LambdaApi::tag_resource},
      {"UntagResource", &LambdaApi::untag_resource},
      {"ListTags", &LambdaApi::list_tags},
  }};
  return std::ranges::find(kHandlers, operation, [](const auto& row) { return row.first; })->second;
}

// Which thing is missing or in the way, for the errors that have members for it.
void LambdaApi::name_resource(const Input& in, AwsError& error) {
  const std::string name = name_of(error).name;
  if (name != "ResourceNotFoundException" && name != "ConflictException") return;
  const bool vm = in.has("microvmIdentifier");
  error.members.emplace("resourceType", vm ? "Microvm" : "MicrovmImage");
  if (vm || in.has("imageIdentifier"))
    error.members.emplace("resourceId", in.text(vm ? "microvmIdentifier" : "imageIdentifier"));
}

net::Task<AwsResult<>> LambdaApi::handle(AwsCall& call) {
  const std::string& method = call.exchange.request().method;
  const Match match = router_.match(method, call.target.segments);
  if (match.route == nullptr) {
    co_return refuse(match.path_known ? "MethodNotAllowedException" : "UnknownOperationException",
                     match.path_known ? 405 : 404,
                     "There is no operation " + method + " " + call.exchange.request().target);
  }
  const lambda::Operation& operation = *std::ranges::find(
      operations_, std::string_view(match.route->summary), &lambda::Operation::name);
  AwsResult<json::object> answer = json::object();
  if (auto allowed = throttle(call, operation); !allowed) answer = std::unexpected(allowed.error());
  if (answer) answer = read_input(call, operation, match.params);
  if (answer) {
    Input in{.call = call,
             .operation = operation,
             .place = {call.region(), call.tenant().str()},
             .body = *std::move(answer)};
    if (auto allowed = co_await authorize(in); !allowed) {
      answer = std::unexpected(allowed.error());
    } else {
      answer = co_await (this->*handler_of(operation.name))(in);
    }
    if (!answer) name_resource(in, answer.error());
  }
  if (!answer) {
    co_return std::unexpected(is_tag_operation(operation.name)
                                  ? as_tag_error(std::move(answer).error())
                                  : std::move(answer).error());
  }
  if (operation.status == 204) {
    FB_CO_TRY(co_await aws_reply(call, 204, {}, {}));
  } else {
    FB_CO_TRY(co_await aws_reply_json(call, operation.status, *answer));
  }
  co_return AwsResult<>();
}

AwsReply LambdaApi::render(const AwsError& error, const std::string& request_id) const {
  const AwsErrorName told = name_of(error);
  AwsReply reply{
      .status = told.status, .headers = aws_headers(request_id, "application/json"), .body = {}};
  reply.headers.push_back({"x-amzn-errortype", told.name});
  json::object body{{"message", error.error.message}};
  for (const auto& member : error.members) body[member.key()] = member.value();
  if (told.name == "ServiceQuotaExceededException") body.emplace("serviceCode", kServiceCode);
  if (error.error.resets_at_ms != 0) {
    const auto now = core::to_unix_ms(parts_.supervisor.services().clock.now());
    const auto seconds = std::max<std::int64_t>(1, (error.error.resets_at_ms - now + 999) / 1000);
    reply.headers.push_back({"retry-after", std::to_string(seconds)});
  } else if (error.error.code == Code::unavailable && told.status == 500) {
    reply.headers.push_back({"retry-after", "1"});
  }
  reply.body = aws_json(body);
  return reply;
}

// A page of rows that fit into memory. The token names the last row's key, so that rows that come
// or go in between do not move the rest.
AwsResult<json::object> LambdaApi::page(const Input& in, const Rows& rows) {
  std::vector<std::string> scope{std::string(in.operation.name), in.tenant().str()};
  for (const lambda::Member& member : in.operation.input) {
    if (member.name != "nextToken" && member.name != "maxResults" && in.has(member.name))
      scope.push_back(std::string(member.name) + "=" + in.text(member.name));
  }
  FB_TRY_ASSIGN(const store::Position from, store::read_page_token(scope, in.text("nextToken")));
  json::array items;
  json::object answer;
  const std::uint32_t size = in.page_size();
  auto row = in.text("nextToken").empty() ? rows.begin() : rows.upper_bound(from.id);
  std::string last;
  for (; row != rows.end() && items.size() < size; ++row) {
    items.push_back(row->second);
    last = row->first;
  }
  if (row != rows.end()) answer["nextToken"] = store::make_page_token(scope, {.id = last});
  answer["items"] = std::move(items);
  return answer;
}

}  // namespace firebreak::api
