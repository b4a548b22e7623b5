#include "wire/http1.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace firebreak::wire {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kMaxMethod = 32;
constexpr std::size_t kUsualHeaders = 16;
// More digits could not be told from an overflow on the other side.
constexpr std::size_t kMaxLengthDigits = 18;
constexpr std::size_t kMaxChunkDigits = 15;

constexpr bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// One look at a table for each character of a head.
using CharSet = std::array<bool, 256>;

constexpr CharSet kTokenChars = [] {
  CharSet set{};
  for (int c = 0; c < 256; ++c) set[c] = is_alphanumeric(static_cast<char>(c));
  for (const char c : std::string_view("!#$%&'*+-.^_`|~"))
    set[static_cast<unsigned char>(c)] = true;
  return set;
}();

constexpr CharSet kFieldChars = [] {
  CharSet set{};
  for (int c = 0x20; c < 256; ++c) set[c] = c != 0x7f;
  set['\t'] = true;
  return set;
}();

bool all_in(const CharSet& set, std::string_view text) {
  return std::ranges::all_of(text, [&set](char c) { return set[static_cast<unsigned char>(c)]; });
}

// Whether one of the eight may be a control character (no false "no": a borrow can only raise the
// bit of a byte above one that has it).
bool may_have_control(std::uint64_t eight) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  const std::uint64_t below_space = (eight - kOnes * 0x20) & ~eight;
  const std::uint64_t del = eight ^ (kOnes * 0x7f);
  return ((below_space | ((del - kOnes) & ~del)) & kHigh) != 0;
}

// Of a header's value or a reason phrase: text and tabs, no control characters. Values may be long,
// and are mostly text: eight characters at a time.
bool is_field_text(std::string_view text) {
  for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t))) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data(), sizeof eight);
    if (may_have_control(eight) && !all_in(kFieldChars, text.substr(0, sizeof eight))) return false;
  }
  return all_in(kFieldChars, text);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_text(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_authority(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    if (is_alphanumeric(c)) return true;
    return std::string_view("-._~!$&'()*+,;=:[]%").find(c) != std::string_view::npos;
  });
}

template <class Each>
void for_each_part(std::string_view list, Each each) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const std::string_view part = trim(list.substr(0, comma));
    if (!part.empty()) each(part);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace

bool is_token(std::string_view text) {
  return !text.empty() && all_in(kTokenChars, text);
}

