// The last lines of a log that is printed to two descriptors, in the order in which they began.
// Value; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

namespace firebreak::cli {

class LogTail {
 public:
  explicit LogTail(std::uint64_t lines) : most_(lines) {}

  // Bytes may begin and end anywhere in a line.
  void add(int fd, std::string_view bytes);

  struct Line {
    int fd;
    std::string text;
  };
  const std::deque<Line>& lines() const { return lines_; }
  // All bytes that came for each descriptor.
  const std::map<int, std::size_t>& seen() const { return seen_; }

 private:
  std::uint64_t most_;
  std::deque<Line> lines_;
  std::size_t dropped_ = 0;          // lines before those
  std::map<int, std::size_t> open_;  // number of the line that has no end yet
  std::map<int, std::size_t> seen_;
};

}  // namespace firebreak::cli
