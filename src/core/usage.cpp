#include "core/usage.h"

#include <algorithm>

namespace firebreak::core {

namespace {
constexpr std::uint64_t kMib = 1024UL * 1024;
}

Usage& Usage::operator+=(const Usage& other) {
  running_ms += other.running_ms;
  cpu_usec += other.cpu_usec;
  cpu_over_usec += other.cpu_over_usec;
  memory_mib_ms += other.memory_mib_ms;
  suspended_mib_ms += other.suspended_mib_ms;
  snapshot_read_bytes += other.snapshot_read_bytes;
  snapshot_written_bytes += other.snapshot_written_bytes;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  return *this;
}

void advance(Meter& meter, const SizeClass& size, const Sample& sample) {
  meter.total.bytes_in += sample.bytes_in;
  meter.total.bytes_out += sample.bytes_out;
  if (meter.until == Time{}) meter.until = sample.now;
  // A clock set back gives an empty interval, not a negative one.
  const auto elapsed =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, (sample.now - meter.until).count()));
  meter.until = std::max(meter.until, sample.now);

  const bool has_process =
      sample.state == MicrovmState::running || sample.state == MicrovmState::suspending;
  if (has_process) {
    meter.total.running_ms += elapsed;
    const std::uint64_t resident_mib = (sample.memory_bytes + kMib - 1) / kMib;
    meter.total.memory_mib_ms += elapsed * std::max<std::uint64_t>(size.memory_mib, resident_mib);
    // A counter that went back belongs to a new process.
    const std::uint64_t before =
        sample.cpu_counter_usec >= meter.cpu_counter ? meter.cpu_counter : 0;
    const std::uint64_t used = sample.cpu_counter_usec - before;
    const std::uint64_t share = elapsed * size.baseline_millicpu;  // ms * 1/1000 CPU = usec
    meter.cpu_counter = sample.cpu_counter_usec;
    meter.total.cpu_usec += used;
    meter.total.cpu_over_usec += used > share ? used - share : 0;
  } else if (sample.state == MicrovmState::suspended) {
    meter.total.suspended_mib_ms += elapsed * ((sample.saved_bytes + kMib - 1) / kMib);
    meter.cpu_counter = 0;
  }
}

}  // namespace firebreak::core
