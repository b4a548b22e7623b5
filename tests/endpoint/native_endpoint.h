// The endpoint without a machine: the real proxy, tokens and listener, in front of an agent that
// runs as a plain process, so that "ports of the guest" are ports of this host. One executor.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

#include "control/counting_outlet.h"
#include "control/limits_gate.h"
#include "ingress/proxy.h"
#include "net/http_server.h"
#include "obs/metrics.h"

namespace firebreak::testing_support {

class NativeEndpoint {
 public:
  struct Options {
    std::string agent;  // the agent's program
    std::string dir;    // for keys and certificates
    bool tls = true;
    bool limits = false;
    std::size_t connections_of_tenant = ingress::ProxyOptions{}.connections_of_tenant;
    core::Hooks hooks;
  };
  NativeEndpoint(net::asio::any_io_executor executor, Options options);
  ~NativeEndpoint();
  NativeEndpoint(const NativeEndpoint&) = delete;
  NativeEndpoint& operator=(const NativeEndpoint&) = delete;

  net::Task<Result<>> start();

  std::string url() const;
  std::string ca_file() const { return options_.dir + "/tls/ca.pem"; }
  const std::string& endpoint() const { return endpoint_; }
  pid_t agent_pid() const { return pid_; }
  // Of the microVM; of another tenant's, which is the same place; of one that is not there.
  enum class Whose : std::uint8_t { own, neighbour, other };
  std::string token(const std::string& ports, core::Seconds life = core::Seconds(3600),
                    core::TokenKind kind = core::TokenKind::endpoint, Whose whose = Whose::own,
                    const std::string& id = "t");
  ingress::TokenChecker& tokens() { return *tokens_; }
  std::uint64_t bytes_in() const;
  std::uint64_t bytes_out() const;

 private:
  class Entrance;
  Result<> spawn_agent();

  net::asio::any_io_executor executor_;
  Options options_;
  const std::string endpoint_ = core::new_uuid();
  const core::MicrovmId microvm_ = core::new_microvm_id();
  const core::MicrovmId neighbour_ = core::new_microvm_id();
  core::SystemClock clock_;
  obs::Metrics metrics_;
  core::TenantLimits limits_;
  control::LimitsGate gate_{[this](const core::TenantId&) { return &limits_; }, clock_, metrics_};
  control::CountingOutlet outlet_{metrics_};
  core::Microvm record_;
  pid_t pid_ = -1;
  std::unique_ptr<machine::AgentClient> agent_;
  std::unique_ptr<Entrance> entrance_;
  std::unique_ptr<ingress::TokenChecker> tokens_;
  std::unique_ptr<ingress::Proxy> proxy_;
  std::unique_ptr<net::HttpServer> listener_;
};

}  // namespace firebreak::testing_support
