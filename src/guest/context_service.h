// The HTTP side of contexts: /contexts and below (docs/agent-protocol.md "data: contexts"). Data
// thread.
#pragma once

#include "guest/context_table.h"
#include "guest/exchange.h"

namespace firebreak::guest {

class ContextService final : public Service {
 public:
  explicit ContextService(ContextTable& table) : table_(table) {}
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;

 private:
  std::unique_ptr<StreamHandler> one(const Request& request,
                                     const std::shared_ptr<Exchange>& exchange);
  std::unique_ptr<StreamHandler> act(const std::string& what,
                                     const std::shared_ptr<Exchange>& exchange,
                                     const std::shared_ptr<Context>& context);
  std::unique_ptr<StreamHandler> run(const std::shared_ptr<Exchange>& exchange,
                                     const std::string& id);
  // Whatever runs, unless a run is named.
  std::unique_ptr<StreamHandler> interrupt(const std::shared_ptr<Exchange>& exchange,
                                           const std::string& id, const std::string& run);
  void list(Exchange& exchange) const;

  ContextTable& table_;
};

}  // namespace firebreak::guest
