#include "net/http_client.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "net/handed_over_stream.h"
#include "net/tcp_stream.h"
#include "net/tls_stream.h"
#include "wire/http1.h"

namespace firebreak::net {
namespace {

using wire::Http1Parser;

constexpr int kMaxInterim = 16;  // 1xx answers before the real one
constexpr std::array<std::string_view, 3> kBodyMethods{"POST", "PUT", "PATCH"};

Result<std::string> request_head(const HttpCall& call, bool streamed) {
  wire::Headers headers{{"host", call.host}};
  headers.insert(headers.end(), call.headers.begin(), call.headers.end());
  if (streamed) {
    headers.push_back({"transfer-encoding", "chunked"});
  } else if (!call.body.empty() ||
             std::ranges::find(kBodyMethods, call.method) != kBodyMethods.end()) {
    headers.push_back({"content-length", std::to_string(call.body.size())});
  }
  std::string out;
  FB_TRY(wire::put_request_head(call.method, call.target, headers, out));
  return out;
}

// The answer to one request, read from a stream that its owner keeps.
class Answer {
 public:
  explicit Answer(std::string method) : method_(std::move(method)) {}

  Task<Result<HttpReply>> head(ByteStream& stream, Deadline deadline) {
    for (int interim = 0; interim < kMaxInterim;) {
      if (head_) co_return *head_;
      FB_CO_TRY_ASSIGN(const std::string body, co_await next(stream, deadline));
      if (!body.empty()) continue;
      if (parser_.head().status / 100 == 1 && parser_.head().status != 101) {
        ++interim;
        parser_.next();
      } else {
        take_head();
      }
    }
    co_return fail(Code::invalid, "the server sends interim answers only");
  }

  // Empty at the end.
  Task<Result<std::string>> read(ByteStream& stream, Deadline deadline) {
    if (!head_) FB_CO_TRY(co_await head(stream, deadline));
    if (parser_.complete() || ended_) co_return std::string();
    co_return co_await next(stream, deadline);
  }

  bool complete() const { return head_ && (parser_.complete() || ended_); }
  std::string take_rest() { return std::exchange(in_, {}); }
  bool has_rest() const { return !in_.empty(); }

 private:
  void take_head() {
    if (method_ == "HEAD") parser_.skip_body();
    head_ = HttpReply{.status = parser_.head().status,
                      .headers = parser_.head().headers,
                      .body = {},
                      .keep_alive = parser_.head().keep_alive};
  }

  // Body bytes; empty for a head or the end.
  Task<Result<std::string>> next(ByteStream& stream, Deadline deadline) {
    for (;;) {
      FB_CO_TRY_ASSIGN(const Http1Parser::Step step, parser_.step(in_));
      std::string body(step.body);
      in_.erase(0, step.consumed);
      if (step.event != Http1Parser::Event::need_more) co_return body;
      if (!in_.empty()) continue;
      FB_CO_TRY_ASSIGN(in_, co_await stream.read(deadline));
      if (!in_.empty()) continue;
      if (!head_ || !parser_.at_end())
        co_return fail(Code::unavailable,
                       "the server closed the connection before it had answered");
      ended_ = true;
      co_return std::string();
    }
  }

  std::string method_;
  Http1Parser parser_{Http1Parser::Role::response, {}};
  std::string in_;
  std::optional<HttpReply> head_;
  bool ended_ = false;  // a body without a length ended with the connection
};

class ClientStream : public HttpClientStream {
 public:
  ClientStream(std::unique_ptr<ByteStream> stream, const std::string& method, bool streamed)
      : stream_(std::move(stream)), answer_(method), streamed_(streamed) {}

