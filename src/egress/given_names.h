// Which addresses a guest was given for which names, as long as they may be used: what pins are
// made from when the policy changes, and what a server name that TLS asks for is compared with.
// Owned by the microVM's network; one executor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/egress_decision.h"
#include "egress/decision.h"

namespace firebreak::egress {

class GivenNames {
 public:
  static constexpr std::size_t kMostNames = 4096;
  static constexpr std::size_t kMostAddresses = 256;  // of one name

  // Earlier answers go on until their own end. When there are too many, what ends first goes.
  void add(const std::string& name, const std::vector<core::IpAddress>& addresses,
           core::Time expires);
  // Names in any case, as core::normal_name takes them.
  bool given(std::string_view name, const core::IpAddress& address, core::Time now) const;
  // What is still given of names that this stack allows.
  core::EgressPins pins(const core::EgressStack& stack, core::Time now) const;
  void expire(core::Time now);
  bool empty() const { return names_.empty(); }

  // What an earlier server had given according to its log, as far as it is still open.
  static GivenNames restored(const std::vector<Decision>& records, const core::EgressPins& open);

 private:
  using Addresses = std::map<core::IpAddress, core::Time>;
  std::map<std::string, Addresses, std::less<>> names_;
};

}  // namespace firebreak::egress
