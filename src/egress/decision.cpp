#include "egress/decision.h"

#include <array>

#include "base/text.h"

namespace firebreak::egress {
namespace {

using core::EgressLayer;
using core::EgressWord;
using Kind = Decision::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 4> kKinds{
    {{Kind::name, "name"}, {Kind::connect, "connect"}, {Kind::end, "end"}, {Kind::more, "more"}}};

std::string_view to_string(Kind kind) {
  for (const auto& [value, text] : kKinds)
    if (value == kind) return text;
  return "connect";
}

Result<Decision> from_object(const json::object& object) {
  JsonReader in(object);
  Decision out;
  out.number = in.u64_or("number", 0);
  out.time = core::from_unix_ms(in.i64("time"));
  const std::string kind = in.string("event");
  bool known = false;
  for (const auto& [value, text] : kKinds) {
    if (text != kind) continue;
    out.kind = value;
    known = true;
  }
  if (!known) in.reject("event", "is unknown");
  out.allowed = in.string("verdict") == "allow";
  out.rule = in.string_or("rule", "");
  out.protocol = protocol_number(in.string_or("protocol", ""));
  if (in.has("address")) out.address = core::parse_address(in.string("address"));
  out.port = static_cast<std::uint16_t>(in.u64_or("port", 0));
  out.name = in.string_or("name", "");
  for (const std::string& text : in.strings_or_empty("addresses"))
    if (auto address = core::parse_address(text)) out.addresses.push_back(*address);
  out.reason = in.string_or("reason", "");
  out.count = in.u64_or("count", 1);
  out.bytes_out = in.u64_or("bytesOut", 0);
  out.bytes_in = in.u64_or("bytesIn", 0);
  FB_TRY(in.result());
  return out;
}

std::string_view whose(EgressLayer layer) {
  return layer == EgressLayer::maximum ? "the tenant's maximum" : "the policy";
}

}  // namespace

std::string merge_key(const Decision& decision) {
  std::string key(to_string(decision.kind));
  key += decision.allowed ? " + " : " - ";
  key += decision.rule + " " + std::to_string(decision.protocol) + " ";
  if (decision.address) key += core::to_string(*decision.address);
  return key + " " + std::to_string(decision.port) + " " + decision.name;
}

json::object to_json(const Decision& decision) {
  json::object out;
  if (decision.number != 0) out["number"] = decision.number;
  out["time"] = core::to_unix_ms(decision.time);
  out["event"] = to_string(decision.kind);
  out["verdict"] = decision.allowed ? "allow" : "deny";
  if (!decision.rule.empty()) out["rule"] = decision.rule;
  if (decision.protocol != 0) out["protocol"] = protocol_name(decision.protocol);
  if (decision.address) out["address"] = core::to_string(*decision.address);
  if (decision.port != 0) out["port"] = decision.port;
  if (!decision.name.empty()) out["name"] = decision.name;
  if (!decision.addresses.empty()) {
    json::array list;
    for (const core::IpAddress& address : decision.addresses)
      list.emplace_back(core::to_string(address));
    out["addresses"] = std::move(list);
  }
  if (!decision.reason.empty()) out["reason"] = decision.reason;
  if (decision.count != 1) out["count"] = decision.count;
  if (decision.kind == Kind::end) {
    out["bytesOut"] = decision.bytes_out;
    out["bytesIn"] = decision.bytes_in;
  }
  return out;
}

std::string to_line(const Decision& decision) {
  return json::serialize(to_json(decision));
}

std::optional<Decision> from_json(const json::object& object) {
  auto out = from_object(object);
  if (!out) return std::nullopt;
  return *std::move(out);
}

std::optional<Decision> from_line(std::string_view line) {
  const auto object = parse_json_object(line);
  if (!object) return std::nullopt;
  return from_json(*object);
}

std::string protocol_name(std::uint8_t protocol) {
  switch (protocol) {
    case core::kTcp:
      return "tcp";
    case core::kUdp:
      return "udp";
    case core::kIcmp:
      return "icmp";
    case core::kIcmp6:
      return "icmpv6";
    default:
      return std::to_string(protocol);
  }
}

std::uint8_t protocol_number(std::string_view name) {
  for (const std::uint8_t known : {core::kTcp, core::kUdp, core::kIcmp, core::kIcmp6})
    if (protocol_name(known) == name) return known;
  const auto number = parse_u64(name);
  return number && *number <= 255 ? static_cast<std::uint8_t>(*number) : 0;
}

std::string explain(const core::EgressLabel& label) {
  switch (static_cast<EgressWord>(label.code)) {
    case EgressWord::internet:
      return "";
    case EgressWord::unmatched:
      return "no rule of " + std::string(whose(label.layer)) + " allows it; add one";
    case EgressWord::unspecified:
    case EgressWord::loopback:
    case EgressWord::link_local:
    case EgressWord::multicast:
    case EgressWord::broadcast:
    case EgressWord::reserved:
    case EgressWord::embedded:
      return "no policy can open addresses of this kind (" +
             std::string(core::to_string(static_cast<EgressWord>(label.code))) + ")";
    case EgressWord::off_limits:
      return "this is the host, a network on its links or another microVM, which no policy can "
             "open";
    case EgressWord::spoofed:
      return "the sender's address is not the guest's";
    case EgressWord::source_route:
      return "the packet names its own route; send it without";
    case EgressWord::gateway:
      return "the gateway serves names only, on port 53";
    case EgressWord::byte_cap:
      return "the policy's bytes are used up; raise maxBytes";
    case EgressWord::connection_cap:
      return "too many connections at a time; close some, or raise maxConnections";
    case EgressWord::bad_name:
      return "this is not a host name";
    case EgressWord::server_name:
      return "TLS asks for a name that " + std::string(whose(label.layer)) +
             " does not open at this address; resolve the name that is meant, and allow it";
    case EgressWord::no_server_name:
      return "TLS asks for no name (SNI), so none can be checked; send one";
    case EgressWord::not_tls:
      return "this is not TLS, which alone may pass port 443 where server names are checked";
    case EgressWord::unchecked:
      return "this connection began before its server name was to be checked; connect again";
  }
  return "rule " + std::to_string(label.code) + " of " + std::string(whose(label.layer)) +
         " denies it";
}

}  // namespace firebreak::egress
