// What applications and builds printed, as CloudWatch Logs knows it: lines with times, in streams,
// in groups. Pure, but for the reading; one executor.
#pragma once

#include <string>
#include <vector>

#include "control/app_log.h"
#include "control/build_log.h"
#include "core/model.h"

namespace firebreak::api {

struct LogEvent {
  std::int64_t at_ms = 0;
  std::string text;
};

struct LogStream {
  std::string group;
  std::string name;
  core::Time created{};
  core::Microvm microvm;             // whose output it is, or
  std::optional<core::Build> build;  // what was built
  std::string source() const { return build ? build->id.str() : microvm.id.str(); }
};

// Where a microVM's output belongs: the group and stream it was run with, or AWS's own.
// nullopt: its logging is off.
std::optional<LogStream> log_stream_of(const core::Microvm& microvm);

// Where a build's log belongs: the group that its order named, or AWS's own.
std::optional<LogStream> log_stream_of(const core::Image& image, const core::ImageVersion& version,
                                       const core::Build& build);

// Every line printed so far, with the time of printing, to the second.
Result<std::vector<LogEvent>> read_events(const control::AppLog& log, const core::Microvm& microvm);
// A build's lines have the time of its beginning.
Result<std::vector<LogEvent>> read_events(const control::BuildLog& log, const core::Build& build);

// A filter pattern of plain words: all must occur; quoted text counts as one word, '-' excludes,
// '?' makes alternatives. nullopt: a pattern of another kind.
std::optional<bool> matches(std::string_view pattern, std::string_view text);

}  // namespace firebreak::api
