// HTTP/1.1 on the server's side. One task reads ahead (so that a client that leaves is noticed
// while a handler works), another serves one request after the other.
#include <algorithm>
#include <optional>

#include <boost/asio/co_spawn.hpp>

#include "net/broadcast.h"
#include "net/http_connection.h"
#include "wire/http1.h"

namespace firebreak::net {
namespace {

using wire::Http1Parser;

constexpr std::size_t kReadAhead = 64UL * 1024;
// What is read of a body its handler did not want before the connection is given up instead.
constexpr std::size_t kMaxDiscard = 256UL * 1024;
constexpr std::chrono::seconds kDiscardTimeout{5};
// How long an answer is given to reach a client that is still sending (closing at once would drop
// the answer).
constexpr std::chrono::seconds kLinger{2};

std::unexpected<Error> client_gone() {
  return fail(Code::unavailable, "the client went away");
}

// An absolute target names the authority itself, whatever the Host header says.
HttpRequest make_request(wire::Http1Head head, const HttpPeer& peer) {
  HttpRequest request{.method = std::move(head.method),
                      .target = std::move(head.target),
                      .authority = std::string(wire::find_header(head.headers, "host")),
                      .headers = std::move(head.headers),
                      .version = 1,
                      .has_body = head.chunked || head.content_length.value_or(0) > 0,
                      .tls = peer.tls,
                      .peer = peer.address,
                      .sni = peer.sni};
  std::erase_if(request.headers, [](const auto& field) { return field.name == "host"; });
  if (request.target[0] == '/' || request.target == "*") return request;
  const auto begin = request.target.find("//") + 2;
  const auto end = std::min(request.target.find_first_of("/?", begin), request.target.size());
  request.authority = request.target.substr(begin, end - begin);
  request.target.erase(0, end);
  if (!request.target.starts_with('/')) request.target.insert(0, "/");
  return request;
}

class Http1Connection : public HttpConnection,
                        public std::enable_shared_from_this<Http1Connection> {
 public:
  struct Piece {
    Http1Parser::Event event = Http1Parser::Event::need_more;
    std::string body;
  };

  Http1Connection(asio::any_io_executor executor, std::unique_ptr<ByteStream> connected,
                  std::shared_ptr<HttpService> shared, HttpPeer client, std::string received)
      : service(std::move(shared)),
        peer(std::move(client)),
        standing(peer.place),
        stream(std::move(connected)),
        parser(Http1Parser::Role::request, {.max_head_bytes = service->limits.max_head_bytes}),
        in(std::move(received)),
        readable(executor),
        gone(executor),
        done(executor),
        executor_(executor),
        space_(executor) {}

  Task<void> run() override;
  void drain() override { readable.notify(); }
  void cut() override {
    closing_ = true;
    ended = true;
    stream->close();
    space_.notify();
    readable.notify();
    gone.notify();
  }

  // The parser's next event; Code::unavailable when the client left, Code::timeout.
  Task<Result<Piece>> next_piece(Deadline deadline);
  std::size_t buffered() const { return in.size() - in_at; }
  void consume(std::size_t bytes);

  const std::shared_ptr<HttpService> service;
  const HttpPeer peer;
  Standing standing;
  const std::unique_ptr<ByteStream> stream;
  Http1Parser parser;
  std::string in;
  std::size_t in_at = 0;
  bool ended = false;     // nothing more will come from the client
  Event readable;         // of who parses
  Broadcast gone;         // of all who wait for the client to leave
  Event done;             // of run(): a task it must wait for has ended
  bool upgraded = false;  // an UpgradedStream owns the connection
  std::shared_ptr<void> kept;

 private:
  Task<void> read_ahead();
  Task<bool> wait_request(bool first);
  Task<void> serve();
  Task<void> refuse(int status);
  Task<void> discard_body();
  Task<void> part();
  Task<void> linger();

  asio::any_io_executor executor_;
  Event space_;
  bool reader_done_ = false;
  bool closing_ = false;  // the stream is closed
};

// After a 101.
class UpgradedStream : public ByteStream {
 public:
  explicit UpgradedStream(std::shared_ptr<Http1Connection> connection)
      : connection_(std::move(connection)) {
    connection_->upgraded = true;
  }
  ~UpgradedStream() override {
    connection_->cut();
    connection_->upgraded = false;
    connection_->done.notify();
  }
  UpgradedStream(const UpgradedStream&) = delete;
  UpgradedStream& operator=(const UpgradedStream&) = delete;

