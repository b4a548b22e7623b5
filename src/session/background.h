// Work in a guest that a caller waits for, but only so long: then it goes on, and is read later
// under its id. A caller that leaves while it waits ends the work. One executor.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "session/code.h"
#include "session/exec.h"

namespace firebreak::session {

// How long a caller waits and how much it takes.
struct Patience {
  Deadline until;
  std::size_t most = 256UL << 10;          // bytes kept of each stream; what is more is counted
  std::size_t most_artifacts = 4UL << 20;  // bytes of results; what is more is left out
  // Told of each piece of output as it comes; an error ends the work.
  std::function<net::Task<Result<>>(const Chunk&)> seen;
};

// A command as far as it was seen.
struct CommandView {
  std::string id;
  RunResult output;
  bool running = false;
  std::uint64_t lost = 0;    // bytes that nobody took in time
  std::uint64_t cursor = 0;  // where read_command goes on
};

net::Task<Result<CommandView>> run_patiently(const Guest& guest, Command command, std::string input,
                                             Presence& caller, Patience patience);
// From a cursor on, until the time is over or the command has ended. A caller that leaves changes
// nothing.
net::Task<Result<CommandView>> read_command(const Guest& guest, std::string id,
                                            std::uint64_t cursor, Presence& caller,
                                            Patience patience);

// A run of code as far as it was seen.
struct CodeView {
  std::string context;
  CodeResult result;  // without a status while it runs
  bool running = false;
  bool left_out = false;  // results that were too large together
  std::uint64_t lost = 0;
  std::uint64_t cursor = 0;
};

// Makes the context when there is none of that id. Code::conflict while another run goes on.
net::Task<Result<CodeView>> run_code_patiently(const Guest& guest, NewContext context, Snippet code,
                                               Presence& caller, Patience patience);
net::Task<Result<CodeView>> read_code(const Guest& guest, std::string context, std::string run,
                                      std::uint64_t cursor, Presence& caller, Patience patience);

}  // namespace firebreak::session
