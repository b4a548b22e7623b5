#include "life_options.h"

#include <algorithm>

namespace firebreak::cli {

void add_life_options(Command& command, LifeOptions& options, bool with_idle) {
  constexpr double kWeek = 604800;
  constexpr double kYear = 31622400;
  command.option("--name", options.name, "NAME",
                 "What to call it; unique among those that live, and good wherever an id is");
  command
      .option("--idle", options.idle, "SECONDS", "Suspend it after so long without anything to do")
      .range(1, kWeek, "leave it out for a microVM that is never suspended")
      .fallback("never");
  Option& suspended = command
                          .option("--suspended", options.suspended, "SECONDS",
                                  "Terminate it after it has slept so long")
                          .range(0, kWeek)
                          .fallback(std::to_string(kDefaultSuspended));
  Option& rule = command
                     .option("--idle-rule", options.rule, "RULE",
                             "What keeps it awake: execs, requests and CPU time, or only bytes")
                     .one_of({"work", "traffic"})
                     .fallback("work");
  Option& resume = command.flag("--no-auto-resume", options.no_auto_resume,
                                "Only 'firebreak resume' wakes it, no request");
  command
      .option("--max", options.max, "SECONDS",
              "Terminate it after so long, running and suspended together")
      .range(1, kYear, "leave it out for no limit")
      .fallback("no limit");
  if (with_idle) {
    for (Option* option : {&suspended, &rule, &resume}) option->needs("--idle");
  }
}

Result<> check_microvm_name(const std::string& name) {
  constexpr std::size_t kLongest = 63;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= kLongest && plain(name.front()) &&
                    !name.starts_with("microvm-") && std::ranges::all_of(name, [&](char c) {
                      return plain(c) || c == '-' || c == '_' || c == '.';
                    });
  if (good) return {};
  return fail(Code::invalid,
              "--name must be 1 to 63 of a-z, 0-9, '-', '_' and '.', the first a letter or digit, "
              "and not 'microvm-...'",
              Repair{"write something like web-1"});
}

}  // namespace firebreak::cli
