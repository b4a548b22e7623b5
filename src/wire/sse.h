// Server-sent events as a client reads them: the data of each event, whole. Comments and other
// fields are skipped. Owned by who reads a stream; no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

class SseReader {
 public:
  static constexpr std::size_t kMaxEvent = 64UL << 20;

  // Code::exhausted for an event that is too large.
  Result<> feed(std::string_view bytes);
  // The data of the next event that is complete; lines of it are joined by newlines.
  std::optional<std::string> next();

 private:
  void take_line(std::string_view line);

  std::string held_;      // not read yet
  std::size_t from_ = 0;  // in it
  std::string data_;      // of the event under way
  bool has_data_ = false;
  std::optional<std::string> whole_;
};

}  // namespace firebreak::wire
