#include "api/logs/logs_api.h"

#include <algorithm>
#include <array>
#include <functional>

#include "api/lambda/shapes.h"
#include "base/text.h"
#include "store/walk.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kPrefix = "Logs_20140328.";
constexpr std::size_t kMostEvents = 10'000;
// A page's bytes, as on AWS.
constexpr std::size_t kMostBytes = 1UL << 20;

std::unexpected<AwsError> invalid(std::string message) {
  return refuse("InvalidParameterException", 400, std::move(message));
}

AwsErrorName name_of(const AwsError& error) {
  if (!error.name.empty()) return {error.name, error.status};
  if (error.auth) return auth_error_name(*error.auth, 400);
  switch (error.error.code) {
    case Code::invalid:
      return {"InvalidParameterException", 400};
    case Code::not_found:
      return {"ResourceNotFoundException", 400};
    case Code::denied:
      return {"AccessDeniedException", 400};
    default:
      return {"ServiceUnavailableException", 500};
  }
}

std::string text_of(const json::object& input, std::string_view name) {
  const json::value* value = input.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::int64_t number_of(const json::object& input, std::string_view name, std::int64_t fallback) {
  const json::value* value = input.if_contains(name);
  return value != nullptr && value->is_int64() ? value->as_int64() : fallback;
}

// "POSITION", as an opaque token: events are only ever added behind.
std::string make_token(char direction, std::size_t position) {
  return std::string(1, direction) + "/" + std::to_string(position);
}

AwsResult<std::optional<std::pair<char, std::size_t>>> read_token(const std::string& token) {
  if (token.empty()) return std::nullopt;
  const auto position = token.size() > 2 && token[1] == '/'
                            ? parse_u64(std::string_view(token).substr(2))
                            : std::nullopt;
  if (!position || (token[0] != 'f' && token[0] != 'b'))
    return invalid("The specified nextToken is invalid.");
  return std::pair(token[0], static_cast<std::size_t>(*position));
}

std::string group_of(const json::object& input) {
  std::string name = text_of(input, "logGroupName");
  if (!name.empty()) return name;
  const std::string arn = text_of(input, "logGroupIdentifier");
  const auto at = arn.find(":log-group:");
  name = at == std::string::npos ? arn : arn.substr(at + 11);
  if (name.ends_with(":*")) name.resize(name.size() - 2);
  return name;
}

std::string group_arn(const AwsCall& call, const std::string& group) {
  return "arn:aws:logs:" + call.region() + ":" + call.tenant().str() + ":log-group:" + group;
}

// A page of named rows in order of name; the token is the last name.
template <class Row>
json::object name_page(const std::map<std::string, Row>& rows, std::string_view list,
                       const json::object& input, const std::string& prefix,
                       const std::function<json::object(const std::string&, const Row&)>& show) {
  const auto most =
      static_cast<std::size_t>(std::clamp<std::int64_t>(number_of(input, "limit", 50), 1, 50));
  json::array items;
  json::object answer;
  std::string last;
  for (auto row = rows.upper_bound(text_of(input, "nextToken")); row != rows.end(); ++row) {
    if (!row->first.starts_with(prefix)) continue;
    if (items.size() == most) {
      answer["nextToken"] = last;
      break;
    }
    items.push_back(show(row->first, row->second));
    last = row->first;
  }
  answer[list] = std::move(items);
  return answer;
}

}  // namespace

net::Task<Result<std::map<std::string, std::map<std::string, LogStream>>>> LogsApi::streams(
    core::TenantId tenant) {
  std::map<std::string, std::map<std::string, LogStream>> groups;
  FB_CO_TRY(co_await supervisor_.services().db.run([&](const store::Store& store) -> Result<> {
    store::PageRequest page{.size = 1000, .token = {}};
    do {
      FB_TRY_ASSIGN(auto found, store.list_microvms(tenant, {}, page));
      for (const core::Microvm& microvm : found.items) {
        if (auto stream = log_stream_of(microvm)) groups[stream->group][stream->name] = *stream;
      }
      page.token = found.next;
    } while (!page.token.empty());
    const auto add_builds = [&](const core::Image& image,
                                const core::ImageVersion& version) -> Result<> {
      FB_TRY_ASSIGN(const auto builds, store.list_builds(image.id, version.number));
      for (const core::Build& build : builds) {
        if (auto stream = log_stream_of(image, version, build))
          groups[stream->group][stream->name] = *stream;
      }
      return {};
    };
    return store::for_each_version(store, tenant, add_builds);
  }));
  // An image straight from the base has a build that printed nothing.
  for (auto& [name, streams] : groups) {
    std::erase_if(streams, [this](const auto& entry) {
      const LogStream& stream = entry.second;
      return stream.build && builds_.log().read(stream.build->id, 0).value_or("").empty();
    });
  }
  std::erase_if(groups, [](const auto& entry) { return entry.second.empty(); });
  co_return groups;
}

