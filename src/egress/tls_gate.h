// Where connections of a guest end up that only a name opens, and whose policy wants to see that
// TLS asks for such a name: reads the ClientHello, compares, and connects to where the guest wanted
// to go, or resets. One per microVM that needs it, owned by its network; one executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "core/egress_decision.h"
#include "egress/nflog.h"
#include "net/task.h"
#include "obs/exceptions.h"

namespace firebreak::egress {

struct ServerNameVerdict {
  bool allowed = false;
  core::EgressLabel label;
  std::string reason;  // when denied
};
// `given`: the guest was given this address for this name.
ServerNameVerdict judge_server_name(const core::EgressStack& stack, const core::IpAddress& to,
                                    std::string_view name, bool given);

// One connection, decided: once; and again, if another policy ends it.
struct TlsEvent {
  PacketHead head;   // as the guest began it
  std::string name;  // that it asked for; empty: none was read
  bool allowed = false;
  core::EgressLabel label;
  std::string reason;  // when denied
};

// Where a connection was going that has been led to this socket.
struct TlsDestination {
  core::IpAddress address;
  std::uint16_t port = 0;
};
Result<TlsDestination> original_destination(int fd);

// Called on the gate's executor, never after close() has ended.
struct TlsGateHooks {
  std::function<Result<TlsDestination>(int fd)> destination = original_destination;
  std::function<ServerNameVerdict(const core::IpAddress& to, const std::string& name)> judge;
  // A stream socket of the microVM's namespace.
  std::function<net::Task<Result<UniqueFd>>(bool v6)> socket;
  std::function<void(const TlsEvent& event)> decided;
  obs::Exceptions exceptions = {};
};

struct TlsGateLimits {
  // Each has two descriptors and a few buffers. Beyond it: reset.
  std::size_t connections = 256;
  std::uint32_t connections_per_second = 200;  // others wait for their turn
  std::chrono::seconds hello_within{10};
  std::chrono::seconds connect_within{30};
  std::chrono::seconds answer_within{60};
  std::chrono::minutes idle{120};  // neither end says anything
};

class TlsGate {
 public:
  // Serves at once. `listeners`: opened by the caller in the microVM's namespace.
  static Result<std::unique_ptr<TlsGate>> start(net::asio::any_io_executor executor,
                                                std::vector<UniqueFd> listeners, TlsGateHooks hooks,
                                                TlsGateLimits limits = {});
  // Without close(): resets everything, and what the hooks refer to must outlive the next turn of
  // the loop.
  ~TlsGate();
  TlsGate(const TlsGate&) = delete;
  TlsGate& operator=(const TlsGate&) = delete;

  // Open connections are judged again; those that are not allowed any more are reset.
  void policy_changed();
  std::size_t connections() const;
  // Stops listening, resets all connections, waits for their tasks.
  net::Task<void> close(Deadline deadline);

 private:
  class Service;
  explicit TlsGate(std::shared_ptr<Service> service);

  std::shared_ptr<Service> service_;
};

}  // namespace firebreak::egress
