// DNS queries of a guest, as datagrams and as a TCP stream: in any pieces the same messages, and
// whatever was read can be answered within the limits, with the question echoed to the byte.
#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "wire/dns.h"

namespace {

using namespace firebreak;
using namespace firebreak::wire;

void check(bool holds) {
  if (!holds) std::abort();
}

void answer(const DnsQuery& query, const DnsAnswer& answer, std::size_t limit) {
  const std::string message = build_dns_answer(query, answer, limit);
  check(message.size() >= 12 && message.size() <= limit);
  check(get_u16(message.data()) == query.id);
  check(message.compare(12, query.question.size(), query.question) == 0);
  check(!parse_dns_query(message));  // an answer is never taken for a query
}

void drive(std::string_view message) {
  const auto query = parse_dns_query(message);
  if (!query) return;
  check(message.substr(12).starts_with(query->question));
  check(query->name.size() <= 4 * 255UL);
  if (query->is_host_name) check(!query->name.contains('\\') && query->name.size() <= 253);
  if (query->rcode == DnsRcode::ok) check(!query->question.empty());
  const std::size_t limit = query->udp_limit();
  check(limit >= 512 && limit <= kMaxDnsUdpAnswer);
  answer(*query, {.rcode = query->rcode}, limit);
  answer(*query,
         {.rcode = DnsRcode::refused,
          .error = DnsExtendedError{DnsErrorCode::blocked, std::string(600, 'w')}},
         limit);
  if (query->question.empty()) return;
  const std::string address(query->type == kDnsAaaa ? 16 : 4, '\x7f');
  const DnsAnswer many{.addresses = std::vector<std::string>(64, address), .ttl = 60};
  answer(*query, many, limit);
  answer(*query, many, kMaxDnsMessage);
}

std::vector<std::string> unframe(std::string_view bytes, std::size_t piece) {
  std::vector<std::string> out;
  DnsUnframer unframer;
  while (!bytes.empty() && !unframer.failed()) {
    std::string_view input = bytes.substr(0, piece);
    bytes.remove_prefix(input.size());
    while (auto message = unframer.next(input)) out.push_back(*message);
    check(input.empty() || unframer.failed());
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  drive(input);
  const auto messages = unframe(input, size + 1);
  check(messages == unframe(input, 1 + size % 7));
  for (const std::string& message : messages) drive(message);
  return 0;
}