  Task<Result<>> send(std::string bytes, Deadline deadline) {
    co_return co_await stream_->write(bytes, deadline);
  }
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    if (!streamed_) co_return fail(Code::internal, "the request was sent whole");
    if (bytes.empty()) co_return Result<>();
    std::string out;
    wire::put_chunk(bytes, out);
    co_return co_await stream_->write(out, deadline);
  }
  Task<Result<>> finish(Deadline deadline) override {
    if (!std::exchange(streamed_, false)) co_return Result<>();
    std::string out;
    FB_CO_TRY(wire::put_last_chunk({}, out));
    co_return co_await stream_->write(out, deadline);
  }
  Task<Result<HttpReply>> head(Deadline deadline) override {
    return answer_.head(*stream_, deadline);
  }
  Task<Result<std::string>> read(Deadline deadline) override {
    return answer_.read(*stream_, deadline);
  }
  std::unique_ptr<ByteStream> take_stream() override {
    return std::make_unique<HandedOverStream>(std::move(stream_), answer_.take_rest());
  }

 private:
  std::unique_ptr<ByteStream> stream_;
  Answer answer_;
  bool streamed_;
};

struct Url {
  bool tls = false;
  std::string host;
  std::string port;
};

Result<Url> parse_url(std::string_view url) {
  const std::string text(url);
  Url out;
  if (url.starts_with("https://")) {
    out.tls = true;
  } else if (!url.starts_with("http://")) {
    return fail(Code::invalid, "the URL does not begin with http:// or https://: " + text);
  }
  std::string_view authority = url.substr(url.find("//") + 2);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  const auto bracket = authority.rfind(']');
  const auto colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  out.host = authority.substr(0, has_port ? colon : authority.size());
  out.port = has_port ? std::string(authority.substr(colon + 1)) : out.tls ? "443" : "80";
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  const auto port = parse_u64(out.port);
  if (out.host.empty() || !port || *port == 0 || *port > 65535 ||
      out.host.find('@') != std::string::npos)
    return fail(Code::invalid, "no host and port in the URL: " + text);
  return out;
}

}  // namespace

Task<Result<HttpReply>> http_call(ByteStream& stream, const HttpCall& call, Deadline deadline,
                                  std::size_t limit) {
  FB_CO_TRY_ASSIGN(std::string out, request_head(call, false));
  out += call.body;
  const auto sent = co_await stream.write(out, deadline);
  Answer answer(call.method);
  // A server may answer and close before it has read the whole request.
  auto head = co_await answer.head(stream, deadline);
  if (!head && !sent) co_return std::unexpected(sent.error());
  if (!head) co_return std::unexpected(std::move(head).error());
  HttpReply reply = *std::move(head);
  while (!answer.complete()) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await answer.read(stream, deadline));
    if (bytes.size() > limit - reply.body.size())
      co_return fail(Code::exhausted,
                     "the answer is larger than " + std::to_string(limit) + " bytes");
    reply.body += bytes;
  }
  if (!sent || answer.has_rest()) reply.keep_alive = false;
  co_return reply;
}

Task<Result<std::unique_ptr<HttpClientStream>>> HttpClientStream::start(
    std::unique_ptr<ByteStream> stream, HttpCall call, bool streamed, Deadline deadline) {
  FB_CO_TRY_ASSIGN(std::string out, request_head(call, streamed));
  if (!streamed) out += call.body;
  auto client = std::make_unique<ClientStream>(std::move(stream), call.method, streamed);
  FB_CO_TRY(co_await client->send(std::move(out), deadline));
  co_return client;
}

Task<Result<std::unique_ptr<ByteStream>>> connect_url(const std::string& url,
                                                      const std::string& ca_file,
                                                      Deadline deadline) {
  FB_CO_TRY_ASSIGN(const Url parsed, parse_url(url));
  FB_CO_TRY_ASSIGN(auto stream, co_await connect_tcp(parsed.host, parsed.port, deadline));
  if (!parsed.tls) co_return stream;
  FB_CO_TRY_ASSIGN(TlsStream secure, co_await connect_tls(std::move(stream), parsed.host, ca_file,
                                                          {"http/1.1"}, deadline));
  co_return std::move(secure.stream);
}

}  // namespace firebreak::net
