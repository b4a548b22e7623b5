// For tests of what reads a ClientHello: messages and records, made by hand.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"

namespace firebreak::wire {

inline std::string tls_list16(std::string_view content) {
  std::string out;
  put_u16(out, static_cast<std::uint16_t>(content.size()));
  return out += content;
}

inline std::string tls_extension(std::uint16_t type, std::string_view content) {
  std::string out;
  put_u16(out, type);
  return out += tls_list16(content);
}

inline std::string server_name_extension(std::string_view name) {
  return tls_extension(0, tls_list16(std::string(1, '\0') + tls_list16(name)));
}

inline std::string tls_message(char type, std::string_view body) {
  std::string out(1, type);
  out += static_cast<char>(body.size() >> 16);
  put_u16(out, static_cast<std::uint16_t>(body.size()));
  return out += body;
}

// A ClientHello with these extensions (none: without their list), as a handshake message.
inline std::string hello_message(std::string_view extensions) {
  std::string body("\x03\x03", 2);
  body += std::string(32, 'r');
  body += std::string(1, '\x20') + std::string(32, 's');
  body += tls_list16(std::string("\x13\x01\x13\x02", 4));
  body += std::string("\x01\x00", 2);
  if (!extensions.empty()) body += tls_list16(extensions);
  return tls_message(1, body);
}

inline std::string tls_record(char type, std::string_view payload) {
  std::string out(1, type);
  out += std::string("\x03\x01", 2);
  return out += tls_list16(payload);
}

// The message in records of `size` bytes each.
inline std::string tls_records(std::string_view message, std::size_t size = 16384) {
  std::string out;
  for (std::size_t at = 0; at < message.size(); at += size)
    out += tls_record(22, message.substr(at, size));
  return out;
}

inline std::string client_hello(std::string_view name) {
  return tls_records(hello_message(tls_extension(43, "\x02\x03\x04") + server_name_extension(name) +
                                   tls_extension(16, "x")));
}

}  // namespace firebreak::wire