bool has_token(std::string_view list, std::string_view token) {
  bool found = false;
  for_each_part(list, [&](std::string_view part) { found = found || same_text(part, token); });
  return found;
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  for_each_part(list, [&](std::string_view part) { parts.emplace_back(part); });
  return parts;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

bool is_request_target(std::string_view text) {
  const bool form = text == "*" || text.starts_with('/') || text.starts_with("http://") ||
                    text.starts_with("https://");
  return form && std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

// ----------------------------------------------------------------------------------------------
// parsing

Result<> Http1Parser::refuse(int status, std::string message) {
  error_status_ = status;
  return fail(Code::invalid, std::move(message));
}

void Http1Parser::next() {
  state_ = State::start;
  line_.clear();
  head_bytes_ = 0;
  extension_bytes_ = 0;
  left_ = 0;
  empty_line_seen_ = false;
  head_ = {};
  trailers_.clear();
}

void Http1Parser::skip_body() {
  state_ = State::end;
}

Result<Http1Parser::Step> Http1Parser::step(std::string_view input) {
  switch (state_) {
    case State::fixed:
    case State::chunk:
    case State::until_close:
      return data(input);
    case State::end:
      return Step{.event = Event::end, .consumed = 0, .body = {}};
    default:
      return lines(input);
  }
}

Http1Parser::Step Http1Parser::data(std::string_view input) {
  if (input.empty()) return {};
  if (state_ == State::until_close)
    return {.event = Event::body, .consumed = input.size(), .body = input};
  const std::size_t size = std::min<std::uint64_t>(left_, input.size());
  left_ -= size;
  if (left_ == 0) state_ = state_ == State::chunk ? State::chunk_end : State::end;
  return {.event = Event::body, .consumed = size, .body = input.substr(0, size)};
}

// Takes lines until there is something to report.
Result<Http1Parser::Step> Http1Parser::lines(std::string_view input) {
  const std::size_t given = input.size();
  for (;;) {
    const State before = state_;
    const bool chunk_framing = before == State::chunk_size || before == State::chunk_end;
    const std::size_t limit = chunk_framing ? limits_.max_chunk_line : limits_.max_head_bytes;
    FB_TRY_ASSIGN(const auto line, take_line(input, limit));
    if (!line) return Step{.event = Event::need_more, .consumed = given, .body = {}};
    switch (before) {
      case State::start:
        FB_TRY(start_line(*line));
        break;
      case State::fields:
        if (line->empty()) {
          FB_TRY(head_complete());
        } else {
          FB_TRY(field_line(*line, head_.headers));
        }
        break;
      case State::chunk_size:
        FB_TRY(chunk_line(*line));
        break;
      case State::chunk_end:
        if (!line->empty()) FB_TRY(refuse(400, "a chunk does not end where its size says"));
        state_ = State::chunk_size;
        break;
      default:
        if (line->empty()) {
          state_ = State::end;
        } else {
          FB_TRY(field_line(*line, trailers_));
        }
        break;
    }
    line_.clear();
    Step step{.event = Event::need_more, .consumed = given - input.size(), .body = {}};
    if (before == State::fields && state_ != State::fields) {
      step.event = Event::head;
      return step;
    }
    if (state_ == State::end) {
      step.event = Event::end;
      return step;
    }
    if (state_ == State::chunk) {
      Step bytes = data(input);
      bytes.consumed += step.consumed;
      return bytes;
    }
  }
}

// The next line without its end: a view of `input` or, when it came in parts, of line_, where a
// part without an end is kept for the next call.
Result<std::optional<std::string_view>> Http1Parser::take_line(std::string_view& input,
                                                               std::size_t limit) {
  const bool chunk_framing = state_ == State::chunk_size || state_ == State::chunk_end;
  const auto newline = input.find('\n');
  const std::size_t size = newline == std::string_view::npos ? input.size() : newline + 1;
  const std::size_t before = chunk_framing ? line_.size() : head_bytes_;
  if (size > limit - std::min(before, limit)) {
    error_status_ = chunk_framing ? 400 : 431;
    return fail(Code::exhausted, chunk_framing ? "a chunk's size line is too long"
                                               : "the head of the message is too large");
  }
  std::string_view line = input.substr(0, size);
  input.remove_prefix(size);
  if (!chunk_framing) head_bytes_ += size;
  if (newline == std::string_view::npos || !line_.empty()) line = line_.append(line);
  if (newline == std::string_view::npos) return std::nullopt;
  if (!line.ends_with("\r\n")) {
    error_status_ = 400;
    return fail(Code::invalid, "a line does not end with CR LF");
  }
  line.remove_suffix(2);
  return line;
}

Result<> Http1Parser::start_line(std::string_view line) {
  if (line.empty()) {
    // RFC 9112 section 2.2: some clients send an empty line after a body.
    if (role_ == Role::response || empty_line_seen_) return refuse(400, "no start line");
    empty_line_seen_ = true;
    return {};
  }
  FB_TRY(role_ == Role::request ? request_line(line) : status_line(line));
  state_ = State::fields;
  return {};
}

Result<> Http1Parser::request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse(400, "the request line is not 'METHOD TARGET VERSION'");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || method.size() > kMaxMethod) return refuse(400, "bad request method");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.';
    return refuse(other ? 505 : 400, "the request's version is not HTTP/1.1 or HTTP/1.0");
  }
  if (method == "CONNECT") return refuse(501, "CONNECT is not supported");
  if (!is_request_target(target) || (target == "*" && method != "OPTIONS"))
    return refuse(400, "bad request target");
  head_.method = method;
  head_.target = target;
  head_.minor = version.back() - '0';
  return {};
}

