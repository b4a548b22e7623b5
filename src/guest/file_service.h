// The HTTP side of the tenant's files: /files and /tar (docs/agent-protocol.md "data: files"). Data
// thread; the work is done by workers.
#pragma once

#include "guest/exchange.h"
#include "guest/exec_table.h"
#include "guest/transfer.h"
#include "guest/workers.h"

namespace firebreak::guest {

class FileService final : public Service {
 public:
  FileService(Reactor& reactor, Workers& workers, const ExecTable& execs)
      : reactor_(reactor), workers_(workers), execs_(execs) {}
  std::unique_ptr<StreamHandler> open(const Request& request,
                                      const std::shared_ptr<Exchange>& exchange) override;

 private:
  std::unique_ptr<StreamHandler> stream(const Request& request,
                                        const std::shared_ptr<Exchange>& exchange, int root);

  Reactor& reactor_;
  Workers& workers_;
  const ExecTable& execs_;
};

// A directory's contents, or a file, as a tar stream. On a worker.
Result<OpenedSource> open_packed(int root, const std::string& path);

}  // namespace firebreak::guest
