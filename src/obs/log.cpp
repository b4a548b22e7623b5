#include "obs/log.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/json.h"
#include "base/printable.h"
#include "base/sys.h"

namespace firebreak::obs {
namespace {

std::string_view name_of(Level level) {
  constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warn", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

// "2026-01-31T12:00:00.123Z"
std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  (void)std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 8> fraction{};
  (void)std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(ms));
  return std::string(day.data()) + fraction.data();
}

json::value to_json(const Field& field) {
  return std::visit([](const auto& v) { return json::value(v); }, field.value);
}

// Without quotes a value is one word of ASCII.
bool plain(std::string_view text) {
  for (char c : text) {
    if (c <= ' ' || c >= '\x7f' || c == '"' || c == '=' || c == '\\') return false;
  }
  return !text.empty();
}

std::string to_text(const Field& field) {
  if (const auto* text = std::get_if<std::string>(&field.value); text && plain(*text)) return *text;
  return printable_json(json::serialize(to_json(field)));
}

}  // namespace

void Log::write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (level < least_) return;
  std::string line;
  if (format_ == LogFormat::json) {
    json::object object{{"time", now_text()}, {"level", name_of(level)}, {"event", event}};
    for (const Field& field : fields) object[field.name] = to_json(field);
    line = printable_json(json::serialize(object));
  } else {
    line = now_text() + " " + std::string(name_of(level)) + " " + std::string(event);
    for (const Field& field : fields) line += " " + std::string(field.name) + "=" + to_text(field);
  }
  line += '\n';
  const std::scoped_lock lock(mutex_);
  // A log that cannot be written must not stop the server.
  (void)sys::write_all(fd_, line);
}

}  // namespace firebreak::obs
