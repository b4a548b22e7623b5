#include "wire/client_hello.h"

#include <algorithm>
#include <expected>
#include <optional>

#include "base/text.h"

namespace firebreak::wire {

namespace {

constexpr std::uint8_t kAlert = 21;
constexpr std::uint8_t kHandshake = 22;
constexpr std::uint8_t kChangeCipherSpec = 20;
constexpr std::uint8_t kApplicationData = 23;
constexpr std::uint8_t kMajorVersion = 3;  // of every record since SSL 3
constexpr std::size_t kRecordHeader = 5;
constexpr std::size_t kMaxRecord = 16UL * 1024;
constexpr std::size_t kMaxSealedRecord = kMaxRecord + 2048;
constexpr std::uint8_t kClientHello = 1;
constexpr std::uint8_t kServerHello = 2;
constexpr std::size_t kMessageHeader = 4;
constexpr std::size_t kRandomAt = kMessageHeader + 2;
constexpr std::size_t kRandom = 32;
constexpr std::size_t kMaxSessionId = 32;
constexpr std::uint16_t kServerNameExtension = 0;
constexpr std::uint8_t kHostName = 0;
constexpr std::size_t kMaxName = 255;

// The random of a ServerHello that is a HelloRetryRequest (RFC 8446 section 4.1.3).
constexpr std::string_view kRetryRandom =
    "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
    "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";
static_assert(kRetryRandom.size() == kRandom);

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

std::size_t message_length(std::string_view header) {
  return std::size_t{byte_at(header, 1)} << 16 | get_u16(header.data() + 2);
}

// Takes fields from the front; once one does not fit, it has failed and all others are empty.
class Fields {
 public:
  explicit Fields(std::string_view in) : in_(in) {}

  std::string_view bytes(std::size_t size) {
    if (in_.size() < size) {
      failed_ = true;
      in_ = {};
      return {};
    }
    const std::string_view out = in_.substr(0, size);
    in_.remove_prefix(size);
    return out;
  }
  std::uint8_t u8() {
    const std::string_view at = bytes(1);
    return at.empty() ? std::uint8_t{0} : byte_at(at, 0);
  }
  std::uint16_t u16() {
    const std::string_view at = bytes(2);
    return at.empty() ? std::uint16_t{0} : get_u16(at.data());
  }
  std::string_view list8() { return bytes(u8()); }
  std::string_view list16() { return bytes(u16()); }
  bool at_end() const { return in_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view in_;
  bool failed_ = false;
};

bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

using Name = std::expected<std::string, HelloFault>;

Name read_name_list(std::string_view extension) {
  Fields outer(extension);
  Fields list(outer.list16());
  if (outer.failed() || !outer.at_end() || list.at_end())
    return std::unexpected(HelloFault::malformed);
  const std::uint8_t type = list.u8();
  const std::string_view name = list.list16();
  if (list.failed()) return std::unexpected(HelloFault::malformed);
  if (!list.at_end()) return std::unexpected(HelloFault::two_names);
  if (type != kHostName || name.empty() || name.size() > kMaxName ||
      !std::ranges::all_of(name, name_character))
    return std::unexpected(HelloFault::malformed);
  return std::string(name);
}

Name read_extensions(std::string_view bytes) {
  std::optional<std::string> name;
  Fields extensions(bytes);
  while (!extensions.at_end()) {
    const std::uint16_t type = extensions.u16();
    const std::string_view content = extensions.list16();
    if (extensions.failed()) return std::unexpected(HelloFault::malformed);
    if (type != kServerNameExtension) continue;
    if (name) return std::unexpected(HelloFault::two_names);
    Name read = read_name_list(content);
    if (!read) return read;
    name = *std::move(read);
  }
  if (!name) return std::unexpected(HelloFault::no_name);
  return *std::move(name);
}

Name read_hello(std::string_view body) {
  Fields fields(body);
  const std::string_view version = fields.bytes(2);
  (void)fields.bytes(kRandom);
  const std::string_view session = fields.list8();
  const std::string_view suites = fields.list16();
  const std::string_view compressions = fields.list8();
  if (fields.failed() || byte_at(version, 0) != kMajorVersion || session.size() > kMaxSessionId ||
      suites.empty() || suites.size() % 2 != 0 || compressions.empty())
    return std::unexpected(HelloFault::malformed);
  if (fields.at_end()) return std::unexpected(HelloFault::no_name);
  const std::string_view extensions = fields.list16();
  if (fields.failed() || !fields.at_end()) return std::unexpected(HelloFault::malformed);
  return read_extensions(extensions);
}

}  // namespace

std::string_view to_string(HelloFault fault) {
  switch (fault) {
    case HelloFault::not_tls:
      return "what came is not TLS";
    case HelloFault::malformed:
      return "the ClientHello is malformed";
    case HelloFault::too_long:
      return "the ClientHello is too long";
    case HelloFault::no_name:
      return "the ClientHello names no server";
    case HelloFault::two_names:
      return "the ClientHello names two servers";
  }
  return "?";
}

void ClientHelloReader::refuse(HelloFault fault) {
  state_ = State::refused;
  fault_ = fault;
}

ClientHelloReader::State ClientHelloReader::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ == State::more) {
    std::size_t taken = 1;
    if (header_ < kRecordHeader) {
      header_byte(byte_at(bytes, 0));
    } else {
      taken = std::min(left_, bytes.size());
      payload(bytes.substr(0, taken));
    }
    bytes.remove_prefix(taken);
    seen_ += taken;
    if (state_ == State::more && seen_ >= kMaxClientHelloBytes) refuse(HelloFault::too_long);
  }
  return state_;
}

