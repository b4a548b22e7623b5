#include "wire/websocket.h"

#include <algorithm>
#include <span>

#include <openssl/evp.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kMaxControl = 125;
constexpr std::string_view kKeySuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

// How many bytes a frame's header has, as far as its first two tell.
std::size_t header_size(std::string_view first_two) {
  const auto length = static_cast<std::uint8_t>(first_two[1]) & 0x7FU;
  const std::size_t masked = (static_cast<std::uint8_t>(first_two[1]) & 0x80U) != 0 ? 4 : 0;
  if (length == 126) return 4 + masked;
  if (length == 127) return 10 + masked;
  return 2 + masked;
}

bool is_close_code(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

std::string base64(std::span<const unsigned char> data) {
  std::string out(4 * ((data.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), data.data(),
                                   static_cast<int>(data.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

}  // namespace

Result<> WebSocketDecoder::refuse(WsClose code, std::string message) {
  error_code_ = code;
  return fail(code == WsClose::too_big ? Code::exhausted : Code::invalid, std::move(message));
}

Result<std::optional<WsEvent>> WebSocketDecoder::next(std::string_view& input) {
  while (!closed_) {
    if (!in_payload_) {
      if (!take_header(input)) return std::nullopt;
      FB_TRY(begin_frame());
    }
    take_payload(input);
    if (left_ > 0) return std::nullopt;
    in_payload_ = false;
    FB_TRY_ASSIGN(auto event, end_frame());
    if (event) return event;
  }
  input = {};
  return std::nullopt;
}

bool WebSocketDecoder::take_header(std::string_view& input) {
  for (;;) {
    const std::size_t want = header_.size() < 2 ? 2 : header_size(header_);
    const std::size_t size = std::min(want - header_.size(), input.size());
    header_.append(input.substr(0, size));
    input.remove_prefix(size);
    if (header_.size() < want) return false;
    if (header_size(header_) == want) return true;
  }
}

Result<> WebSocketDecoder::begin_frame() {
  const auto first = static_cast<std::uint8_t>(header_[0]);
  const auto second = static_cast<std::uint8_t>(header_[1]);
  const bool masked = (second & 0x80U) != 0;
  fin_ = (first & 0x80U) != 0;
  opcode_ = static_cast<WsOpcode>(first & 0x0FU);
  left_ = second & 0x7FU;
  if ((first & 0x70U) != 0) return refuse(WsClose::protocol, "reserved bits are set");
  if (masked != (from_ == From::client))
    return refuse(WsClose::protocol, masked ? "a server's frame is masked" : "no mask");
  if (left_ == 126) {
    left_ = get_u16(header_.data() + 2);
    if (left_ < 126) return refuse(WsClose::protocol, "a length is longer than needed");
  } else if (left_ == 127) {
    left_ = get_u64(header_.data() + 2);
    if (left_ < 65536 || left_ >> 63U != 0) return refuse(WsClose::protocol, "bad length");
  }
  if (masked) std::copy_n(header_.end() - 4, 4, mask_.begin());
  mask_at_ = 0;
  header_.clear();
  in_payload_ = true;
  switch (opcode_) {
    case WsOpcode::close:
    case WsOpcode::ping:
    case WsOpcode::pong:
      control_.clear();
      if (!fin_ || left_ > kMaxControl) return refuse(WsClose::protocol, "bad control frame");
      return {};
    case WsOpcode::continuation:
      if (!message_opcode_) return refuse(WsClose::protocol, "nothing to continue");
      break;
    case WsOpcode::text:
    case WsOpcode::binary:
      if (message_opcode_) return refuse(WsClose::protocol, "the last message is not complete");
      message_opcode_ = opcode_;
      break;
    default:
      return refuse(WsClose::protocol, "unknown opcode");
  }
  if (left_ > max_message_ - message_.size())
    return refuse(WsClose::too_big, "the message is too large");
  return {};
}

void WebSocketDecoder::take_payload(std::string_view& input) {
  std::string& into = is_control() ? control_ : message_;
  const std::size_t size = std::min<std::uint64_t>(left_, input.size());
  const std::size_t at = into.size();
  into.append(input.substr(0, size));
  input.remove_prefix(size);
  left_ -= size;
  if (from_ == From::server) return;
  for (std::size_t i = at; i < into.size(); ++i)
    into[i] = static_cast<char>(into[i] ^ mask_[mask_at_++ % 4]);
}

Result<std::optional<WsEvent>> WebSocketDecoder::end_frame() {
  if (opcode_ == WsOpcode::close) return close_event();
  if (is_control())
    return WsEvent{.opcode = opcode_, .data = std::exchange(control_, {}), .close_code = 0};
  if (!fin_) return std::nullopt;
  WsEvent event{.opcode = *message_opcode_, .data = std::exchange(message_, {}), .close_code = 0};
  message_opcode_.reset();
  if (event.opcode == WsOpcode::text && !is_utf8(event.data))
    FB_TRY(refuse(WsClose::bad_data, "a text message is not UTF-8"));
  return event;
}

Result<std::optional<WsEvent>> WebSocketDecoder::close_event() {
  closed_ = true;
  WsEvent event{.opcode = WsOpcode::close,
                .data = {},
                .close_code = static_cast<std::uint16_t>(WsClose::no_code)};
  if (control_.empty()) return event;
  if (control_.size() == 1) FB_TRY(refuse(WsClose::protocol, "half a close code"));
  event.close_code = get_u16(control_.data());
  event.data = control_.substr(2);
  if (!is_close_code(event.close_code)) FB_TRY(refuse(WsClose::protocol, "bad close code"));
  if (!is_utf8(event.data)) FB_TRY(refuse(WsClose::bad_data, "a close reason is not UTF-8"));
  return event;
}

void put_ws_frame(WsOpcode opcode, std::string_view payload, const std::optional<WsMask>& mask,
                  std::string& out, bool fin) {
  const unsigned mask_bit = mask ? 0x80U : 0U;
  const std::size_t size = payload.size();
  out.push_back(static_cast<char>((fin ? 0x80U : 0U) | static_cast<unsigned>(opcode)));
  if (size < 126) {
    out.push_back(static_cast<char>(mask_bit | size));
  } else if (size < 65536) {
    out.push_back(static_cast<char>(mask_bit | 126U));
    put_u16(out, static_cast<std::uint16_t>(size));
  } else {
    out.push_back(static_cast<char>(mask_bit | 127U));
    put_u64(out, size);
  }
  if (!mask) {
    out.append(payload);
    return;
  }
  for (const std::byte b : *mask) out.push_back(static_cast<char>(b));
  const std::size_t at = out.size();
  out.append(payload);
  for (std::size_t i = 0; i < size; ++i)
    out[at + i] = static_cast<char>(out[at + i] ^ static_cast<char>((*mask)[i % 4]));
}

std::string ws_close_payload(std::uint16_t code, std::string_view reason) {
  std::string out;
  put_u16(out, code);
  reason = reason.substr(0, kMaxControl - 2);
  // Not in the middle of a character.
  while (!reason.empty() && !is_utf8(reason)) reason.remove_suffix(1);
  out.append(reason);
  return out;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // Number of bytes that follow, and the bounds of the first of them (no overlong forms, no
    // surrogates, nothing above U+10FFFF).
    std::size_t more = 0;
    std::uint8_t low = 0x80;
    std::uint8_t high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      const auto byte = static_cast<std::uint8_t>(text[i + k]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xBF;
    }
    i += more + 1;
  }
  return true;
}

bool is_websocket_key(std::string_view key) {
  const auto is_base64 = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  };
  return key.size() == 24 && key.ends_with("==") &&
         std::ranges::all_of(key.substr(0, 22), is_base64);
}

std::string make_websocket_key() {
  std::array<unsigned char, 16> nonce{};
  sys::random_bytes(std::as_writable_bytes(std::span(nonce)));
  return base64(nonce);
}

std::string websocket_accept_key(std::string_view key) {
  const std::string text = std::string(key).append(kKeySuffix);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  return base64(std::span(digest).first(size));
}

}  // namespace firebreak::wire
