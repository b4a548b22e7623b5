#include "wire/dns.h"

#include <algorithm>

#include "base/text.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMinUdp = 512;
constexpr std::uint16_t kOpt = 41;
constexpr std::uint16_t kOptionError = 15;
constexpr std::size_t kOptSize = 11;         // without options
constexpr std::size_t kErrorOption = 6;      // without its text
constexpr std::uint16_t kPointer = 0xc00cU;  // to the question's name, right behind the header

constexpr std::uint16_t kAnswerBit = 0x8000;
constexpr std::uint16_t kTruncatedBit = 0x0200;
constexpr std::uint16_t kDesiredBit = 0x0100;
constexpr std::uint16_t kAvailableBit = 0x0080;
constexpr std::uint16_t kCheckingDisabledBit = 0x0010;
constexpr std::uint32_t kDnssecOkBit = 0x8000;

// Reads from the front and never past the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool has(std::size_t n) const { return bytes_.size() >= n; }
  bool at_end() const { return bytes_.empty(); }
  std::string_view take(std::size_t n) {
    const std::string_view out = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return out;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(take(1)[0]); }
  std::uint16_t u16() { return get_u16(take(2).data()); }
  std::uint32_t u32() { return get_u32(take(4).data()); }

 private:
  std::string_view bytes_;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Of a name in lower case.
bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

void append_label(std::string_view label, std::string& name) {
  if (!name.empty()) name += '.';
  for (const char raw : label) {
    const char c = lower(raw);
    if (is_host_char(c)) {
      name += c;
      continue;
    }
    const auto value = static_cast<unsigned char>(c);
    name += '\\';
    name += static_cast<char>('0' + value / 100);
    name += static_cast<char>('0' + value / 10 % 10);
    name += static_cast<char>('0' + value % 10);
  }
}

bool is_host_name(std::string_view name) {
  if (name.empty() || name.contains('\\')) return false;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return !std::ranges::all_of(last, is_digit);
}

// A pointer has nothing to point to in a query: before its only name there is just the header. So
// a length above 63 is an error, and there are no loops to look for.
bool take_name(Reader& in, std::string& name) {
  std::size_t total = 1;
  for (;;) {
    if (!in.has(1)) return false;
    const std::size_t length = in.u8();
    if (length == 0) return true;
    total += 1 + length;
    if (length > kMaxLabel || total > kMaxName || !in.has(length)) return false;
    append_label(in.take(length), name);
  }
}

bool take_question(Reader& in, std::string_view all, DnsQuery& query) {
  if (!take_name(in, query.name) || !in.has(4)) return false;
  query.type = in.u16();
  query.klass = in.u16();
  std::size_t end = kHeader;
  while (all[end] != 0) end += 1 + static_cast<unsigned char>(all[end]);
  query.question = all.substr(kHeader, end + 1 + 4 - kHeader);
  query.is_host_name = is_host_name(query.name);
  return true;
}

// The only record a query may carry. Its options (cookies, client subnet, padding) are checked for
// form and not used: nothing of them goes upstream.
bool take_opt(Reader& in, DnsQuery& query) {
  if (!in.has(kOptSize) || in.u8() != 0 || in.u16() != kOpt) return false;
  query.udp_size = in.u16();
  const std::uint32_t flags = in.u32();
  const std::size_t length = in.u16();
  if (!in.has(length)) return false;
  Reader options(in.take(length));
  while (!options.at_end()) {
    if (!options.has(4)) return false;
    options.u16();
    const std::size_t size = options.u16();
    if (!options.has(size)) return false;
    options.take(size);
  }
  query.has_edns = true;
  query.dnssec_ok = (flags & kDnssecOkBit) != 0;
  if ((flags >> 16 & 0xffU) != 0) query.rcode = DnsRcode::bad_version;
  return true;
}

// At most `most` bytes, cut between characters.
std::string_view cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80) --most;
  return text.substr(0, most);
}

void put_opt(const DnsQuery& query, const DnsAnswer& answer, std::size_t limit, std::string& out) {
  const auto rcode = static_cast<std::uint32_t>(answer.rcode);
  out += '\0';
  put_u16(out, kOpt);
  put_u16(out, kMaxDnsQuery);
  put_u32(out, rcode >> 4 << 24 | (query.dnssec_ok ? kDnssecOkBit : 0U));
  const std::size_t room = limit - std::min(limit, out.size() + 2);
  if (!answer.error || room < kErrorOption) {
    put_u16(out, 0);
    return;
  }
  const std::string_view text = cut_text(answer.error->text, room - kErrorOption);
  put_u16(out, static_cast<std::uint16_t>(kErrorOption + text.size()));
  put_u16(out, kOptionError);
  put_u16(out, static_cast<std::uint16_t>(2 + text.size()));
  put_u16(out, static_cast<std::uint16_t>(answer.error->code));
  out += text;
}

}  // namespace

