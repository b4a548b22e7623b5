// The HTTP side of image builds: files from the host with an owner of choice, and mounts for one
// step (docs/agent-protocol.md "data: builds"). Data thread; file work is done by workers.
#pragma once

#include "guest/exchange.h"
#include "guest/exec_table.h"
#include "guest/staging.h"
#include "guest/workers.h"

namespace firebreak::guest {

class BuildService final : public Service {
 public:
  BuildService(Reactor& reactor, Workers& workers, const ExecTable& execs)
      : reactor_(reactor), workers_(workers), execs_(execs) {}
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;

 private:
  void mount(const std::vector<StagedMount>& mounts, const std::shared_ptr<Exchange>& exchange);

  Reactor& reactor_;
  Workers& workers_;
  const ExecTable& execs_;
  StepMounts mounts_;
};

}  // namespace firebreak::guest
