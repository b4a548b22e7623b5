// The HTTP side of execs: /execs and below (docs/agent-protocol.md "data: exec"). Data thread.
#pragma once

#include "guest/exchange.h"
#include "guest/exec_table.h"

namespace firebreak::guest {

class ExecService final : public Service {
 public:
  explicit ExecService(ExecTable& table) : table_(table) {}
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;

 private:
  std::unique_ptr<StreamHandler> create(const Request& request,
                                        const std::shared_ptr<Exchange>& exchange);
  std::unique_ptr<StreamHandler> one(const Request& request,
                                     const std::shared_ptr<Exchange>& exchange);
  std::unique_ptr<StreamHandler> output(const Request& request,
                                        const std::shared_ptr<Exchange>& exchange,
                                        const std::shared_ptr<Exec>& exec);
  std::unique_ptr<StreamHandler> input(const Request& request,
                                       const std::shared_ptr<Exchange>& exchange,
                                       const std::shared_ptr<Exec>& exec);
  void list(Exchange& exchange) const;

  ExecTable& table_;
};

}  // namespace firebreak::guest