Result<> Http1Parser::status_line(std::string_view line) {
  const bool version = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
  if (!version || line.size() < 12 || !is_digits(line.substr(9, 3)) || line[9] == '0' ||
      (line.size() > 12 && line[12] != ' ') || !is_field_text(line.substr(12))) {
    return refuse(400, "the status line is not 'HTTP/1.1 STATUS REASON'");
  }
  head_.minor = line[7] - '0';
  std::from_chars(line.data() + 9, line.data() + 12, head_.status);
  return {};
}

Result<> Http1Parser::field_line(std::string_view line, Headers& into) {
  if (line[0] == ' ' || line[0] == '\t') return refuse(400, "a header is folded over two lines");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return refuse(400, "bad header name");
  const std::string_view value = trim(line.substr(colon + 1));
  if (!is_field_text(value)) return refuse(400, "a header has control characters");
  if (into.size() >= limits_.max_headers) {
    error_status_ = 431;
    return fail(Code::exhausted, "the message has too many headers");
  }
  if (into.empty()) into.reserve(kUsualHeaders);
  into.push_back({to_lower(line.substr(0, colon)), std::string(value)});
  return {};
}

Result<> Http1Parser::head_complete() {
  FB_TRY(read_framing());
  if (role_ == Role::request) FB_TRY(check_request());
  choose_body();
  return {};
}

// Length, coding and connection options out of the headers.
Result<> Http1Parser::read_framing() {
  bool close = false;
  bool keep = false;
  bool upgrade_option = false;
  bool upgrade_header = false;
  for (const auto& [name, value] : head_.headers) {
    if (name == "content-length"sv) {
      if (head_.content_length || !is_digits(value) || value.size() > kMaxLengthDigits)
        return refuse(400, "bad or repeated content-length");
      std::uint64_t length = 0;
      std::from_chars(value.data(), value.data() + value.size(), length);
      head_.content_length = length;
    } else if (name == "transfer-encoding"sv) {
      if (head_.chunked || head_.minor == 0) return refuse(400, "bad transfer-encoding");
      if (!same_text(value, "chunked")) return refuse(501, "only chunked transfer is supported");
      head_.chunked = true;
    } else if (name == "connection"sv) {
      close = close || has_token(value, "close");
      keep = keep || has_token(value, "keep-alive");
      upgrade_option = upgrade_option || has_token(value, "upgrade");
    } else if (name == "upgrade"sv) {
      upgrade_header = true;
    }
  }
  if (head_.chunked && head_.content_length)
    return refuse(400, "both content-length and transfer-encoding");
  head_.keep_alive = !close && (head_.minor == 1 || keep);
  head_.upgrade = upgrade_option && upgrade_header && head_.minor == 1;
  return {};
}

Result<> Http1Parser::check_request() {
  std::size_t hosts = 0;
  for (const auto& [name, value] : head_.headers) {
    if (name == "host"sv) {
      if (++hosts > 1 || !is_authority(value)) return refuse(400, "bad or repeated host header");
    } else if (name == "expect"sv && head_.minor == 1) {
      if (!same_text(value, "100-continue")) return refuse(417, "unknown expectation");
      head_.expect_continue = true;
    }
  }
  if (hosts == 0 && head_.minor == 1) return refuse(400, "no host header");
  return {};
}