Result<std::vector<LogEvent>> LogsApi::events_of(const LogStream& stream) const {
  return stream.build ? read_events(builds_.log(), *stream.build)
                      : read_events(supervisor_.services().app_log, stream.microvm);
}

net::Task<AwsResult<std::map<std::string, LogStream>>> LogsApi::group(core::TenantId tenant,
                                                                      const json::object& input) {
  const std::string name = group_of(input);
  FB_CO_TRY_ASSIGN(auto groups, co_await streams(tenant));
  auto found = groups.find(name);
  if (found == groups.end())
    co_return refuse("ResourceNotFoundException", 400, "The specified log group does not exist.");
  co_return std::move(found->second);
}

LogsApi::Answer LogsApi::describe_groups(AwsCall& call, const json::object& input) {
  FB_CO_TRY_ASSIGN(const auto groups, co_await streams(call.tenant()));
  const std::string pattern = text_of(input, "logGroupNamePattern");
  std::map<std::string, std::map<std::string, LogStream>> wanted;
  for (const auto& [name, streams] : groups) {
    if (name.contains(pattern)) wanted[name] = streams;
  }
  using Streams = std::map<std::string, LogStream>;
  const std::function<json::object(const std::string&, const Streams&)> show =
      [&call](const std::string& name, const Streams& streams) -> json::object {
    core::Time first = streams.begin()->second.created;
    for (const auto& [key, stream] : streams) first = std::min(first, stream.created);
    return {{"logGroupName", name},
            {"creationTime", core::to_unix_ms(first)},
            {"arn", group_arn(call, name) + ":*"},
            {"logGroupArn", group_arn(call, name)}};
  };
  co_return name_page<Streams>(wanted, "logGroups", input, text_of(input, "logGroupNamePrefix"),
                               show);
}

LogsApi::Answer LogsApi::describe_streams(AwsCall& call, const json::object& input) {
  FB_CO_TRY_ASSIGN(const auto found, co_await group(call.tenant(), input));
  const std::function<json::object(const std::string&, const LogStream&)> show =
      [this, &call](const std::string& name, const LogStream& stream) -> json::object {
    const std::int64_t started = core::to_unix_ms(stream.created);
    const auto marks = supervisor_.services().app_log.marks(stream.microvm.id);
    const bool printed = marks && !marks->empty();
    return {{"logStreamName", name},
            {"creationTime", started},
            {"firstEventTimestamp", printed ? core::to_unix_ms(marks->front().at) : started},
            {"lastEventTimestamp", printed ? core::to_unix_ms(marks->back().at) : started},
            {"arn", group_arn(call, stream.group) + ":log-stream:" + name}};
  };
  co_return name_page<LogStream>(found, "logStreams", input, text_of(input, "logStreamNamePrefix"),
                                 show);
}

LogsApi::Answer LogsApi::get_events(AwsCall& call, const json::object& input) {
  FB_CO_TRY_ASSIGN(const auto streams, co_await group(call.tenant(), input));
  const auto stream = streams.find(text_of(input, "logStreamName"));
  if (stream == streams.end())
    co_return refuse("ResourceNotFoundException", 400, "The specified log stream does not exist.");
  FB_CO_TRY_ASSIGN(const auto token, read_token(text_of(input, "nextToken")));
  FB_CO_TRY_ASSIGN(const auto events, events_of(stream->second));
  const auto most = static_cast<std::size_t>(
      std::clamp<std::int64_t>(number_of(input, "limit", kMostEvents), 1, kMostEvents));
  const json::value* head = input.if_contains("startFromHead");
  const bool from_head = head != nullptr && head->is_bool() && head->as_bool();
  // Without a token the newest page, unless asked otherwise.
  std::size_t begin = from_head || events.size() < most ? 0 : events.size() - most;
  if (token)
    begin = token->first == 'f' ? std::min(token->second, events.size())
                                : token->second - std::min(token->second, most);
  const std::size_t end =
      std::min(events.size(),
               token && token->first == 'b' ? std::min(token->second, begin + most) : begin + most);
  const std::int64_t since = number_of(input, "startTime", 0);
  const std::int64_t until = number_of(input, "endTime", lambda::kNoLimit);
  json::array items;
  for (std::size_t i = begin; i < end; ++i) {
    if (events[i].at_ms < since || events[i].at_ms >= until) continue;
    items.push_back(json::object{{"timestamp", events[i].at_ms},
                                 {"ingestionTime", events[i].at_ms},
                                 {"message", events[i].text}});
  }
  co_return json::object{{"events", std::move(items)},
                         {"nextForwardToken", make_token('f', end)},
                         {"nextBackwardToken", make_token('b', begin)}};
}

