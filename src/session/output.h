// What a command or code printed and how it ended, as typed events and as one collected result.
// Values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/outlet.h"
#include "core/clock.h"

namespace firebreak::session {

enum class Stream : std::uint8_t { out, err };

struct Chunk {
  Stream stream = Stream::out;
  std::string bytes;
};

// Ends both flows: what they had kept.
std::vector<Chunk> last_chunks(control::Flow& out, control::Flow& err);

// Output that nobody took in time and that is lost.
struct Gap {
  std::uint64_t bytes = 0;
};

// How a process ended: an exit code or a signal.
struct Ending {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  bool out_of_memory = false;
};

// A picture, a table, a value: what code showed beside its output.
struct Artifact {
  std::string kind;         // text, html, markdown, png, ... or a MIME type
  std::string data;         // text; binary kinds are base64
  bool main = false;        // the value of the last expression
  std::uint64_t index = 0;  // forms of one object share it
  bool truncated = false;
};

// One stream, collected up to a limit.
struct Collected {
  std::string bytes;
  std::uint64_t total = 0;  // bytes that were printed, also those beyond the limit
  bool truncated() const { return total > bytes.size(); }
};

// Everything a run leaves: what any façade needs to answer.
struct RunResult {
  Collected out;
  Collected err;
  // In which order they came: so many bytes of this stream, then so many of that.
  struct Span {
    Stream stream = Stream::out;
    std::uint64_t bytes = 0;
  };
  std::vector<Span> order;
  std::vector<Artifact> artifacts;
  Ending ending;
  core::Time started{};
  std::chrono::milliseconds duration{0};

  // Keeps a chunk as far as the limit of its stream allows.
  void add(Chunk chunk, std::size_t limit);
};

}  // namespace firebreak::session
