// The states of a microVM and the moves between them, as one table. Everything that changes a
// state asks the table; docs/lifecycle.md is printed from it by a test. Pure; any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace firebreak::core {

enum class MicrovmState { pending, running, suspending, suspended, terminating, terminated };

std::string_view to_string(MicrovmState state);  // "PENDING", ...
std::optional<MicrovmState> parse_microvm_state(std::string_view text);

struct Transition {
  MicrovmState from;
  MicrovmState to;
  std::string_view cause;
};

inline constexpr std::array kTransitions{
    Transition{MicrovmState::pending, MicrovmState::running,
               "clone woken and the run hook answered 200 (or there is none)"},
    Transition{MicrovmState::pending, MicrovmState::terminating,
               "launch or run hook failed, or terminate was asked"},
    Transition{MicrovmState::running, MicrovmState::suspending,
               "idle, asked, or the host needs memory"},
    Transition{MicrovmState::running, MicrovmState::terminating,
               "asked, maximum duration, application ended, or the machine died"},
    Transition{MicrovmState::suspending, MicrovmState::suspended,
               "suspend hook answered 200 and memory and disk are saved"},
    Transition{MicrovmState::suspending, MicrovmState::running,
               "the state could not be saved (disk full); the microVM goes on"},
    Transition{MicrovmState::suspending, MicrovmState::terminating,
               "suspend hook failed, terminate was asked, or the machine died"},
    Transition{MicrovmState::suspended, MicrovmState::running,
               "resumed and the resume hook answered 200 (or there is none)"},
    Transition{MicrovmState::suspended, MicrovmState::terminating,
               "asked, suspended too long, maximum duration, or the resume failed"},
    Transition{MicrovmState::terminating, MicrovmState::terminated,
               "everything it had on the host is removed"},
};

constexpr bool allowed(MicrovmState from, MicrovmState to) {
  for (const Transition& t : kTransitions) {
    if (t.from == from && t.to == to) return true;
  }
  return false;
}

// What is being done to a microVM, written before it is begun: a restarted server reads it to
// finish or undo. `none` between operations.
enum class Intent { none, launch, suspend, resume, fork, terminate };

std::string_view to_string(Intent intent);
std::optional<Intent> parse_intent(std::string_view text);

// The table as the Markdown of docs/lifecycle.md.
std::string transitions_markdown();

}  // namespace firebreak::core
