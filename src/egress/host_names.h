// Resolves names as the host does: its hosts file, then the servers of its resolv.conf, by c-ares
// on our event loop. Owned by the program, shared by all microVMs; one executor.
#pragma once

#include <memory>
#include <string>

#include "egress/upstream.h"

namespace firebreak::egress {

struct HostNamesOptions {
  // "ip:port,ip:port" instead of those of resolv.conf; empty: as the host says.
  std::string servers;
  // Searched before any server is asked.
  bool use_hosts_file = true;
  std::chrono::milliseconds try_timeout{1500};  // of one server, then the next
  int tries = 2;
};

class HostNames : public Upstream {
 public:
  static Result<std::unique_ptr<HostNames>> create(net::asio::any_io_executor executor,
                                                   HostNamesOptions options = {});
  ~HostNames() override = default;
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  // A lookup has sockets of its own, so an unguessable source port, and the configuration as it is
  // now. Cancelling the task closes them.
  net::Task<Result<Resolved>> resolve(std::string name, Family family, Deadline deadline) override;

 private:
  HostNames(net::asio::any_io_executor executor, HostNamesOptions options);

  net::asio::any_io_executor executor_;
  HostNamesOptions options_;
};

}  // namespace firebreak::egress