  Task<Result<std::string>> read(Deadline deadline) override {
    const auto connection = connection_;
    while (connection->buffered() == 0) {
      if (connection->ended) co_return std::string();
      if (!co_await connection->readable.wait(deadline) && connection->buffered() == 0 &&
          !connection->ended)
        co_return fail(Code::timeout, "no data came in time");
    }
    std::string bytes = connection->in.substr(connection->in_at);
    connection->consume(bytes.size());
    co_return bytes;
  }
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    return connection_->stream->write(bytes, deadline);
  }
  Task<Result<>> finish(Deadline deadline) override {
    return connection_->stream->finish(deadline);
  }
  void close() override { connection_->cut(); }

 private:
  std::shared_ptr<Http1Connection> connection_;
};

class Http1Exchange : public HttpExchange {
 public:
  Http1Exchange(std::shared_ptr<Http1Connection> connection, wire::Http1Head head)
      : connection_(std::move(connection)),
        minor_(head.minor),
        can_upgrade_(head.upgrade),
        continue_wanted_(head.expect_continue),
        keep_alive_(head.keep_alive),
        request_(make_request(std::move(head), connection_->peer)) {}

  const HttpRequest& request() const override { return request_; }
  bool started() const override { return started_; }
  bool finished() const { return finished_; }
  bool keep_alive() const { return keep_alive_; }
  bool upgraded() const { return upgraded_; }

  Task<Result<std::string>> read(Deadline deadline) override;
  Task<Result<>> start(int status, wire::Headers headers, Deadline deadline) override;
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override;
  Task<Result<>> finish(Deadline deadline, wire::Headers trailers) override;
  Task<Result<>> reply(int status, wire::Headers headers, std::string body,
                       Deadline deadline) override;
  Task<bool> wait_gone(Deadline deadline) override;
  Task<Result<std::unique_ptr<ByteStream>>> upgrade(wire::Headers headers,
                                                    Deadline deadline) override;
  void note_caller(bool known) override {
    if (known && !visit_) visit_.emplace(connection_->standing);
    if (!known) last_ = connection_->standing.refuse();
  }
  std::shared_ptr<void>& kept() override { return connection_->kept; }

 private:
  Result<> put_head(int status, wire::Headers headers, std::string& out);
  // Of a write; one that failed is the end of the connection.
  Result<> sent(Result<> written);

