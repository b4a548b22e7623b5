// The egress log of one microVM: collects what the resolver and the kernel decided, merges what
// repeats, and writes it to its directory. Owned by the microVM's network; one executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "egress/decision_summary.h"
#include "egress/netfilter_sockets.h"
#include "egress/nflog.h"
#include "egress/resolver.h"
#include "egress/tls_gate.h"
#include "net/task.h"
#include "obs/exceptions.h"

namespace firebreak::egress {

struct DecisionLogOptions {
  std::string directory;
  std::vector<core::IpAddress> guest_addresses;  // connections of others are not the guest's
  // The gateway's: connections to them end in the resolver, and are logged as names.
  std::vector<core::IpAddress> own_addresses;
  std::function<void()> denied = {};  // called for each denial
  obs::Exceptions exceptions = {};
};

struct DecisionLogLimits {
  // To disk, of allowed and of denied ones each, so that a flood of one hides none of the other.
  // What is beyond is in the summary only.
  std::size_t records_per_second = 50;
  std::size_t names = 4096;        // addresses whose name is remembered
  std::size_t connections = 4096;  // open ones, to know their rule when they end
  // Read from the kernel before a pause of `turn`.
  std::size_t datagrams_per_turn = 64;
  std::chrono::milliseconds turn{20};
  std::chrono::seconds keep_summary_every{30};
};

class DecisionLog {
 public:
  // Goes on with what is in the directory.
  static Result<std::unique_ptr<DecisionLog>> open(net::asio::any_io_executor executor,
                                                   const core::Clock& clock,
                                                   DecisionLogOptions options,
                                                   DecisionLogLimits limits = {});
  ~DecisionLog();  // writes what is pending
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  // Of the resolver: give it as ResolverHooks::decided.
  void named(const NameEvent& event);
  // Of the TLS gate: give it as TlsGateHooks::decided.
  void asked(const TlsEvent& event);
  // Reads these from now on, instead of earlier ones: a resumed microVM has another namespace.
  Result<> watch(NetfilterSockets sockets);
  // Reads what waits there, and no more: before the namespace goes.
  void unwatch();
  void add(const NetfilterEvent& event);

  // All that has happened is on disk (recent_decisions of decision_file.h sees it).
  Result<> flush();
  // With all that has happened, pending or not.
  const DecisionSummary& summary() const;
  // The name for which the guest was given this address last; empty: none.
  std::string name_of(const core::IpAddress& address) const;

 private:
  class Service;
  explicit DecisionLog(std::shared_ptr<Service> service);

  std::shared_ptr<Service> service_;
};

}  // namespace firebreak::egress
