// Watches the guests that run: notices when a machine's process or its application ends by itself,
// and writes what the application prints to the host's log. Owned by the Supervisor; one executor.
#pragma once

#include "control/app_log.h"
#include "control/ending.h"
#include "control/outlet.h"
#include "net/task_group.h"

namespace firebreak::control {

class Watching {
 public:
  struct Needs {
    Ending& ending;
    AppLog& app_log;
    Outlet& outlet;
  };
  Watching(Needs needs, const net::asio::any_io_executor& executor, obs::Exceptions exceptions)
      : needs_(needs), tasks_(executor, exceptions) {}

  // From here on until its machine is another one, or gone.
  void watch(LivePtr vm);
  // Machines run on; what ends from here on is found by the next server. False: some still run.
  net::Task<bool> stop(Deadline deadline) { return tasks_.close(deadline); }

 private:
  net::Task<void> watch_process(LivePtr vm, std::shared_ptr<machine::Machine> machine);
  // Its output is an exec object in the agent that remembers where we were.
  net::Task<void> watch_application(LivePtr vm, std::shared_ptr<machine::Machine> machine);

  Needs needs_;
  net::TaskGroup tasks_;  // last: they use what is above
};

}  // namespace firebreak::control
