// Everything of the `data` port: execs, contexts, files, tunnels, the making of the tenant. One
// object with a thread of its own; the two calls for the control side may come from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "guest/accept_line.h"
#include "guest/build_service.h"
#include "guest/context_service.h"
#include "guest/exec_service.h"
#include "guest/exec_table.h"
#include "guest/file_service.h"
#include "guest/port.h"
#include "guest/reactor.h"
#include "guest/tenant.h"
#include "guest/workers.h"

namespace firebreak::guest {

class DataSide final : private Service {
 public:
  static Result<std::unique_ptr<DataSide>> create(UniqueFd port, Port::Kind kind,
                                                  TenantState& state,
                                                  std::optional<CgroupTree> cgroups);
  DataSide(const DataSide&) = delete;
  DataSide& operator=(const DataSide&) = delete;
  ~DataSide() override;

  // The thread's main; returns after stop().
  void run() { reactor_->run(); }
  void stop();

  // Answers on `reply_to`.
  void create_tenant(TenantSpec spec, Reactor& reply_to,
                     std::function<void(Result<TenantHandles>)> done);

  Spawner& spawner() { return *spawner_; }
  // In a wake, before the thaw.
  void reseed_contexts() { reseed_.signal_all(); }

 private:
  DataSide() = default;
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;
  void batch_end();

  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<ExecTable> execs_;
  ReseedList reseed_;
  std::unique_ptr<ContextTable> contexts_;
  std::unique_ptr<ExecService> exec_service_;
  std::unique_ptr<ContextService> context_service_;
  std::unique_ptr<FileService> file_service_;
  std::unique_ptr<BuildService> build_service_;
  std::unique_ptr<AcceptLine> accept_line_;
  std::unique_ptr<Tenant> tenant_;
  std::unique_ptr<Port> port_;
};

}  // namespace firebreak::guest
