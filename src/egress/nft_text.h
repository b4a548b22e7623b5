// Writes nftables scripts: lines, sets, maps and chains. Values that go in are numbers, addresses
// and names of our own, never text from outside. One owner.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/egress_decision.h"

namespace firebreak::egress {

constexpr std::string_view address_type(bool v6) {
  return v6 ? "ipv6_addr" : "ipv4_addr";
}
constexpr char family_digit(bool v6) {
  return v6 ? '6' : '4';
}

std::string set_mark(core::EgressWord word);
// Of the first packet of a connection that is led to the TLS gate. No rule has this number.
inline constexpr std::uint32_t kToTlsGate = 0x8000'0000;
// With a brake: a flood of packets must not become a flood of work for whoever reads the log.
std::string log_statement(bool allowed, core::EgressLayer layer);
// How a denied packet is answered.
std::vector<std::string> refusal();

class NftText {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  // In place of one of that name, if there is one.
  void open_table(std::string_view name) {
    line("add table inet {}\ndelete table inet {}\ntable inet {} {{", name, name, name);
  }

  // `kind`: "set" or "map"; `type` with its flags.
  void elements(std::string_view kind, std::string_view name, std::string_view type,
                const std::vector<std::string>& elements) {
    line("{} {} {{\n  type {}", kind, name, type);
    if (!elements.empty()) line("  elements = {{ {} }}", fmt::join(elements, ", "));
    line("}}");
  }

  void chain(std::string_view name, const std::vector<std::string>& statements) {
    line("chain {} {{\n  {}\n}}", name, fmt::join(statements, "\n  "));
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace firebreak::egress
