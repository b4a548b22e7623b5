// The only resolver a guest can reach: answers the names its policy allows, and makes the addresses
// reachable before it tells them. Denied names never leave the host. One per microVM, owned by its
// network; one executor.
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
#include "egress/name_budget.h"
#include "egress/upstream.h"
#include "net/task.h"
#include "obs/exceptions.h"

namespace firebreak::egress {

struct NameVerdict {
  core::NameDecision decision;
  // No rule names exactly this name: the guest may choose among many, which could carry data out,
  // so they are counted.
  bool wildcard = false;
};
NameVerdict judge_name(const core::EgressStack& stack, std::string_view name);

struct PinRequest {
  std::string name;
  std::vector<core::IpAddress> addresses;
  std::chrono::seconds lifetime{0};  // a little longer than the guest is told
};

// One question, decided.
struct NameEvent {
  std::string name;
  std::uint16_t type = 0;
  bool allowed = false;
  core::EgressLabel label;
  std::string reason;                      // when denied
  std::vector<core::IpAddress> addresses;  // that the guest got
};

// Called on the resolver's executor, never after close() has ended.
struct ResolverHooks {
  std::function<NameVerdict(const std::string& name)> decide;
  // false: never tell the guest of this address (private, link-local, the host's: a name that
  // points there is somebody's attempt to reach it through us).
  std::function<bool(const core::IpAddress& address)> may_pin;
  // Returns when the addresses can be reached. The name has been decided again just before.
  std::function<net::Task<Result<>>(PinRequest request, Deadline deadline)> pin;
  std::function<void(const NameEvent& event)> decided;
  obs::Exceptions exceptions = {};
};

struct ResolverLimits {
  // Queries beyond the rate wait in the socket's buffer, and are lost there when it is full.
  std::uint32_t queries_per_second = 100;
  std::size_t outstanding = 64;  // asked upstream at a time
  std::size_t connections = 8;
  NameBudgetLimits names;
  std::chrono::milliseconds answer_within{4000};  // stub resolvers try again after 5 s
  std::chrono::seconds connection_idle{10};
  std::chrono::seconds ttl_floor{15};
  std::chrono::seconds ttl_ceiling{300};
  std::chrono::seconds pin_longer{60};  // a pin outlives the TTL by this
  std::size_t addresses = 32;           // of one answer
};

struct ResolverOptions {
  bool ipv6 = true;  // false: there is no way out for it, so no name has such an address
  ResolverLimits limits;
};

// Bound, non-blocking or not; TCP ones listen. Opened by the caller in the microVM's namespace,
// each bound to one address (an answer must come from where the question went).
struct ResolverSockets {
  std::vector<UniqueFd> udp;
  std::vector<UniqueFd> tcp;
};

class Resolver {
 public:
  // Serves at once.
  static Result<std::unique_ptr<Resolver>> start(net::asio::any_io_executor executor,
                                                 ResolverSockets sockets, Upstream& upstream,
                                                 ResolverHooks hooks, ResolverOptions options = {});
  // Without close(): cancels, and what the hooks refer to must outlive the next turn of the loop.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Names counted for wildcard rules are forgotten: the rules are others now.
  void policy_changed();
  // Closes the sockets, cancels what is being asked, waits for it.
  net::Task<void> close(Deadline deadline);

 private:
  class Service;
  explicit Resolver(std::shared_ptr<Service> service);

  std::shared_ptr<Service> service_;
};

}  // namespace firebreak::egress
