// What one microVM's endpoint may carry, by the size of the microVM, when the operator asks for it;
// without limits by default. Values and their arithmetic; one executor.
#pragma once

#include <chrono>
#include <cstdint>

namespace firebreak::ingress {

// 0: no limit.
struct EndpointLimits {
  std::uint32_t requests_at_once = 0;
  std::uint32_t requests_per_second = 0;
  std::uint64_t bytes_per_second = 0;  // in and out together

  // As Lambda MicroVMs has them: 8 at once and 10 a second for each vCPU at peak, and 1 MB/s for
  // each 512 MiB.
  static EndpointLimits of_size(std::uint32_t memory_mib);
  friend bool operator==(const EndpointLimits&, const EndpointLimits&) = default;
};

// A bucket that holds one second's worth.
class Rate {
 public:
  using Clock = std::chrono::steady_clock;
  // False: none left now. A rate of 0 has no bounds.
  bool take(std::uint32_t per_second, Clock::time_point now);
  // Counts the bytes; returns how long to wait before the next ones.
  Clock::duration pace(std::uint64_t bytes, std::uint64_t per_second, Clock::time_point now);

 private:
  Clock::time_point free_at_{};  // when what was taken has been earned
};

}  // namespace firebreak::ingress
