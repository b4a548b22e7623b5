// The one way in: every act that costs something or reaches a guest asks the Gate first, once, at
// the place where the act is decided. It holds the limits of a tenant; caps, budgets and approvals
// will stand behind the same interface. Owned by the server; one executor.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ids.h"
#include "net/task.h"

namespace firebreak::control {

enum class Act : std::uint8_t {
  launch,
  fork,
  wake,        // by a call, by traffic or as asked
  exec,        // a command or a terminal
  code,        // a run in a context
  write_file,  // or an archive, a directory, a removal: whatever changes files
  build,
};
std::string_view to_string(Act act);

struct Ask {
  core::TenantId tenant;
  Act act = Act::launch;
  core::MicrovmId microvm;  // empty before there is one
  std::uint32_t count = 1;  // of a fork: how many
};

class Gate {
 public:
  virtual ~Gate() = default;
  // An error is the answer to whoever wanted to act: nothing has begun.
  virtual net::Task<Result<>> ask(Ask ask) = 0;
};

}  // namespace firebreak::control
