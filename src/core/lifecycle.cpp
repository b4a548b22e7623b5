#include "core/lifecycle.h"

#include <utility>

namespace firebreak::core {

namespace {

constexpr std::array kStates{
    std::pair{MicrovmState::pending, std::string_view("PENDING")},
    std::pair{MicrovmState::running, std::string_view("RUNNING")},
    std::pair{MicrovmState::suspending, std::string_view("SUSPENDING")},
    std::pair{MicrovmState::suspended, std::string_view("SUSPENDED")},
    std::pair{MicrovmState::terminating, std::string_view("TERMINATING")},
    std::pair{MicrovmState::terminated, std::string_view("TERMINATED")},
};

constexpr std::array kIntents{
    std::pair{Intent::none, std::string_view("none")},
    std::pair{Intent::launch, std::string_view("launch")},
    std::pair{Intent::suspend, std::string_view("suspend")},
    std::pair{Intent::resume, std::string_view("resume")},
    std::pair{Intent::fork, std::string_view("fork")},
    std::pair{Intent::terminate, std::string_view("terminate")},
};

template <class Table, class Enum>
std::string_view name_of(const Table& table, Enum value) {
  for (const auto& [key, name] : table) {
    if (key == value) return name;
  }
  return "?";
}

template <class Enum, class Table>
std::optional<Enum> value_of(const Table& table, std::string_view text) {
  for (const auto& [key, name] : table) {
    if (name == text) return key;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(MicrovmState state) {
  return name_of(kStates, state);
}

std::optional<MicrovmState> parse_microvm_state(std::string_view text) {
  return value_of<MicrovmState>(kStates, text);
}

std::string_view to_string(Intent intent) {
  return name_of(kIntents, intent);
}

std::optional<Intent> parse_intent(std::string_view text) {
  return value_of<Intent>(kIntents, text);
}

std::string transitions_markdown() {
  std::string out = "| from | to | cause |\n|---|---|---|\n";
  for (const Transition& t : kTransitions) {
    out += "| " + std::string(to_string(t.from)) + " | " + std::string(to_string(t.to)) + " | " +
           std::string(t.cause) + " |\n";
  }
  return out;
}

}  // namespace firebreak::core
