// One microVM's network on the host: its namespace with a link to the guest, an uplink, and rules
// that let nothing through until a policy is loaded. Owned by Networks. Blocking; one thread at a
// time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "core/clock.h"
#include "egress/firewall.h"
#include "egress/host_side.h"
#include "egress/netfilter_sockets.h"
#include "egress/resolver.h"
#include "machine/network_backend.h"

namespace firebreak::egress {

class Site {
 public:
  // Makes everything; the guest's link by `make_link`, in the namespace. The rules of `likely` are
  // loaded, but let nothing through before admit(). What was made before a failure is removed by
  // remove().
  static Result<std::unique_ptr<Site>> make(const std::string& pin, const std::string& id,
                                            HostSide& host, const core::Clock& clock,
                                            core::EgressStack likely,
                                            const machine::NetworkBackend::MakeLink& make_link);
  // One that an earlier server made.
  static Result<std::unique_ptr<Site>> find(const std::string& pin, const HostSide& host,
                                            const core::Clock& clock);
  // Also when only a part is there, or nothing.
  static Result<> remove(const std::string& pin, const std::string& id, HostSide& host);

  // This stack decides from now on. Of `likely` it is quick. After a restart of the server the
  // rules are there already, and are taken over as they are, when they are of this stack.
  Result<> admit(const core::EgressStack& stack, const core::EgressPins& pins,
                 const Counters& before);
  Firewall& firewall() { return *firewall_; }
  static Wiring wiring(bool ipv6);
  // On port 53 of the gateway's addresses.
  Result<ResolverSockets> resolver_sockets() const;
  // The TLS gate's, on the gateway's addresses. Rules that are loaded from now on have room for
  // connections through it.
  Result<std::vector<UniqueFd>> tls_gate_sockets();
  // A stream socket of the namespace.
  Result<UniqueFd> stream_socket(bool v6) const;
  // What the kernel says about decisions there.
  Result<NetfilterSockets> netfilter_sockets() const;

 private:
  Site(UniqueFd netns, std::unique_ptr<Firewall> firewall, bool ipv6)
      : netns_(std::move(netns)), firewall_(std::move(firewall)), ipv6_(ipv6) {}
  std::vector<const char*> gateways() const;

  UniqueFd netns_;
  std::unique_ptr<Firewall> firewall_;
  const bool ipv6_;
  std::optional<core::EgressStack> likely_;  // while its rules wait behind the gate
  bool found_ = false;                       // an earlier server's, not yet taken over
  bool tls_gate_ = false;
};

}  // namespace firebreak::egress
