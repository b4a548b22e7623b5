// A point on the monotonic clock by which a wait must end. Every wait in the project takes one from
// its caller. Value.
#pragma once

#include <algorithm>
#include <chrono>

namespace firebreak {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(std::chrono::nanoseconds from_now) {
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(from_now));
  }
  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  std::chrono::milliseconds left() const {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(at_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  Deadline earlier(Deadline other) const { return Deadline(std::min(at_, other.at_)); }

 private:
  Clock::time_point at_;
};

}  // namespace firebreak
