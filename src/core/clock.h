// Wall-clock time as the domain sees it, and the clock it is read from: injected everywhere, so
// that tests walk hours in microseconds. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace firebreak::core {

using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using Time = std::chrono::sys_time<Millis>;

inline std::int64_t to_unix_ms(Time time) {
  return time.time_since_epoch().count();
}
inline Time from_unix_ms(std::int64_t ms) {
  return Time(Millis(ms));
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time now() const override { return std::chrono::floor<Millis>(std::chrono::system_clock::now()); }
};

}  // namespace firebreak::core
