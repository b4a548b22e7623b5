#include "egress/meter.h"

#include "egress/nft_text.h"

namespace firebreak::egress {

namespace {

using core::EgressLayer;
using core::EgressWord;

// What goes through the gate is never forwarded: it is counted between guest and gate, where it
// has the guest's size. Before the destination is replaced, so that denials name the one that was
// meant; the gate itself logs what is allowed.
void meter_tls_gate(NftText& text, const MeterInput& input) {
  const std::vector<std::string> quota =
      input.caps.bytes == 0 ? std::vector<std::string>{}
                            : std::vector<std::string>{"quota name all_bytes goto over_bytes"};
  std::vector<std::string> out = quota;
  out.emplace_back("ct state new jump counted");
  out.emplace_back("counter name out accept");
  text.chain("to_tls_gate", out);
  text.chain("metered_to_tls_gate",
             {"type filter hook prerouting priority mangle + 10; policy accept",
              fmt::format("iifname != \"{}\" accept", input.tap),
              fmt::format("meta mark {} goto to_tls_gate", kToTlsGate),
              "ct status dnat goto to_tls_gate"});
  std::vector<std::string> in = quota;
  in.emplace_back("counter name in accept");
  text.chain("from_tls_gate", in);
  text.chain("metered_from_tls_gate",
             {"type filter hook output priority 10; policy accept",
              fmt::format("oifname \"{}\" ct status dnat goto from_tls_gate", input.tap)});
}

}  // namespace

MeterInput meter_input(const core::EgressStack& stack, const Wiring& wiring) {
  return {.caps = core::caps_of(stack),
          .tap = wiring.tap,
          .uplink = wiring.uplink,
          .tls_gate = wiring.tls_gate || core::checks_server_names(stack)};
}

std::string meter_script(const MeterInput& input, const Counters& counters) {
  NftText text;
  text.open_table(kMeterTable);
  text.line("counter out {{ packets {} bytes {}; }}", counters.packets_out, counters.bytes_out);
  text.line("counter in {{ packets {} bytes {}; }}", counters.packets_in, counters.bytes_in);
  text.line("counter capped {{ packets 0 bytes 0; }}");

  std::vector<std::string> deny{"counter name capped",
                                fmt::format("iifname != \"{}\" drop", input.tap),
                                log_statement(false, EgressLayer::policy)};
  for (std::string& answer : refusal()) deny.push_back(std::move(answer));
  text.chain("deny", deny);
  text.chain("over_bytes", {set_mark(EgressWord::byte_cap), "goto deny"});
  text.chain("over_connections", {set_mark(EgressWord::connection_cap), "goto deny"});
  // One statement counts for all who jump here.
  text.chain("counted",
             {fmt::format("ct count over {} goto over_connections", input.caps.connections)});
  // The mark is the rule that has just decided; without one it is a packet of a connection that is
  // still new because nobody has answered.
  text.chain("admit",
             {"jump counted", "meta mark != 0 " + log_statement(true, EgressLayer::policy)});

  // After the policy's chain, which drops what it does not allow.
  std::vector<std::string> body{"type filter hook forward priority 10; policy accept"};
  if (input.caps.bytes != 0) {
    text.line("quota all_bytes {{ over {} bytes used {} bytes; }}", input.caps.bytes,
              counters.bytes_out + counters.bytes_in);
    body.emplace_back("quota name all_bytes goto over_bytes");
  }
  if (input.tls_gate) meter_tls_gate(text, input);
  body.push_back(fmt::format("iifname \"{}\" ct state new jump admit", input.tap));
  body.push_back(fmt::format("iifname \"{}\" counter name out accept", input.tap));
  body.push_back(fmt::format("iifname \"{}\" counter name in accept", input.uplink));
  text.chain("metered", body);
  text.line("}}");
  return text.take();
}

}  // namespace firebreak::egress