  const std::shared_ptr<Http1Connection> connection_;
  const int minor_;
  const bool can_upgrade_;
  bool continue_wanted_;  // the client waits for a 100 before it sends its body
  bool keep_alive_;
  const HttpRequest request_;
  AnswerPlan plan_;
  std::optional<Standing::Visit> visit_;
  bool last_ = false;  // the answer ends the connection: nobody is known on it
  bool chunked_ = false;
  bool body_ended_ = false;
  bool started_ = false;
  bool finished_ = false;
  bool upgraded_ = false;
};

// ----------------------------------------------------------------------------------------------
// exchange

Task<Result<std::string>> Http1Exchange::read(Deadline deadline) {
  if (continue_wanted_ && !started_ && connection_->buffered() == 0) {
    continue_wanted_ = false;
    FB_CO_TRY(sent(co_await connection_->stream->write("HTTP/1.1 100 Continue\r\n\r\n", deadline)));
  }
  if (body_ended_ || finished_) co_return std::string();
  FB_CO_TRY_ASSIGN(Http1Connection::Piece piece, co_await connection_->next_piece(deadline));
  if (piece.event == Http1Parser::Event::end) body_ended_ = true;
  if (!piece.body.empty()) continue_wanted_ = false;
  co_return std::move(piece.body);
}

Result<> Http1Exchange::sent(Result<> written) {
  if (!written) connection_->cut();
  return written;
}

Result<> Http1Exchange::put_head(int status, wire::Headers headers, std::string& out) {
  if (started_) return fail(Code::internal, "the request was already answered");
  FB_TRY_ASSIGN(plan_, plan_answer(request_.method, status, std::move(headers)));
  // A client that still waits for its 100 may or may not send the body now.
  if (plan_.close || last_ || continue_wanted_ || connection_->service->draining)
    keep_alive_ = false;
  wire::Headers all = std::move(plan_.headers);
  if (!plan_.bodyless && !plan_.length) {
    chunked_ = minor_ == 1;
    if (chunked_) {
      all.push_back({"transfer-encoding", "chunked"});
    } else {
      keep_alive_ = false;
    }
  }
  if (!keep_alive_) {
    all.push_back({"connection", "close"});
  } else if (minor_ == 0) {
    all.push_back({"connection", "keep-alive"});
  }
  FB_TRY(wire::put_response_head(status, all, out));
  started_ = true;
  return {};
}

Task<Result<>> Http1Exchange::start(int status, wire::Headers headers, Deadline deadline) {
  std::string out;
  FB_CO_TRY(put_head(status, std::move(headers), out));
  co_return sent(co_await connection_->stream->write(out, deadline));
}

Task<Result<>> Http1Exchange::write(std::string_view bytes, Deadline deadline) {
  if (!started_ || finished_) co_return fail(Code::internal, "not within an answer's body");
  FB_CO_TRY(plan_.count(bytes.size()));
  if (plan_.bodyless || bytes.empty()) co_return Result<>();
  if (!chunked_) co_return sent(co_await connection_->stream->write(bytes, deadline));
  std::string out;
  out.reserve(bytes.size() + 32);
  wire::put_chunk(bytes, out);
  co_return sent(co_await connection_->stream->write(out, deadline));
}

Task<Result<>> Http1Exchange::finish(Deadline deadline, wire::Headers trailers) {
  if (!started_ || finished_) co_return fail(Code::internal, "not within an answer's body");
  FB_CO_TRY(plan_.check_complete());
  if (chunked_) {
    std::string out;
    FB_CO_TRY(wire::put_last_chunk(trailers, out));
    FB_CO_TRY(sent(co_await connection_->stream->write(out, deadline)));
  }
  finished_ = true;
  connection_->gone.notify();
  co_return Result<>();
}

// Head and body in one write.
Task<Result<>> Http1Exchange::reply(int status, wire::Headers headers, std::string body,
                                    Deadline deadline) {
  std::erase_if(headers, [](const auto& field) { return field.name == "content-length"; });
  if (status != 304) headers.push_back({"content-length", std::to_string(body.size())});
  std::string out;
  FB_CO_TRY(put_head(status, std::move(headers), out));
  FB_CO_TRY(plan_.count(body.size()));
  if (!plan_.bodyless) out += body;
  FB_CO_TRY(sent(co_await connection_->stream->write(out, deadline)));
  finished_ = true;
  connection_->gone.notify();
  co_return Result<>();
}

Task<bool> Http1Exchange::wait_gone(Deadline deadline) {
  while (!connection_->ended && !finished_)
    if (!co_await connection_->gone.wait(deadline)) co_return connection_->ended || finished_;
  co_return true;
}

Task<Result<std::unique_ptr<ByteStream>>> Http1Exchange::upgrade(wire::Headers headers,
                                                                 Deadline deadline) {
  if (started_) co_return fail(Code::internal, "the request was already answered");
  if (!can_upgrade_) co_return fail(Code::invalid, "the client did not ask for an upgrade");
  // Bytes of a body would be taken for the new protocol's.
  FB_CO_TRY_ASSIGN(const std::string body, co_await read(deadline));
  if (!body.empty()) co_return fail(Code::invalid, "an upgrade request must not have a body");
  headers.push_back({"connection", "upgrade"});
  std::string out;
  FB_CO_TRY(wire::put_response_head(101, headers, out));
  started_ = true;
  FB_CO_TRY(sent(co_await connection_->stream->write(out, deadline)));
  finished_ = true;
  upgraded_ = true;
  connection_->gone.notify();
  co_return std::make_unique<UpgradedStream>(connection_);
}

// ----------------------------------------------------------------------------------------------
// connection

void Http1Connection::consume(std::size_t bytes) {
  in_at += bytes;
  if (in_at == in.size()) {
    in.clear();
    in_at = 0;
  }
  if (buffered() < kReadAhead) space_.notify();
}

Task<void> Http1Connection::read_ahead() {
  while (!closing_) {
    if (buffered() >= kReadAhead) {
      (void)co_await space_.wait(kForever);
      continue;
    }
    auto bytes = co_await stream->read(kForever);
    if (!bytes || bytes->empty()) break;
    if (buffered() == 0) {
      in = *std::move(bytes);
    } else {
      in.erase(0, in_at);
      in.append(*bytes);
    }
    in_at = 0;
    readable.notify();
  }
  ended = true;
  readable.notify();
  gone.notify();
}

Task<Result<Http1Connection::Piece>> Http1Connection::next_piece(Deadline deadline) {
  for (;;) {
    auto step = parser.step(std::string_view(in).substr(in_at));
    if (!step) co_return std::unexpected(std::move(step).error());
    Piece piece{.event = step->event, .body = std::string(step->body)};
    consume(step->consumed);
    if (piece.event != Http1Parser::Event::need_more) co_return piece;
    if (buffered() > 0) continue;
    if (ended) co_return client_gone();
    if (!co_await readable.wait(deadline) && buffered() == 0 && !ended)
      co_return fail(Code::timeout, "the client did not send in time");
  }
}

Task<void> Http1Connection::run() {
  const auto self = shared_from_this();
  asio::co_spawn(
      executor_, [self]() -> Task<void> { co_await self->read_ahead(); },
      [self](const std::exception_ptr& thrown) {
        if (thrown) self->service->exceptions.report("connection", self->peer.address, thrown);
        self->ended = true;
        self->reader_done_ = true;
        self->done.notify();
      });
  co_await serve();
  while (upgraded) (void)co_await done.wait(kForever);
  cut();
  while (!reader_done_) (void)co_await done.wait(kForever);
}

// False: no request came.
Task<bool> Http1Connection::wait_request(bool first) {
  const HttpLimits& limits = service->limits;
  const Deadline deadline = Deadline::in(first ? limits.head_timeout : limits.idle_timeout);
  while (buffered() == 0) {
    if (ended || service->draining) co_return false;
    if (!co_await readable.wait(deadline) && buffered() == 0) co_return false;
  }
  co_return !closing_;
}

// One request after the other, until the connection is over.
Task<void> Http1Connection::serve() {
  for (bool first = true; co_await wait_request(first); first = false) {
    auto piece = co_await next_piece(Deadline::in(service->limits.head_timeout));
    if (!piece) {
      const Code code = piece.error().code;
      if (code == Code::timeout) co_await refuse(408);
      if (code == Code::invalid || code == Code::exhausted) co_await refuse(parser.error_status());
      co_return;
    }
    Http1Exchange exchange(shared_from_this(), parser.take_head());
    co_await run_handler(*service, exchange);
    // The bytes that follow are of another protocol, or behind half an answer.
    if (exchange.upgraded() || !exchange.finished()) co_return;
    if (exchange.keep_alive() && !parser.complete()) co_await discard_body();
    if (!exchange.keep_alive() || !parser.complete()) co_return co_await part();
    parser.next();
    if (service->draining && buffered() == 0) co_return;
  }
}

// After an answer that was the connection's last.
Task<void> Http1Connection::part() {
  if (!parser.complete() || buffered() > 0) co_return co_await linger();
  (void)co_await stream->finish(Deadline::in(kServerWriteTimeout));
}

Task<void> Http1Connection::refuse(int status) {
  std::string out;
  const wire::Headers headers{
      {"content-length", "0"}, {"connection", "close"}, {"date", http_date()}};
  if (!wire::put_response_head(status, headers, out)) co_return;
  if (co_await stream->write(out, Deadline::in(kServerWriteTimeout))) co_await linger();
}

// Reads to the end of the body, within bounds.
Task<void> Http1Connection::discard_body() {
  const Deadline deadline = Deadline::in(kDiscardTimeout);
  for (std::size_t size = 0; size <= kMaxDiscard && !parser.complete();) {
    const auto piece = co_await next_piece(deadline);
    if (!piece) co_return;
    size += piece->body.size();
  }
}

Task<void> Http1Connection::linger() {
  const Deadline deadline = Deadline::in(kLinger);
  if (!co_await stream->finish(deadline)) co_return;
  while (!ended && !deadline.passed()) {
    consume(buffered());
    (void)co_await readable.wait(deadline);
  }
}

}  // namespace

std::shared_ptr<HttpConnection> make_http1_connection(asio::any_io_executor executor,
                                                      std::unique_ptr<ByteStream> stream,
                                                      std::shared_ptr<HttpService> service,
                                                      HttpPeer peer, std::string received) {
  return std::make_shared<Http1Connection>(std::move(executor), std::move(stream),
                                           std::move(service), std::move(peer),
                                           std::move(received));
}

}  // namespace firebreak::net
