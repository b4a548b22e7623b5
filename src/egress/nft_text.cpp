#include "egress/nft_text.h"

#include "egress/ruleset.h"

namespace firebreak::egress {

std::string set_mark(core::EgressWord word) {
  return fmt::format("meta mark set {}", static_cast<std::uint32_t>(word));
}

std::string log_statement(bool allowed, core::EgressLayer layer) {
  return fmt::format(
      "limit rate 100/second burst 200 packets log prefix \"{} {}\" group {} snaplen 128",
      allowed ? 'a' : 'd', to_string(layer), kLogGroup);
}

std::vector<std::string> refusal() {
  return {"meta l4proto tcp reject with tcp reset", "reject with icmpx admin-prohibited"};
}

}  // namespace firebreak::egress
