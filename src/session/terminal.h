// A terminal in a guest: a command with keys and a screen, and a peer that shows it (a WebSocket of
// a façade). When the peer goes, the command and all it started are killed. One executor.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "session/exec.h"

namespace firebreak::session {

// What a person does at a terminal.
struct Keys {
  std::string bytes;
};
using TerminalInput = std::variant<Keys, TerminalSize>;

class TerminalPeer {
 public:
  virtual ~TerminalPeer() = default;
  // nullopt: the peer has gone.
  virtual net::Task<std::optional<TerminalInput>> input() = 0;
  // False: the peer takes no more.
  virtual net::Task<bool> show(std::string bytes) = 0;
  // nullopt: the microVM went away.
  virtual net::Task<void> ended(std::optional<Ending> ending) = 0;
};

// The user's login shell.
inline constexpr const char* kLoginShell =
    "command -v bash >/dev/null && exec bash -l || exec sh -l";

// A terminal that has begun. serve() returns when the command has ended or the peer has gone.
class Terminal {
 public:
  static net::Task<Result<Terminal>> open(const Guest& guest, Command command, Deadline deadline);
  net::Task<void> serve(TerminalPeer& peer);
  // Kills what it started; for a terminal that nobody serves.
  net::Task<void> close();

 private:
  Terminal(const Guest& guest, std::string id, ExecEvents events)
      : guest_(guest), id_(std::move(id)), events_(std::move(events)) {}
  net::Task<void> take_input(TerminalPeer& peer);
  net::Task<void> show_output(TerminalPeer& peer);

  const Guest& guest_;
  std::string id_;
  ExecEvents events_;
};

}  // namespace firebreak::session
