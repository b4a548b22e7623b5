// JSON of egress policies: strict, because a member that is misspelt and ignored would open or
// close something nobody asked for.
#include <algorithm>
#include <initializer_list>

#include "base/json.h"
#include "base/text.h"
#include "core/egress.h"
#include "core/request_fields.h"

namespace firebreak::core {

namespace {

constexpr std::size_t kMaxText = 1 << 20;

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const std::optional<std::uint64_t> value = parse_u64(text);
  if (!value || *value == 0 || *value > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*value);
}

// 443 or "8000-8100".
std::optional<PortRange> read_port(const json::value& value) {
  if (value.is_int64()) {
    const std::int64_t port = value.as_int64();
    if (port < 1 || port > 65535) return std::nullopt;
    return PortRange{static_cast<std::uint16_t>(port), static_cast<std::uint16_t>(port)};
  }
  if (!value.is_string()) return std::nullopt;
  const std::string_view text(value.as_string().data(), value.as_string().size());
  const std::size_t dash = text.find('-');
  const auto first = parse_port(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

void read_ports(JsonReader& reader, EgressRule& rule) {
  const json::array* ports = reader.array("ports", false);
  if (ports == nullptr) return;
  if (ports->empty()) reader.reject("ports", "is empty", Repair{"leave it out for all ports"});
  for (const json::value& value : *ports) {
    const std::optional<PortRange> range = read_port(value);
    if (!range) {
      reader.reject("ports", "holds ports from 1 to 65535 and ranges like \"8000-8100\"");
      return;
    }
    rule.ports.push_back(*range);
  }
}

void read_action(JsonReader& reader, EgressRule& rule) {
  const std::string action = reader.string("action");
  for (EgressAction known : {EgressAction::allow, EgressAction::deny}) {
    if (action != to_string(known)) continue;
    rule.action = known;
    return;
  }
  reader.reject("action", "must be allow or deny");
}

void read_protocol(JsonReader& reader, EgressRule& rule) {
  if (!reader.has("protocol")) return;
  const std::string protocol = reader.string("protocol");
  using enum EgressProtocol;
  for (EgressProtocol known : {any, tcp, udp, icmp}) {
    if (protocol != to_string(known)) continue;
    rule.protocol = known;
    return;
  }
  reader.reject("protocol", "must be any, tcp, udp or icmp");
}

void read_target(JsonReader& reader, EgressRule& rule) {
  const bool any = reader.boolean_or("any", false);
  if (int{reader.has("cidr")} + int{reader.has("domain")} + int{any} != 1) {
    reader.reject("cidr", "or 'domain' or \"any\": true must be given, one of the three");
    return;
  }
  if (reader.has("cidr")) {
    const Result<Cidr> block = parse_cidr(reader.string("cidr"));
    if (block) {
      rule.target = *block;
    } else {
      reader.reject("cidr", block.error());
    }
  } else if (reader.has("domain")) {
    Result<DomainPattern> pattern = parse_domain_pattern(reader.string("domain"));
    if (pattern) {
      rule.target = *std::move(pattern);
    } else {
      reader.reject("domain", pattern.error());
    }
  }
}

// A domain that is allowed and says no more is a web site.
void fill_in_domain(const JsonReader& reader, EgressRule& rule) {
  if (!std::holds_alternative<DomainPattern>(rule.target)) return;
  if (rule.action != EgressAction::allow) return;
  if (!reader.has("protocol")) rule.protocol = EgressProtocol::tcp;
  if (rule.protocol == EgressProtocol::tcp && rule.ports.empty()) {
    rule.ports = {{80, 80}, {443, 443}};
  }
}

Result<EgressRule> read_rule(const json::value& value, const std::string& path) {
  const json::object& object = value.as_object();
  JsonReader reader(object, path + ".");
  EgressRule rule;
  read_action(reader, rule);
  read_target(reader, rule);
  read_protocol(reader, rule);
  read_ports(reader, rule);
  FB_TRY(reader.result());
  fill_in_domain(reader, rule);
  return rule;
}

json::value port_value(const PortRange& range) {
  if (range.first == range.last) return range.first;
  return json::value(json::string(std::to_string(range.first) + "-" + std::to_string(range.last)));
}

json::object rule_value(const EgressRule& rule) {
  json::object out{{"action", to_string(rule.action)}};
  if (const Cidr* block = std::get_if<Cidr>(&rule.target)) {
    out["cidr"] = to_string(*block);
  } else if (const DomainPattern* pattern = std::get_if<DomainPattern>(&rule.target)) {
    out["domain"] = to_string(*pattern);
  } else {
    out["any"] = true;
  }
  if (rule.protocol != EgressProtocol::any) out["protocol"] = to_string(rule.protocol);
  if (!rule.ports.empty()) {
    json::array ports;
    for (const PortRange& range : rule.ports) ports.push_back(port_value(range));
    out["ports"] = std::move(ports);
  }
  return out;
}

}  // namespace

Result<EgressPolicy> egress_policy_from_json(std::string_view text) {
  if (text.size() > kMaxText) {
    return fail(Code::invalid, "an egress policy of more than 1 MiB", Repair{"merge its rules"});
  }
  FB_TRY_ASSIGN(json::object object, parse_json_object(text));
  FB_TRY(check_object(object, egress_policy_fields()));
  JsonReader reader(object);
  EgressPolicy policy;
  policy.name = reader.string("name");
  policy.internet = reader.boolean_or("internet", false);
  policy.sni_check = reader.boolean_or("sniCheck", false);
  policy.max_bytes = reader.u64_or("maxBytes", 0);
  policy.max_connections = static_cast<std::uint32_t>(reader.u64_or("maxConnections", 0));
  const json::array* rules = reader.array("rules", false);
  FB_TRY(reader.result());
  if (rules != nullptr) {
    for (std::size_t i = 0; i < rules->size() && i <= kMaxEgressRules; i++) {
      FB_TRY_ASSIGN(EgressRule rule, read_rule((*rules)[i], "rules[" + std::to_string(i) + "]"));
      policy.rules.push_back(std::move(rule));
    }
  }
  FB_TRY(check(policy));
  return policy;
}

std::string to_json(const EgressPolicy& policy) {
  json::object out{{"name", policy.name}};
  if (policy.internet) out["internet"] = true;
  json::array rules;
  for (const EgressRule& rule : policy.rules) rules.push_back(rule_value(rule));
  out["rules"] = std::move(rules);
  if (policy.sni_check) out["sniCheck"] = true;
  if (policy.max_bytes != 0) out["maxBytes"] = policy.max_bytes;
  if (policy.max_connections != 0) out["maxConnections"] = policy.max_connections;
  return json::serialize(out);
}

}  // namespace firebreak::core
