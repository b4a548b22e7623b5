// HTTP/1.1 to an application: one exchange after the other over one stream.
#include <algorithm>
#include <array>

#include "net/handed_over_stream.h"
#include "net/upstream.h"
#include "wire/http1.h"

namespace firebreak::net {
namespace {

using wire::Http1Parser;

constexpr int kMaxInterim = 16;                  // 1xx answers before the real one
constexpr std::size_t kMaxPiece = 256UL * 1024;  // of a body, in one read()
constexpr std::array<std::string_view, 3> kBodyMethods{"POST", "PUT", "PATCH"};
constexpr std::array<std::string_view, 6> kHopByHop{
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"};

// What the answer's Connection header names belongs to the connection as well.
wire::Headers end_to_end(wire::Headers headers, bool upgraded) {
  std::vector<std::string> named;
  for (const auto& [name, value] : headers) {
    if (name != "connection") continue;
    for (const std::string& token : wire::split_list(value)) named.push_back(wire::to_lower(token));
  }
  std::erase_if(headers, [&](const wire::HeaderField& field) {
    if (upgraded && field.name == "upgrade") return false;
    return std::ranges::find(kHopByHop, field.name) != kHopByHop.end() ||
           std::ranges::find(named, field.name) != named.end();
  });
  return headers;
}

class Connection : public Http1Upstream {
 public:
  explicit Connection(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  ~Connection() override {
    if (stream_) stream_->close();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Task<Result<>> begin(const UpstreamRequest& request, Deadline deadline) override;
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override;
  Task<Result<>> finish(Deadline deadline) override;
  Task<Result<UpstreamHead>> head(Deadline deadline) override;
  std::optional<UpstreamPiece> ready() override;
  Task<Result<UpstreamPiece>> read(Deadline deadline) override;
  const wire::Headers& trailers() const override { return parser_.trailers(); }
  bool reusable() const override {
    return stream_ && sent_ && have_head_ && keep_alive_ && parser_.complete() && in_.empty() &&
           stream_->quiet();
  }
  std::unique_ptr<ByteStream> take_stream() override {
    return std::make_unique<HandedOverStream>(std::move(stream_), in_.substr(in_at_));
  }

 private:
  // Parses what is buffered into piece_; true when the answer is complete.
  Result<> parse_body(UpstreamPiece& piece);
  Result<Http1Parser::Step> step();
  void consume(std::size_t bytes);
  void buffer(std::string bytes);

  std::unique_ptr<ByteStream> stream_;
  Http1Parser parser_{Http1Parser::Role::response, {}};
  std::string in_;
  std::size_t in_at_ = 0;
  bool is_head_ = false;
  bool upgrade_ = false;
  bool chunked_ = false;
  bool sent_ = false;  // the request is complete
  bool have_head_ = false;
  bool keep_alive_ = false;
  std::uint64_t left_ = 0;  // of a request's body with a length
  std::optional<Error> broken_;
};

void Connection::consume(std::size_t bytes) {
  in_at_ += bytes;
  if (in_at_ < in_.size()) return;
  in_.clear();
  in_at_ = 0;
}

void Connection::buffer(std::string bytes) {
  if (in_.empty()) {
    in_ = std::move(bytes);
  } else {
    in_.append(bytes);
  }
}

Result<Http1Parser::Step> Connection::step() {
  auto step = parser_.step(std::string_view(in_).substr(in_at_));
  if (!step) broken_ = step.error();
  return step;
}

Task<Result<>> Connection::begin(const UpstreamRequest& request, Deadline deadline) {
  if (have_head_) parser_.next();
  have_head_ = false;
  is_head_ = request.method == "HEAD";
  upgrade_ = request.upgrade;
  sent_ = !request.has_body;
  chunked_ = request.has_body && !request.length;
  left_ = request.length.value_or(0);
  wire::Headers own{{"host", request.authority}};
  if (chunked_) {
    own.push_back({"transfer-encoding", "chunked"});
  } else if (request.length) {
    own.push_back({"content-length", std::to_string(*request.length)});
  } else if (std::ranges::find(kBodyMethods, request.method) != kBodyMethods.end()) {
    own.push_back({"content-length", "0"});
  }
  if (upgrade_) own.push_back({"connection", "upgrade"});
  std::string out;
  FB_CO_TRY(wire::put_request_head(request.method, request.target, own, request.headers, out));
  co_return co_await stream_->write(out, deadline);
}

Task<Result<>> Connection::write(std::string_view bytes, Deadline deadline) {
  if (sent_) co_return fail(Code::internal, "the request has no body");
  if (bytes.empty()) co_return Result<>();
  if (!chunked_) {
    if (bytes.size() > left_)
      co_return fail(Code::invalid, "the request's body is longer than its content-length");
    left_ -= bytes.size();
    co_return co_await stream_->write(bytes, deadline);
  }
  std::string out;
  out.reserve(bytes.size() + 32);
  wire::put_chunk(bytes, out);
  co_return co_await stream_->write(out, deadline);
}

Task<Result<>> Connection::finish(Deadline deadline) {
  if (sent_) co_return Result<>();
  if (!chunked_ && left_ > 0)
    co_return fail(Code::invalid, "the request's body is shorter than its content-length");
  if (chunked_) {
    std::string out;
    FB_CO_TRY(wire::put_last_chunk({}, out));
    FB_CO_TRY(co_await stream_->write(out, deadline));
  }
  sent_ = true;
  co_return Result<>();
}

Task<Result<UpstreamHead>> Connection::head(Deadline deadline) {
  for (int interim = 0; interim <= kMaxInterim;) {
    FB_CO_TRY_ASSIGN(const Http1Parser::Step next, step());
    consume(next.consumed);
    if (next.event == Http1Parser::Event::need_more) {
      if (!in_.empty()) continue;
      FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
      if (bytes.empty())
        co_return fail(Code::unavailable, "the application closed the connection unanswered");
      buffer(std::move(bytes));
      continue;
    }
    const int status = parser_.head().status;
    if (status == 101 && !upgrade_)
      co_return fail(Code::guest, "the application switched protocols unasked");
    if (status / 100 == 1 && status != 101) {
      ++interim;
      parser_.next();
      continue;
    }
    if (is_head_) parser_.skip_body();
    have_head_ = true;
    keep_alive_ = parser_.head().keep_alive && status != 101;
    const bool chunked = parser_.head().chunked;
    UpstreamHead head{.status = status,
                      .headers = end_to_end(parser_.take_head().headers, status == 101)};
    if (chunked && !is_head_)
      std::erase_if(head.headers, [](const auto& f) { return f.name == "content-length"; });
    co_return head;
  }
  co_return fail(Code::guest, "the application sends interim answers only");
}

Result<> Connection::parse_body(UpstreamPiece& piece) {
  while (!parser_.complete() && in_at_ < in_.size() && piece.bytes.size() < kMaxPiece) {
    FB_TRY_ASSIGN(const Http1Parser::Step next, step());
    piece.bytes.append(next.body);
    consume(next.consumed);
    if (next.event == Http1Parser::Event::end) break;
  }
  piece.last = parser_.complete();
  return {};
}

std::optional<UpstreamPiece> Connection::ready() {
  UpstreamPiece piece;
  if (broken_ || !parse_body(piece)) return std::nullopt;  // read() tells
  if (piece.bytes.empty() && !piece.last) return std::nullopt;
  return piece;
}

Task<Result<UpstreamPiece>> Connection::read(Deadline deadline) {
  for (;;) {
    if (broken_) co_return std::unexpected(*broken_);
    UpstreamPiece piece;
    FB_CO_TRY(parse_body(piece));
    if (!piece.bytes.empty() || piece.last) co_return piece;
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
    if (!bytes.empty()) {
      buffer(std::move(bytes));
      continue;
    }
    keep_alive_ = false;
    if (!parser_.at_end())
      co_return fail(Code::unavailable, "the application cut its answer short");
    piece.last = true;
    co_return piece;
  }
}

}  // namespace

std::unique_ptr<Http1Upstream> Http1Upstream::over(std::unique_ptr<ByteStream> stream) {
  return std::make_unique<Connection>(std::move(stream));
}

}  // namespace firebreak::net