void Http1Parser::choose_body() {
  const int status = head_.status;
  const bool bodyless =
      role_ == Role::response && (status / 100 == 1 || status == 204 || status == 304);
  left_ = head_.content_length.value_or(0);
  if (bodyless) {
    state_ = State::end;
  } else if (head_.chunked) {
    state_ = State::chunk_size;
  } else if (head_.content_length || role_ == Role::request) {
    state_ = left_ == 0 ? State::end : State::fixed;
  } else {
    state_ = State::until_close;
  }
  if (state_ == State::until_close) head_.keep_alive = false;
}

Result<> Http1Parser::chunk_line(std::string_view line) {
  const auto digits = std::min(line.find(';'), line.size());
  std::uint64_t size = 0;
  const auto [end, ec] = std::from_chars(line.data(), line.data() + digits, size, 16);
  if (digits == 0 || digits > kMaxChunkDigits || ec != std::errc() || end != line.data() + digits)
    return refuse(400, "bad chunk size");
  if (!is_field_text(line.substr(digits))) return refuse(400, "bad chunk extension");
  extension_bytes_ += line.size() - digits;
  if (extension_bytes_ > limits_.max_extension_bytes) {
    error_status_ = 400;
    return fail(Code::exhausted, "too many chunk extensions");
  }
  left_ = size;
  state_ = size == 0 ? State::trailers : State::chunk;
  if (size == 0) head_bytes_ = 0;  // the trailers' own
  return {};
}

// ----------------------------------------------------------------------------------------------
// writing

namespace {

std::size_t size_of(const Headers& headers) {
  std::size_t size = 0;
  for (const auto& [name, value] : headers) size += name.size() + value.size() + 4;
  return size;
}

Result<> put_fields(const Headers& headers, std::string& out) {
  for (const auto& [name, value] : headers) {
    if (!is_token(name) || !is_field_text(value))
      return fail(Code::invalid, "a header has characters that cannot be sent", name);
    out.append(name).append(": ").append(value).append("\r\n");
  }
  return {};
}

Result<> put_headers(const Headers& headers, std::string& out) {
  out.reserve(out.size() + size_of(headers) + 2);
  FB_TRY(put_fields(headers, out));
  out += "\r\n";
  return {};
}

}  // namespace

Result<> put_request_head(std::string_view method, std::string_view target, const Headers& headers,
                          std::string& out) {
  return put_request_head(method, target, {}, headers, out);
}

Result<> put_request_head(std::string_view method, std::string_view target, const Headers& first,
                          const Headers& second, std::string& out) {
  if (!is_token(method) || !is_request_target(target))
    return fail(Code::invalid, "bad request method or target");
  out.reserve(out.size() + method.size() + target.size() + size_of(first) + size_of(second) + 16);
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
  FB_TRY(put_fields(first, out));
  return put_headers(second, out);
}

Result<> put_response_head(int status, const Headers& headers, std::string& out) {
  if (status < 100 || status > 999) return fail(Code::invalid, "bad response status");
  out.append("HTTP/1.1 ").append(std::to_string(status)).append(" ");
  out.append(reason_phrase(status)).append("\r\n");
  return put_headers(headers, out);
}

void put_chunk(std::string_view bytes, std::string& out) {
  std::array<char, 16> digits{};
  const auto [end, ec] = std::to_chars(digits.begin(), digits.end(), bytes.size(), 16);
  out.append(digits.begin(), end).append("\r\n").append(bytes).append("\r\n");
}

Result<> put_last_chunk(const Headers& trailers, std::string& out) {
  out += "0\r\n";
  return put_headers(trailers, out);
}

std::string_view reason_phrase(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 43> kPhrases{{
      {100, "Continue"},
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {203, "Non-Authoritative Information"},
      {204, "No Content"},
      {205, "Reset Content"},
      {206, "Partial Content"},
      {207, "Multi-Status"},
      {300, "Multiple Choices"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {402, "Payment Required"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
  }};
  const auto* const it =
      std::ranges::find(kPhrases, status, &decltype(kPhrases)::value_type::first);
  return it == kPhrases.end() ? std::string_view() : it->second;
}

}  // namespace firebreak::wire
