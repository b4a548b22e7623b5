// Options that say how long a microVM lives and when it sleeps: of run and of set. Owned by a
// command; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arguments.h"

namespace firebreak::cli {

struct LifeOptions {
  std::optional<std::uint64_t> idle;       // seconds
  std::optional<std::uint64_t> suspended;  // seconds
  std::optional<std::string> rule;
  bool no_auto_resume = false;
  std::optional<std::uint64_t> max;  // seconds
  std::string name;
};

inline constexpr std::uint64_t kDefaultSuspended = 24UL * 3600;

// `with_idle`: those about sleep are refused without --idle.
void add_life_options(Command& command, LifeOptions& options, bool with_idle);
// 1 to 63 of a-z, 0-9, '-', '_' and '.'; not the form of an id.
Result<> check_microvm_name(const std::string& name);

}  // namespace firebreak::cli
