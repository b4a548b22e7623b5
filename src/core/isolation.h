// How strongly a guest is kept from its host, as users see and demand it. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace firebreak::core {

// From the weakest to the strongest, so that "at least" is a comparison. Every class has the jail
// around it; they differ in what stands inside the jail.
enum class Isolation : std::uint8_t {
  emulated,          // a virtual machine without hardware: its emulator promises no security
  userspace_kernel,  // a kernel that is a program of the host and is built to be attacked
  hardware,          // a virtual machine on the CPU's virtualisation
};

std::string_view to_string(Isolation isolation);  // "hardware", "userspace-kernel", "emulated"
std::optional<Isolation> parse_isolation(std::string_view text);

constexpr bool at_least(Isolation given, Isolation wanted) {
  return given >= wanted;
}

}  // namespace firebreak::core
