// DNS messages (RFC 1035, 6891, 8914) without I/O, for the server side: a guest's query in, our
// answer out. The guest is hostile: what is not one plain question is refused. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firebreak::wire {

enum class DnsRcode : std::uint8_t {
  ok = 0,
  format_error = 1,
  server_failure = 2,
  no_such_name = 3,
  not_implemented = 4,
  refused = 5,
  bad_version = 16  // of EDNS; its upper bits travel in the OPT record
};

// Record types we tell apart; a query may ask for any number.
inline constexpr std::uint16_t kDnsA = 1;
inline constexpr std::uint16_t kDnsAaaa = 28;
inline constexpr std::uint16_t kDnsClassIn = 1;

// Reasons of an extended error (RFC 8914 section 4).
enum class DnsErrorCode : std::uint16_t {
  other = 0,
  blocked = 15,     // by the operator's policy
  prohibited = 18,  // this client may not
  not_supported = 21,
  no_reachable_authority = 22
};

struct DnsExtendedError {
  DnsErrorCode code = DnsErrorCode::other;
  std::string text;
};

inline constexpr std::size_t kMaxDnsQuery = 1232;
inline constexpr std::size_t kMaxDnsMessage = 65535;  // over TCP
// What travels unfragmented everywhere; a client that says it takes more gets no more.
inline constexpr std::size_t kMaxDnsUdpAnswer = 1232;

struct DnsQuery {
  std::uint16_t id = 0;
  // Other than ok: nothing below need be looked at; answer with it.
  DnsRcode rcode = DnsRcode::ok;
  std::uint8_t opcode = 0;
  bool recursion_desired = false;
  bool checking_disabled = false;
  // The question as it came, to be echoed: case is kept, clients compare it. Empty: unreadable.
  std::string question;
  // Lower case, dots between labels, none at the end; the root is "". Bytes that no host name has
  // are written as \DDD, so that two different names never look the same.
  std::string name;
  // Letters, digits, '-' and '_' only, and not an address in disguise (last label all digits).
  bool is_host_name = false;
  std::uint16_t type = 0;
  std::uint16_t klass = 0;
  bool has_edns = false;
  bool dnssec_ok = false;
  std::uint16_t udp_size = 512;  // as the client says

  std::size_t udp_limit() const;
};

// nullopt: nothing to answer to (no whole header, or itself an answer).
std::optional<DnsQuery> parse_dns_query(std::string_view message);

struct DnsAnswer {
  DnsRcode rcode = DnsRcode::ok;
  // In network order: 4 bytes each for an A question, 16 for AAAA; all under the name that was
  // asked for. None with ok is "the name exists, this type does not".
  std::vector<std::string> addresses;
  std::uint32_t ttl = 0;
  std::optional<DnsExtendedError> error;  // sent only to clients with EDNS
};

// At most `limit` bytes (512 or more). Records that do not fit are left out and the truncation bit
// says so; the text of an extended error is cut before that.
std::string build_dns_answer(const DnsQuery& query, const DnsAnswer& answer, std::size_t limit);

// Messages on a TCP connection: two bytes of length before each.
std::string frame_dns(std::string_view message);
// Collects bytes; next() gives whole messages. At most one message is held (kMaxDnsQuery): a longer
// one, or an empty one, ends the connection.
class DnsUnframer {
 public:
  // Takes bytes from the front of `input`; nullopt: took all and needs more, or has failed.
  std::optional<std::string> next(std::string_view& input);
  bool failed() const { return failed_; }
  bool empty() const { return buffer_.empty(); }

 private:
  std::string buffer_;
  bool failed_ = false;
};

}  // namespace firebreak::wire
