#include "api/logs/log_events.h"

#include <algorithm>

#include "api/aws/aws_call.h"
#include "api/lambda/lambda_json.h"

namespace firebreak::api {
namespace {

std::string member_text(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::string day_of(core::Time time) {
  std::string day = iso_date(time).substr(0, 10);
  std::ranges::replace(day, '-', '/');
  return day;
}

// With the names that the request gave, if it did; nullopt: it asked for none.
std::optional<LogStream> as_ordered(LogStream stream, const std::string& config) {
  const json::object kept = lambda::kept(config);
  const json::value* logging = kept.if_contains("logging");
  if (logging == nullptr || !logging->is_object()) return stream;
  if (logging->as_object().contains("disabled")) return std::nullopt;
  if (const json::value* watch = logging->as_object().if_contains("cloudWatch");
      watch != nullptr && watch->is_object()) {
    const std::string group = member_text(watch->as_object(), "logGroup");
    const std::string name = member_text(watch->as_object(), "logStream");
    if (!group.empty()) stream.group = group;
    if (!name.empty()) stream.name = name;
  }
  return stream;
}

}  // namespace

std::optional<LogStream> log_stream_of(const core::Microvm& microvm) {
  LogStream stream{.group = "/aws/lambda-microvms/" + microvm.image_name,
                   .name = day_of(microvm.started) + "[" +
                           core::version_text(microvm.image_version) + "]" + microvm.id.str(),
                   .created = microvm.started,
                   .microvm = microvm};
  return as_ordered(std::move(stream), microvm.config);
}

std::optional<LogStream> log_stream_of(const core::Image& image, const core::ImageVersion& version,
                                       const core::Build& build) {
  LogStream stream{.group = "/aws/lambda-microvms/" + image.name,
                   .name = day_of(build.created) + "[" + core::version_text(build.version) +
                           "]build-" + build.id.str(),
                   .created = build.created,
                   .build = build};
  return as_ordered(std::move(stream), version.config);
}

Result<std::vector<LogEvent>> read_events(const control::BuildLog& log, const core::Build& build) {
  std::vector<LogEvent> events;
  std::string line;
  for (std::uint64_t position = 0;;) {
    FB_TRY_ASSIGN(const std::string bytes, log.read(build.id, position));
    if (bytes.empty()) break;
    position += bytes.size();
    for (const char c : bytes) {
      if (c != '\n') {
        line += c;
        continue;
      }
      events.push_back({core::to_unix_ms(build.created), std::exchange(line, {})});
    }
  }
  if (!line.empty()) events.push_back({core::to_unix_ms(build.created), std::move(line)});
  return events;
}

Result<std::vector<LogEvent>> read_events(const control::AppLog& log,
                                          const core::Microvm& microvm) {
  FB_TRY_ASSIGN(const auto marks, log.marks(microvm.id));
  std::vector<LogEvent> events;
  wire::FrameDecoder decoder;
  std::string line;
  std::int64_t at = core::to_unix_ms(microvm.started);
  std::uint64_t frame_at = 0;  // of the frame, in the file
  auto mark = marks.begin();
  for (std::uint64_t position = 0;;) {
    FB_TRY_ASSIGN(const std::string bytes, log.read(microvm.id, position));
    if (bytes.empty()) break;
    position += bytes.size();
    decoder.feed(bytes);
    for (;;) {
      FB_TRY_ASSIGN(auto frame, decoder.next());
      if (!frame) break;
      for (; mark != marks.end() && mark->position <= frame_at; ++mark)
        at = core::to_unix_ms(mark->at);
      frame_at += wire::kFrameHeader + frame->payload.size();
      if (frame->type != wire::FrameType::out && frame->type != wire::FrameType::err) continue;
      for (const char c : frame->payload) {
        if (c != '\n') {
          line += c;
          continue;
        }
        events.push_back({at, std::move(line)});
        line.clear();
      }
    }
  }
  if (!line.empty()) events.push_back({at, std::move(line)});
  return events;
}

std::optional<bool> matches(std::string_view pattern, std::string_view text) {
  if (pattern.starts_with('{') || pattern.starts_with('[') || pattern.starts_with('%'))
    return std::nullopt;
  bool any_wanted = false;
  bool any_found = false;
  while (!pattern.empty()) {
    if (pattern.front() == ' ') {
      pattern.remove_prefix(1);
      continue;
    }
    const char sign = pattern.front() == '-' || pattern.front() == '?' ? pattern.front() : '\0';
    if (sign != '\0') pattern.remove_prefix(1);
    const bool quoted = pattern.starts_with('"');
    if (quoted) pattern.remove_prefix(1);
    const auto end = std::min(pattern.find(quoted ? '"' : ' '), pattern.size());
    const bool found = text.contains(pattern.substr(0, end));
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
    if (sign == '?') {
      any_wanted = true;
      any_found = any_found || found;
    } else if (found == (sign == '-')) {
      return false;
    }
  }
  return !any_wanted || any_found;
}

}  // namespace firebreak::api
