#include "image/signal_name.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace firebreak::image {
namespace {

// In the order of their numbers, from 1, as Linux has them on x86-64.
constexpr std::array<std::string_view, 31> kNames{
    "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1", "SEGV",
    "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN", "TTOU",
    "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS"};
// The C library keeps 32 and 33 for itself.
constexpr int kFirstRealTime = 34;
constexpr int kLastRealTime = 64;

// "", "+3" behind RTMIN; "", "-3" behind RTMAX.
std::optional<int> distance(std::string_view rest, char sign) {
  if (rest.empty()) return 0;
  if (rest.front() != sign) return std::nullopt;
  const auto value = parse_u64(rest.substr(1));
  if (!value || *value > kLastRealTime - kFirstRealTime) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<int> signal_number(std::string_view text) {
  if (const auto number = parse_u64(text)) {
    if (*number < 1 || *number > kLastRealTime) return std::nullopt;
    return static_cast<int>(*number);
  }
  std::string name(text);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (name.starts_with("SIG")) name.erase(0, 3);
  if (const auto found = std::ranges::find(kNames, name); found != kNames.end())
    return static_cast<int>(found - kNames.begin()) + 1;
  const std::string_view view = name;
  if (view.starts_with("RTMIN")) {
    const auto up = distance(view.substr(5), '+');
    return up ? std::optional(kFirstRealTime + *up) : std::nullopt;
  }
  if (view.starts_with("RTMAX")) {
    const auto down = distance(view.substr(5), '-');
    return down ? std::optional(kLastRealTime - *down) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace firebreak::image
