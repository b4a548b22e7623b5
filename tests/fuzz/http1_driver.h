// Drives one Http1Parser from fuzzer input and aborts when it breaks its contract. The first byte
// is the size of the pieces; the same bytes in one piece must give the same messages.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/http1.h"

namespace firebreak::fuzz {

inline void check_http1(bool holds) {
  if (!holds) std::abort();
}

// What was parsed, as text to compare.
inline std::string read_http1(wire::Http1Parser::Role role, std::string_view input,
                              std::size_t piece) {
  using Event = wire::Http1Parser::Event;
  const wire::Http1Limits limits{
      .max_head_bytes = 512, .max_headers = 8, .max_chunk_line = 40, .max_extension_bytes = 80};
  wire::Http1Parser parser(role, limits);
  std::string log;
  std::string buffer;
  for (;;) {
    const auto step = parser.step(buffer);
    if (!step) {
      check_http1(parser.error_status() >= 400 && parser.error_status() < 600);
      return log + "!" + step.error().message;
    }
    check_http1(step->consumed <= buffer.size());
    if (step->event == Event::head) {
      const wire::Http1Head& head = parser.head();
      check_http1(head.headers.size() <= limits.max_headers);
      check_http1(!(head.chunked && head.content_length));
      std::string out;
      // What was accepted can be sent on, and says the same.
      if (role == wire::Http1Parser::Role::request) {
        check_http1(
            wire::put_request_head(head.method, head.target, head.headers, out).has_value());
      } else {
        check_http1(wire::put_response_head(head.status, head.headers, out).has_value());
      }
      log += "[" + out + "]";
    }
    if (step->event == Event::body) {
      check_http1(!step->body.empty());
      log += step->body;
    }
    if (step->event == Event::end) {
      check_http1(parser.complete());
      log += "|" + std::to_string(parser.trailers().size());
      parser.next();
    }
    buffer.erase(0, step->consumed);
    if (step->event != Event::need_more) continue;
    check_http1(buffer.empty());
    if (input.empty()) return log;
    buffer = input.substr(0, piece);
    input.remove_prefix(buffer.size());
  }
}

inline void drive_http1(wire::Http1Parser::Role role, std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(input[0]) % 32;
  input.remove_prefix(1);
  check_http1(read_http1(role, input, piece) == read_http1(role, input, input.size() + 1));
}

}  // namespace firebreak::fuzz
