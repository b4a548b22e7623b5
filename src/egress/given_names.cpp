#include "egress/given_names.h"

#include <algorithm>

namespace firebreak::egress {

namespace {

core::Time latest(const std::map<core::IpAddress, core::Time>& addresses) {
  core::Time out{};
  for (const auto& [address, expires] : addresses) out = std::max(out, expires);
  return out;
}

}  // namespace

void GivenNames::add(const std::string& name, const std::vector<core::IpAddress>& addresses,
                     core::Time expires) {
  const auto normal = core::normal_name(name);
  if (!normal || addresses.empty()) return;
  if (!names_.contains(*normal) && names_.size() >= kMostNames)
    names_.erase(std::ranges::min_element(names_, {},
                                          [](const auto& entry) { return latest(entry.second); }));
  Addresses& known = names_[*normal];
  for (const core::IpAddress& address : addresses) {
    core::Time& end = known[address];
    end = std::max(end, expires);
    if (known.size() > kMostAddresses)
      known.erase(
          std::ranges::min_element(known, {}, [](const auto& entry) { return entry.second; }));
  }
}

bool GivenNames::given(std::string_view name, const core::IpAddress& address,
                       core::Time now) const {
  const auto normal = core::normal_name(name);
  if (!normal) return false;
  const auto at = names_.find(*normal);
  if (at == names_.end()) return false;
  const auto found = at->second.find(address);
  return found != at->second.end() && found->second > now;
}

core::EgressPins GivenNames::pins(const core::EgressStack& stack, core::Time now) const {
  core::EgressPins out;
  for (const auto& [name, addresses] : names_) {
    const core::NameDecision decision = core::decide_name(stack, name);
    if (!decision.allowed) continue;
    for (const auto& [address, expires] : addresses) {
      if (expires <= now) continue;
      for (const core::EgressPin& pin : core::pins_for(decision, {address}, expires)) out.add(pin);
    }
  }
  return out;
}

void GivenNames::expire(core::Time now) {
  for (auto& [name, addresses] : names_)
    std::erase_if(addresses, [now](const auto& entry) { return entry.second <= now; });
  std::erase_if(names_, [](const auto& entry) { return entry.second.empty(); });
}

GivenNames GivenNames::restored(const std::vector<Decision>& records,
                                const core::EgressPins& open) {
  std::map<core::IpAddress, core::Time> ends;
  for (const core::EgressPin& pin : open.all())
    ends[pin.address] = std::max(ends[pin.address], pin.expires);
  GivenNames out;
  for (const Decision& record : records) {
    if (record.kind != Decision::Kind::name || !record.allowed) continue;
    for (const core::IpAddress& address : record.addresses)
      if (const auto end = ends.find(address); end != ends.end())
        out.add(record.name, {address}, end->second);
  }
  return out;
}

}  // namespace firebreak::egress
