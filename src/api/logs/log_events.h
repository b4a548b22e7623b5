// What applications printed, as CloudWatch Logs knows it: lines with times, in streams, in groups.
// Pure, but for the reading; one executor.
#pragma once

#include <string>
#include <vector>

#include "control/app_log.h"
#include "core/model.h"

namespace firebreak::api {

struct LogEvent {
  std::int64_t at_ms = 0;
  std::string text;
};

struct LogStream {
  std::string group;
  std::string name;
  core::Microvm microvm;
};

// Where a microVM's output belongs: the group and stream it was run with, or AWS's own.
// nullopt: its logging is off.
std::optional<LogStream> log_stream_of(const core::Microvm& microvm);

// Every line printed so far, with the time of printing, to the second.
Result<std::vector<LogEvent>> read_events(const control::AppLog& log, const core::Microvm& microvm);

// A filter pattern of plain words: all must occur; quoted text counts as one word, '-' excludes,
// '?' makes alternatives. nullopt: a pattern of another kind.
std::optional<bool> matches(std::string_view pattern, std::string_view text);

}  // namespace firebreak::api