LogsApi::Answer LogsApi::filter_events(AwsCall& call, const json::object& input) {
  FB_CO_TRY_ASSIGN(const auto streams, co_await group(call.tenant(), input));
  FB_CO_TRY_ASSIGN(const auto token, read_token(text_of(input, "nextToken")));
  const std::string pattern = text_of(input, "filterPattern");
  if (!matches(pattern, ""))
    co_return invalid("Only patterns of words are supported, not JSON or regular expressions");
  const std::string prefix = text_of(input, "logStreamNamePrefix");
  std::vector<std::string> names;
  if (const json::value* list = input.if_contains("logStreamNames");
      list != nullptr && list->is_array()) {
    for (const json::value& name : list->as_array()) {
      if (name.is_string()) names.emplace_back(name.as_string());
    }
  }
  const std::int64_t since = number_of(input, "startTime", 0);
  const std::int64_t until = number_of(input, "endTime", lambda::kNoLimit);
  const auto most = static_cast<std::size_t>(
      std::clamp<std::int64_t>(number_of(input, "limit", kMostEvents), 1, kMostEvents));
  const std::size_t skip = token ? token->second : 0;
  json::array items;
  json::object answer;
  std::size_t position = 0;
  std::size_t bytes = 0;
  for (const auto& [name, stream] : streams) {
    if (!name.starts_with(prefix) ||
        (!names.empty() && std::ranges::find(names, name) == names.end()))
      continue;
    FB_CO_TRY_ASSIGN(const auto events, events_of(stream));
    for (std::size_t i = 0; i < events.size() && !answer.contains("nextToken"); ++i) {
      const LogEvent& event = events[i];
      if (event.at_ms < since || event.at_ms >= until || !*matches(pattern, event.text)) continue;
      if (position++ < skip) continue;
      if (items.size() == most || bytes + event.text.size() > kMostBytes) {
        answer["nextToken"] = make_token('f', position - 1);
        break;
      }
      bytes += event.text.size();
      items.push_back(json::object{{"logStreamName", name},
                                   {"timestamp", event.at_ms},
                                   {"ingestionTime", event.at_ms},
                                   {"message", event.text},
                                   {"eventId", stream.source() + "-" + std::to_string(i)}});
    }
  }
  answer["events"] = std::move(items);
  answer["searchedLogStreams"] = json::array{};
  co_return answer;
}

std::span<const LogsApi::Action> LogsApi::actions() {
  static constexpr std::array<Action, 4> kActions{{
      {"DescribeLogGroups", Carries::nothing, &LogsApi::describe_groups},
      {"DescribeLogStreams", Carries::nothing, &LogsApi::describe_streams},
      {"GetLogEvents", Carries::guest_bytes, &LogsApi::get_events},
      {"FilterLogEvents", Carries::guest_bytes, &LogsApi::filter_events},
  }};
  return kActions;
}

std::vector<Surface> LogsApi::surface() const {
  std::vector<Surface> all;
  for (const Action& action : actions()) all.push_back({std::string(action.name), action.carries});
  return all;
}

net::Task<AwsResult<>> LogsApi::handle(AwsCall& call) {
  std::string_view action = call.header("x-amz-target");
  if (!action.starts_with(kPrefix))
    co_return refuse("UnknownOperationException", 400, "The X-Amz-Target header is missing");
  action.remove_prefix(kPrefix.size());
  FB_CO_TRY_ASSIGN(const json::object input,
                   parse_json_object(call.body.empty() ? "{}" : call.body));
  // Groups are named with their streams, as on AWS: a policy for NAME:* covers both.
  const std::string of_group = action == "DescribeLogGroups" ? "" : group_of(input);
  const std::string of_stream = action == "GetLogEvents" ? text_of(input, "logStreamName") : "";
  FB_CO_TRY(call.allow("logs:" + std::string(action),
                       group_arn(call, of_group) + ":log-stream:" + of_stream));
  const auto known = std::ranges::find(actions(), action, &Action::name);
  if (known == actions().end())
    co_return refuse("UnknownOperationException", 400,
                     "The operation " + std::string(action) + " is not served here");
  const AwsResult<json::object> answer = co_await (this->*known->handler)(call, input);
  if (!answer) co_return std::unexpected(answer.error());
  FB_CO_TRY(co_await aws_reply(call, 200, "application/x-amz-json-1.1", aws_json(*answer)));
  co_return AwsResult<>();
}

AwsReply LogsApi::render(const AwsError& error, const std::string& request_id) const {
  const AwsErrorName told = name_of(error);
  AwsReply reply{told.status, aws_headers(request_id, "application/x-amz-json-1.1"),
                 aws_json(json::object{{"__type", told.name}, {"message", error.error.message}})};
  reply.headers.push_back({"x-amzn-errortype", told.name});
  return reply;
}

}  // namespace firebreak::api
