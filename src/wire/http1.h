// HTTP/1.1 messages without I/O: strict parsing of heads and bodies within limits, and writing
// them. The peer is an unknown client or a hostile guest; what could be read in two ways (request
// smuggling) is refused. Owned by its connection; single thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/h2_session.h"

namespace firebreak::wire {

struct Http1Limits {
  std::size_t max_head_bytes = 64UL * 1024;  // start line and headers; trailers have the same again
  std::size_t max_headers = 128;
  std::size_t max_chunk_line = 256;               // a chunk's size and its extensions
  std::size_t max_extension_bytes = 16UL * 1024;  // of all chunks of a message
};

struct Http1Head {
  std::string method;  // request
  std::string target;  // request, as received
  int status = 0;      // response
  int minor = 1;       // HTTP/1.minor
  Headers headers;     // names in lower case, in order

  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;        // as the peer asks, or the version implies
  bool upgrade = false;          // "connection: upgrade" and an upgrade header
  bool expect_continue = false;  // request
};

// Reads one message after the other from bytes its owner buffers.
class Http1Parser {
 public:
  enum class Role { request, response };
  enum class Event {
    need_more,  // everything given was consumed
    head,       // head() is complete
    body,       // `body` points into the input
    end         // the message is complete; trailers() are what followed the last chunk
  };
  struct Step {
    Event event = Event::need_more;
    std::size_t consumed = 0;  // bytes of the input the next call must not see again
    std::string_view body;
  };

  Http1Parser(Role role, const Http1Limits& limits) : role_(role), limits_(limits) {}

  // An error ends the connection; error_status() is what a server answers before.
  Result<Step> step(std::string_view input);
  // The peer closed. True: that was the end of a body without a length, or between two messages.
  bool at_end() const { return state_ == State::until_close || idle(); }
  // No byte of the next message has been seen.
  bool idle() const { return state_ == State::start && line_.empty() && head_bytes_ == 0; }
  // The message has ended, whether `end` was reported or not.
  bool complete() const { return state_ == State::end; }
  // Response, after `head`: the request was a HEAD, so no body follows whatever the head says.
  void skip_body();
  // After `end`: the next message.
  void next();

  const Http1Head& head() const { return head_; }
  Http1Head take_head() { return std::move(head_); }
  const Headers& trailers() const { return trailers_; }
  int error_status() const { return error_status_; }

 private:
  enum class State {
    start,
    fields,
    fixed,
    until_close,
    chunk_size,
    chunk,
    chunk_end,
    trailers,
    end
  };

  Result<> refuse(int status, std::string message);
  Result<std::optional<std::string_view>> take_line(std::string_view& input, std::size_t limit);
  Result<> start_line(std::string_view line);
  Result<> request_line(std::string_view line);
  Result<> status_line(std::string_view line);
  Result<> field_line(std::string_view line, Headers& into);
  Result<> head_complete();
  Result<> read_framing();
  Result<> check_request();
  void choose_body();
  Result<> chunk_line(std::string_view line);
  Result<Step> lines(std::string_view input);
  Step data(std::string_view input);

  Role role_;
  Http1Limits limits_;
  State state_ = State::start;
  std::string line_;  // the part of a line that came with earlier input
  std::size_t head_bytes_ = 0;
  std::size_t extension_bytes_ = 0;
  std::uint64_t left_ = 0;  // of the body or of the chunk
  bool empty_line_seen_ = false;
  Http1Head head_;
  Headers trailers_;
  int error_status_ = 400;
};

// Whether text may be a request's target: a path with its query, "*", or an absolute http URL; no
// spaces, no control characters, ASCII only.
bool is_request_target(std::string_view text);
bool is_token(std::string_view text);
// Whether a comma-separated list has the token, in any case.
bool has_token(std::string_view list, std::string_view token);
// The parts of a comma-separated list, trimmed, without empty ones.
std::vector<std::string> split_list(std::string_view list);
std::string to_lower(std::string_view text);

// Code::invalid when a header has characters that would end it early (response splitting).
Result<> put_request_head(std::string_view method, std::string_view target, const Headers& headers,
                          std::string& out);
// The same with two lists, one after the other.
Result<> put_request_head(std::string_view method, std::string_view target, const Headers& first,
                          const Headers& second, std::string& out);
Result<> put_response_head(int status, const Headers& headers, std::string& out);
// Not for an empty chunk: that would be the last one.
void put_chunk(std::string_view bytes, std::string& out);
Result<> put_last_chunk(const Headers& trailers, std::string& out);
std::string_view reason_phrase(int status);

}  // namespace firebreak::wire
