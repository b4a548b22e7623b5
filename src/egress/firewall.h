// The nftables rules of one network namespace, and the pins in them. Owned by whoever owns the
// namespace. Every call blocks for as long as the kernel takes (milliseconds, under a lock that all
// namespaces share): call from the blocking pool, never from the event loop. Calls from several
// threads are served one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "core/clock.h"
#include "core/egress_decision.h"
#include "egress/meter.h"
#include "egress/nft.h"
#include "egress/ruleset.h"

namespace firebreak::egress {

class Firewall {
 public:
  // `netns`: a descriptor of the namespace (nsfs); a copy of it is kept. Sets what the rules rely
  // on: a connection begins with its first packet, bytes are counted, denials are answered without
  // delay. Rules that are there already stay. Code::unavailable when the host cannot do it.
  static Result<std::unique_ptr<Firewall>> open(int netns, const core::Clock& clock);

  Firewall(const Firewall&) = delete;
  Firewall& operator=(const Firewall&) = delete;
  ~Firewall() = default;  // the rules stay: microVMs outlive the daemon

  // Replaces all rules in one transaction; when it fails the old ones stay in force. Open
  // connections are decided again with their next packet. Counting goes on from what the kernel
  // has, or from `before` if it has no rules that count. `pins` replace all pins: numbers of rules
  // mean the new stack's. Takes a few milliseconds, more with many rules.
  Result<> load(const core::EgressStack& stack, const Wiring& wiring,
                const core::EgressPins& pins = {}, const Counters& before = {});
  // For a clone that waits: all rules are in place, but nothing passes before open_gate(), which
  // takes a fraction of the time. A load() instead is as good, if another policy is wanted.
  Result<> load_closed(const core::EgressStack& stack, const Wiring& wiring);
  Result<> open_gate();
  // After a restart of the daemon: takes over rules that an earlier Firewall loaded from the same
  // stack, with the pins in them, and disturbs nothing. Code::not_found when they are not there:
  // load().
  Result<> adopt(const core::EgressStack& stack, const Wiring& wiring);
  // Nothing passes any more, in either direction. What was counted stays.
  Result<> drop_all();

  // When it returns, the guest may be told the addresses. Code::conflict without rules.
  Result<> add_pins(const std::vector<core::EgressPin>& pins);
  Result<> flush_pins();
  core::EgressPins pins();

  // Code::not_found without rules that count.
  Result<Counters> counters();
  // Every connection of the namespace is forgotten; the next packet of each is refused.
  Result<> forget_connections() const;

 private:
  Firewall(UniqueFd netns, const core::Clock& clock)
      : netns_(std::move(netns)), clock_(clock), nft_(netns_.get()) {}

  struct Counted {
    Counters total;
    std::uint64_t capped = 0;  // those of the denied packets that the meter has counted
  };
  Result<std::optional<Counted>> read_counters();
  Result<> replace(RulesetInput input, const Counters& before);

  const UniqueFd netns_;
  const core::Clock& clock_;
  std::mutex mutex_;  // guards what follows, and the order of transactions
  NftRunner nft_;
  std::optional<Ruleset> loaded_;
  std::optional<MeterInput> metered_;
  core::EgressPins pins_;
};

}  // namespace firebreak::egress
