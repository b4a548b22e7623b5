#include "egress/decision_summary.h"

#include <algorithm>
#include <set>

namespace firebreak::egress {
namespace {

using core::EgressProtocol;
using Kind = Decision::Kind;

// Services that a domain rule can open; others are noted by their address.
bool nameable(std::uint8_t protocol, std::uint16_t port) {
  if (protocol == core::kIcmp || protocol == core::kIcmp6) return true;
  return (protocol == core::kTcp || protocol == core::kUdp) && port != 0 && port != 53 &&
         port != 853;
}

Destination destination_of(const Decision& decision) {
  if (decision.kind == Kind::name) return {.host = decision.name};
  Destination out{.protocol = decision.protocol, .port = decision.port};
  const bool by_name = !decision.name.empty() && nameable(decision.protocol, decision.port);
  if (by_name) {
    out.host = decision.name;
  } else if (decision.address) {
    out.host = core::to_string(*decision.address);
  }
  return out;
}

json::array table_json(const std::map<Destination, DestinationTotals>& table) {
  json::array out;
  for (const auto& [to, totals] : table) {
    json::object entry{{"host", to.host}};
    if (to.protocol != 0) entry["protocol"] = protocol_name(to.protocol);
    if (to.port != 0) entry["port"] = to.port;
    entry["count"] = totals.count;
    entry["bytesOut"] = totals.bytes_out;
    entry["bytesIn"] = totals.bytes_in;
    entry["first"] = core::to_unix_ms(totals.first);
    entry["last"] = core::to_unix_ms(totals.last);
    out.emplace_back(std::move(entry));
  }
  return out;
}

Result<std::map<Destination, DestinationTotals>> table_from(const json::array* list) {
  std::map<Destination, DestinationTotals> out;
  if (list == nullptr) return out;
  for (const json::value& value : *list) {
    if (!value.is_object()) return fail(Code::corrupt, "the egress summary is damaged");
    JsonReader in(value.as_object());
    const Destination to{.host = in.string("host"),
                         .protocol = protocol_number(in.string_or("protocol", "")),
                         .port = static_cast<std::uint16_t>(in.u64_or("port", 0))};
    out[to] = {.count = in.u64("count"),
               .bytes_out = in.u64("bytesOut"),
               .bytes_in = in.u64("bytesIn"),
               .first = core::from_unix_ms(in.i64("first")),
               .last = core::from_unix_ms(in.i64("last"))};
    FB_TRY(in.result());
  }
  return out;
}

std::vector<core::PortRange> to_ranges(const std::set<std::uint16_t>& ports) {
  std::vector<core::PortRange> out;
  for (const std::uint16_t port : ports) {
    if (!out.empty() && out.back().last + 1 == port) {
      out.back().last = port;
    } else {
      out.push_back({port, port});
    }
  }
  return out;
}

EgressProtocol rule_protocol(std::uint8_t protocol) {
  if (protocol == core::kTcp) return EgressProtocol::tcp;
  if (protocol == core::kUdp) return EgressProtocol::udp;
  if (protocol == core::kIcmp || protocol == core::kIcmp6) return EgressProtocol::icmp;
  return EgressProtocol::any;  // GRE and the like have no name in a policy
}

}  // namespace

bool DecisionSummary::count(Table& table, const Destination& to, const Decision& decision) {
  if (table.size() >= kMaxDestinations && !table.contains(to)) return false;
  DestinationTotals& totals = table[to];
  if (totals.first == core::Time{}) totals.first = decision.time;
  totals.last = std::max(totals.last, decision.time);
  if (decision.kind != Kind::end) totals.count += decision.count;
  totals.bytes_out += decision.bytes_out;
  totals.bytes_in += decision.bytes_in;
  return true;
}

void DecisionSummary::add(const Decision& decision) {
  last_number_ = std::max(last_number_, decision.number);
  if (decision.kind == Kind::more) return;
  if (decision.allowed) {
    if (decision.kind == Kind::connect) allowed_count_ += decision.count;
    // A name alone has reached nothing.
    if (decision.kind != Kind::name && !count(reached_, destination_of(decision), decision))
      unlisted_ = true;
    return;
  }
  denied_count_ += decision.count;
  (void)count(refused_, destination_of(decision), decision);
  add_denial(decision);
}

// The same again is one, and the latest.
void DecisionSummary::add_denial(Decision decision) {
  std::string key = merge_key(decision);
  const auto same = std::ranges::find(denial_keys_, key);
  if (same != denial_keys_.end()) {
    const auto index = same - denial_keys_.begin();
    decision.count += denials_[static_cast<std::size_t>(index)].count;
    denials_.erase(denials_.begin() + index);
    denial_keys_.erase(same);
  }
  denials_.push_back(std::move(decision));
  denial_keys_.push_back(std::move(key));
  if (denials_.size() <= kMaxDenials) return;
  denials_.pop_front();
  denial_keys_.pop_front();
}

json::object DecisionSummary::to_json() const {
  json::array denials;
  for (const Decision& decision : denials_) denials.emplace_back(egress::to_json(decision));
  return {{"allowed", allowed_count_},
          {"denied", denied_count_},
          {"lost", lost_},
          {"unlisted", unlisted_},
          {"reached", table_json(reached_)},
          {"refused", table_json(refused_)},
          {"denials", std::move(denials)}};
}

std::string DecisionSummary::to_text() const {
  json::object out = to_json();
  out["lastNumber"] = last_number_;
  return json::serialize(out);
}

Result<DecisionSummary> DecisionSummary::from_text(std::string_view text) {
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader in(object);
  DecisionSummary out;
  out.last_number_ = in.u64("lastNumber");
  out.allowed_count_ = in.u64("allowed");
  out.denied_count_ = in.u64("denied");
  out.lost_ = in.u64("lost");
  out.unlisted_ = in.boolean_or("unlisted", false);
  FB_TRY_ASSIGN(out.reached_, table_from(in.array("reached", true)));
  FB_TRY_ASSIGN(out.refused_, table_from(in.array("refused", true)));
  if (const json::array* denials = in.array("denials", true)) {
    for (const json::value& value : *denials) {
      auto decision = value.is_object() ? from_json(value.as_object()) : std::nullopt;
      if (!decision) return fail(Code::corrupt, "the egress summary is damaged");
      out.add_denial(*std::move(decision));
    }
  }
  FB_TRY(in.result());
  return out;
}

Result<core::EgressPolicy> DecisionSummary::suggestion(std::string name) const {
  if (unlisted_) {
    return fail(Code::exhausted,
                "more than " + std::to_string(kMaxDestinations) +
                    " destinations were reached, and not all of them are known: no policy can be "
                    "suggested that would have sufficed");
  }
  std::map<std::pair<std::string, EgressProtocol>, std::set<std::uint16_t>> wanted;
  for (const auto& [to, totals] : reached_) {
    auto& ports = wanted[{to.host, rule_protocol(to.protocol)}];
    if (to.port != 0) ports.insert(to.port);
  }
  core::EgressPolicy out;
  out.name = std::move(name);
  for (const auto& [target, ports] : wanted) {
    core::EgressRule rule;
    rule.action = core::EgressAction::allow;
    rule.protocol = target.second;
    rule.ports = to_ranges(ports);
    if (const auto address = core::parse_address(target.first)) {
      rule.target =
          core::Cidr{.base = *address, .prefix = static_cast<std::uint8_t>(address->bits())};
    } else {
      FB_TRY_ASSIGN(rule.target, core::parse_domain_pattern(target.first));
    }
    out.rules.push_back(std::move(rule));
  }
  if (auto ok = core::check(out); !ok) {
    return fail(Code::exhausted, "no policy can list all that was reached: " + ok.error().message,
                ok.error().detail);
  }
  return out;
}

}  // namespace firebreak::egress