// Each byte is looked at as it comes, so that what is no TLS is refused with its first.
void ClientHelloReader::header_byte(std::uint8_t byte) {
  switch (header_++) {
    case 0:
      skipped_ = byte == kChangeCipherSpec || byte == kApplicationData || byte == kAlert;
      // A message that was begun is not interrupted.
      if (byte != kHandshake && (which_ == Which::first || !skipped_ || !message_.empty()))
        refuse(message_.empty() ? HelloFault::not_tls : HelloFault::malformed);
      return;
    case 1:
      if (byte != kMajorVersion) refuse(HelloFault::not_tls);
      return;
    case 2:  // any minor version: nobody reads it
      return;
    case 3:
      left_ = std::size_t{byte} << 8;
      return;
    default:
      left_ += byte;
      if (left_ == 0 || left_ > (skipped_ ? kMaxSealedRecord : kMaxRecord))
        refuse(HelloFault::malformed);
  }
}

void ClientHelloReader::payload(std::string_view bytes) {
  left_ -= bytes.size();
  if (left_ == 0) header_ = 0;
  if (skipped_) return;
  message_ += bytes;
  if (byte_at(message_, 0) != kClientHello) {
    refuse(HelloFault::not_tls);
    return;
  }
  if (message_.size() < kMessageHeader) return;
  const std::size_t length = message_length(message_);
  if (length > kMaxClientHello) {
    refuse(HelloFault::too_long);
    return;
  }
  if (message_.size() < kMessageHeader + length) return;
  // Another message in the same record: no client sends one, and who knows who would read it.
  if (message_.size() > kMessageHeader + length || left_ > 0) {
    refuse(HelloFault::malformed);
    return;
  }
  Name name = read_hello(std::string_view(message_).substr(kMessageHeader));
  if (!name) {
    refuse(name.error());
    return;
  }
  name_ = *std::move(name);
  state_ = State::done;
}

ServerAnswerReader::State ServerAnswerReader::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ == State::more) {
    if (record_.size() < kRecordHeader) {
      record_ += bytes[0];
      bytes.remove_prefix(1);
      if (record_.size() < kRecordHeader) continue;
      const std::uint8_t type = byte_at(record_, 0);
      left_ = get_u16(record_.data() + 3);
      // Old servers warn first; whatever else is not an answer asks for nothing.
      if ((type != kHandshake && type != kAlert) || left_ == 0) state_ = State::other;
      continue;
    }
    const std::size_t taken = std::min(left_, bytes.size());
    if (byte_at(record_, 0) == kHandshake) message_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    left_ -= taken;
    if (left_ == 0) record_.clear();
    if (!message_.empty() && byte_at(message_, 0) != kServerHello) state_ = State::other;
    if (state_ == State::more && message_.size() >= kRandomAt + kRandom) {
      const bool retry = std::string_view(message_).substr(kRandomAt, kRandom) == kRetryRandom;
      state_ = retry ? State::retry : State::other;
    }
  }
  return state_;
}

}  // namespace firebreak::wire
