// The server's log: one line per event, text for people or JSON for machines, to one descriptor. No
// value of a guest or tenant ends a line, steers a terminal or makes JSON that cannot be read. The
// log cannot tell a secret from other text: callers log ids and hashes, never keys. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

namespace firebreak::obs {

enum class Level { debug, info, warn, error };
enum class LogFormat { text, json };

struct Field {
  std::string_view name;
  std::variant<std::string, std::int64_t, double, bool> value;

  Field(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  Field(std::string_view n, std::string_view v) : name(n), value(std::string(v)) {}
  Field(std::string_view n, const char* v) : name(n), value(std::string(v)) {}
  Field(std::string_view n, std::int64_t v) : name(n), value(v) {}
  Field(std::string_view n, std::uint64_t v) : name(n), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view n, std::uint32_t v) : name(n), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view n, int v) : name(n), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view n, double v) : name(n), value(v) {}
  Field(std::string_view n, bool v) : name(n), value(v) {}
};

class Log {
 public:
  Log(int fd, LogFormat format, Level least) : fd_(fd), format_(format), least_(least) {}

  void write(Level level, std::string_view event, std::initializer_list<Field> fields);
  void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::debug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::info, event, fields);
  }
  void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::warn, event, fields);
  }
  void error(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::error, event, fields);
  }

 private:
  int fd_;
  LogFormat format_;
  Level least_;
  std::mutex mutex_;  // lines stay whole
};

}  // namespace firebreak::obs