std::size_t DnsQuery::udp_limit() const {
  if (!has_edns) return kMinUdp;
  return std::clamp<std::size_t>(udp_size, kMinUdp, kMaxDnsUdpAnswer);
}

std::optional<DnsQuery> parse_dns_query(std::string_view message) {
  if (message.size() < kHeader) return std::nullopt;
  Reader in(message);
  DnsQuery query;
  query.id = in.u16();
  const std::uint16_t flags = in.u16();
  if ((flags & kAnswerBit) != 0) return std::nullopt;
  query.opcode = static_cast<std::uint8_t>(flags >> 11 & 0xfU);
  query.recursion_desired = (flags & kDesiredBit) != 0;
  query.checking_disabled = (flags & kCheckingDisabledBit) != 0;
  if (query.opcode != 0) {
    query.rcode = DnsRcode::not_implemented;
    return query;
  }
  query.rcode = DnsRcode::format_error;
  const std::uint16_t questions = in.u16();
  const std::uint16_t answers = in.u16();
  const std::uint16_t authorities = in.u16();
  const std::uint16_t additional = in.u16();
  if (message.size() > kMaxDnsQuery || (flags & kTruncatedBit) != 0 || questions != 1 ||
      answers != 0 || authorities != 0 || additional > 1)
    return query;
  if (!take_question(in, message, query)) return query;
  query.rcode = DnsRcode::ok;
  if ((additional == 1 && !take_opt(in, query)) || !in.at_end())
    query.rcode = DnsRcode::format_error;
  return query;
}

std::string build_dns_answer(const DnsQuery& query, const DnsAnswer& answer, std::size_t limit) {
  limit = std::clamp(limit, kMinUdp, kMaxDnsMessage);
  const std::size_t opt = query.has_edns ? kOptSize : 0;
  std::string records;
  std::uint16_t count = 0;
  bool truncated = false;
  for (const std::string& address : answer.addresses) {
    const std::size_t used = kHeader + query.question.size() + records.size() + opt;
    if (used + 12 + address.size() > limit) {
      truncated = true;
      break;
    }
    put_u16(records, kPointer);
    put_u16(records, address.size() == 4 ? kDnsA : kDnsAaaa);
    put_u16(records, kDnsClassIn);
    put_u32(records, answer.ttl);
    put_u16(records, static_cast<std::uint16_t>(address.size()));
    records += address;
    ++count;
  }

  std::string out;
  put_u16(out, query.id);
  auto flags = static_cast<std::uint16_t>(kAnswerBit | query.opcode << 11 | kAvailableBit |
                                          (static_cast<unsigned>(answer.rcode) & 0xfU));
  if (truncated) flags |= kTruncatedBit;
  if (query.recursion_desired) flags |= kDesiredBit;
  if (query.checking_disabled) flags |= kCheckingDisabledBit;
  put_u16(out, flags);
  put_u16(out, query.question.empty() ? 0 : 1);
  put_u16(out, count);
  put_u16(out, 0);
  put_u16(out, query.has_edns ? 1 : 0);
  out += query.question;
  out += records;
  if (query.has_edns) put_opt(query, answer, limit, out);
  return out;
}

std::string frame_dns(std::string_view message) {
  std::string out;
  put_u16(out, static_cast<std::uint16_t>(message.size()));
  out += message;
  return out;
}

std::optional<std::string> DnsUnframer::next(std::string_view& input) {
  while (!failed_) {
    std::size_t wanted = 2;
    if (buffer_.size() >= 2) {
      const std::size_t length = get_u16(buffer_.data());
      failed_ = length == 0 || length > kMaxDnsQuery;
      wanted += length;
    }
    if (failed_ || input.empty()) break;
    const std::size_t taken = std::min(wanted - buffer_.size(), input.size());
    buffer_ += input.substr(0, taken);
    input.remove_prefix(taken);
    if (wanted > 2 && buffer_.size() == wanted) {
      std::string message = buffer_.substr(2);
      buffer_.clear();
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace firebreak::wire
