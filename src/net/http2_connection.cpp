// HTTP/2 on the server's side: one task reads, one writes, and one runs each request's handler.
#include <algorithm>
#include <map>
#include <optional>

#include <boost/asio/co_spawn.hpp>

#include "net/broadcast.h"
#include "net/http_connection.h"
#include "wire/h2_session.h"
#include "wire/http1.h"

namespace firebreak::net {
namespace {

constexpr std::uint32_t kMaxStreams = 128;
// Handlers outlive the streams a client cancels; beyond this new requests are refused.
constexpr std::size_t kMaxHandlers = 2UL * kMaxStreams;

std::unexpected<Error> client_gone() {
  return fail(Code::unavailable, "the client went away");
}

// One request as its handler and the connection share it.
struct Stream {
  Stream(const asio::any_io_executor& executor, wire::StreamId stream_id)
      : id(stream_id), readable(executor), writable(executor), gone(executor) {}
  void close() {
    closed = true;
    readable.notify();
    writable.notify();
    gone.notify();
  }

  wire::StreamId id;
  HttpRequest request;
  std::string in;
  bool ended = false;   // the request's body is complete
  bool closed = false;  // the id must not be used any more
  Event readable;
  Event writable;
  Broadcast gone;
};

// nullopt: not a request we serve.
std::optional<HttpRequest> make_request(wire::Headers headers, const HttpPeer& peer) {
  HttpRequest request{.version = 2, .tls = peer.tls, .peer = peer.address, .sni = peer.sni};
  std::string cookie;
  for (wire::HeaderField& field : headers) {
    if (field.name == ":method") {
      request.method = std::move(field.value);
    } else if (field.name == ":path") {
      request.target = std::move(field.value);
    } else if (field.name == ":authority" || (field.name == "host" && request.authority.empty())) {
      request.authority = std::move(field.value);
    } else if (field.name == "cookie") {
      // RFC 9113 section 8.2.3: split for compression only.
      cookie.append(cookie.empty() ? "" : "; ").append(field.value);
    } else if (!field.name.starts_with(':') && field.name != "host") {
      request.headers.push_back(std::move(field));
    }
  }
  if (!cookie.empty()) request.headers.push_back({"cookie", std::move(cookie)});
  const bool path =
      request.target.starts_with('/') || (request.target == "*" && request.method == "OPTIONS");
  if (request.method == "CONNECT" || !path || !wire::is_request_target(request.target))
    return std::nullopt;
  return request;
}

class Http2Connection : public HttpConnection,
                        public std::enable_shared_from_this<Http2Connection>,
                        private wire::H2Handler {
 public:
  Http2Connection(asio::any_io_executor executor, std::unique_ptr<ByteStream> stream,
                  std::shared_ptr<HttpService> service, HttpPeer peer, std::string received)
      : executor_(executor),
        stream_(std::move(stream)),
        service_(std::move(service)),
        peer_(std::move(peer)),
        standing_(peer_.place),
        received_(std::move(received)),
        output_(executor),
        changed_(executor) {
    wire::H2Limits limits;
    limits.max_streams = kMaxStreams;
    limits.max_header_bytes = service_->limits.max_head_bytes;
    session_ = wire::H2Session::server(limits, *this);
  }

  Task<void> run() override;
  void drain() override {
    session_->goaway(wire::H2Error::no_error);
    flush();
  }
  void cut() override;

  wire::H2Session& session() { return *session_; }
  Standing& standing() { return standing_; }
  void flush() { output_.notify(); }

  std::shared_ptr<void> kept;

 private:
  void spawn(Task<void> task, std::size_t& counter);
  Task<void> read_loop();
  Task<void> write_loop();
  Task<void> supervise();
  Task<void> handle(std::shared_ptr<Stream> stream);
  Result<> feed(std::string_view bytes);
  void answer_badly(wire::StreamId id, bool ended, std::string_view status);

  void on_headers(wire::StreamId id, wire::Headers headers, bool end) override;
  void on_data(wire::StreamId id, std::string_view bytes) override;
  void on_end(wire::StreamId id) override;
  void on_writable(wire::StreamId id) override;
  void on_closed(wire::StreamId id, std::uint32_t error_code) override;

  asio::any_io_executor executor_;
  const std::unique_ptr<ByteStream> stream_;
  const std::shared_ptr<HttpService> service_;
  const HttpPeer peer_;
  Standing standing_;
  std::string received_;
  std::unique_ptr<wire::H2Session> session_;
  std::map<wire::StreamId, std::shared_ptr<Stream>> streams_;
  Event output_;   // of write_loop()
  Event changed_;  // of run(): a task began or ended
  std::size_t loops_ = 0;
  std::size_t handlers_ = 0;
  bool closing_ = false;  // over when the output is sent
  bool over_ = false;
};

class Http2Exchange : public HttpExchange {
 public:
  Http2Exchange(std::shared_ptr<Http2Connection> connection, std::shared_ptr<Stream> stream)
      : connection_(std::move(connection)), stream_(std::move(stream)) {}

  const HttpRequest& request() const override { return stream_->request; }
  bool started() const override { return started_; }
  bool finished() const { return finished_; }

  Task<Result<std::string>> read(Deadline deadline) override;
  Task<Result<>> start(int status, wire::Headers headers, Deadline deadline) override;
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override;
  Task<Result<>> finish(Deadline deadline, wire::Headers trailers) override;
  Task<Result<>> reply(int status, wire::Headers headers, std::string body,
                       Deadline deadline) override;
  Task<bool> wait_gone(Deadline deadline) override;
  Task<Result<std::unique_ptr<ByteStream>>> upgrade(wire::Headers, Deadline) override {
    co_return fail(Code::invalid, "HTTP/2 has no upgrade");
  }
  void note_caller(bool known) override {
    if (known && !visit_) visit_.emplace(connection_->standing());
    if (!known) last_ = connection_->standing().refuse();
  }
  std::shared_ptr<void>& kept() override { return connection_->kept; }

 private:
  Result<> begin(int status, wire::Headers headers, bool end);

  const std::shared_ptr<Http2Connection> connection_;
  const std::shared_ptr<Stream> stream_;
  AnswerPlan plan_;
  std::optional<Standing::Visit> visit_;
  bool last_ = false;  // the answer ends the connection: nobody is known on it
  bool started_ = false;
  bool finished_ = false;
};

// ----------------------------------------------------------------------------------------------
// exchange

Task<Result<std::string>> Http2Exchange::read(Deadline deadline) {
  Stream& stream = *stream_;
  while (stream.in.empty()) {
    if (stream.ended) co_return std::string();
    if (stream.closed) co_return client_gone();
    if (!co_await stream.readable.wait(deadline) && stream.in.empty() && !stream.ended &&
        !stream.closed)
      co_return fail(Code::timeout, "the client did not send in time");
  }
  std::string bytes = std::exchange(stream.in, {});
  if (!stream.closed) {
    connection_->session().consume(stream.id, bytes.size());
    connection_->flush();
  }
  co_return bytes;
}

Result<> Http2Exchange::begin(int status, wire::Headers headers, bool end) {
  if (started_) return fail(Code::internal, "the request was already answered");
  FB_TRY_ASSIGN(plan_, plan_answer(stream_->request.method, status, std::move(headers)));
  if (stream_->closed) return client_gone();
  plan_.bodyless = plan_.bodyless || end;
  wire::Headers all{{":status", std::to_string(status)}};
  std::ranges::move(plan_.headers, std::back_inserter(all));
  FB_TRY(connection_->session().respond(stream_->id, all, plan_.bodyless));
  started_ = true;
  if (plan_.close || last_) connection_->drain();
  connection_->flush();
  return {};
}

Task<Result<>> Http2Exchange::start(int status, wire::Headers headers, Deadline) {
  co_return begin(status, std::move(headers), false);
}

// Without a body the head ends the stream: some clients (gRPC) tell the two apart.
Task<Result<>> Http2Exchange::reply(int status, wire::Headers headers, std::string body,
                                    Deadline deadline) {
  if (!body.empty())
    co_return co_await HttpExchange::reply(status, std::move(headers), std::move(body), deadline);
  FB_CO_TRY(begin(status, std::move(headers), true));
  co_return co_await finish(deadline, {});
}

Task<Result<>> Http2Exchange::write(std::string_view bytes, Deadline deadline) {
  if (!started_ || finished_) co_return fail(Code::internal, "not within an answer's body");
  FB_CO_TRY(plan_.count(bytes.size()));
  if (plan_.bodyless) co_return Result<>();
  for (;;) {
    if (stream_->closed) co_return client_gone();
    const std::size_t taken = connection_->session().write(stream_->id, bytes);
    bytes.remove_prefix(taken);
    connection_->flush();
    if (bytes.empty()) co_return Result<>();
    if (taken == 0 && !co_await stream_->writable.wait(deadline) && deadline.passed())
      co_return fail(Code::timeout, "the client did not take the data in time");
  }
}

Task<Result<>> Http2Exchange::finish(Deadline, wire::Headers trailers) {
  if (!started_ || finished_) co_return fail(Code::internal, "not within an answer's body");
  FB_CO_TRY(plan_.check_complete());
  if (stream_->closed && !plan_.bodyless) co_return client_gone();
  finished_ = true;
  if (!stream_->closed) {
    connection_->session().finish(stream_->id, std::move(trailers));
    // The rest of the request has nobody to go to.
    if (!stream_->ended) connection_->session().reset(stream_->id, wire::H2Error::no_error);
    connection_->flush();
  }
  stream_->gone.notify();
  co_return Result<>();
}

Task<bool> Http2Exchange::wait_gone(Deadline deadline) {
  while (!stream_->closed && !finished_)
    if (!co_await stream_->gone.wait(deadline)) co_return stream_->closed || finished_;
  co_return true;
}

// ----------------------------------------------------------------------------------------------
// connection

void Http2Connection::spawn(Task<void> task, std::size_t& counter) {
  ++counter;
  asio::co_spawn(executor_, std::move(task),
                 [self = shared_from_this(), &counter](const std::exception_ptr& thrown) {
                   --counter;
                   if (thrown) {
                     self->service_->exceptions.report("connection", self->peer_.address, thrown);
                     self->cut();
                   }
                   self->changed_.notify();
                 });
}

Task<void> Http2Connection::run() {
  const auto self = shared_from_this();
  if (service_->draining) session_->goaway(wire::H2Error::no_error);
  spawn(read_loop(), loops_);
  spawn(write_loop(), loops_);
  co_await supervise();
  cut();
  while (loops_ + handlers_ > 0) (void)co_await changed_.wait(kForever);
}

// Returns when the connection is over, or has been without requests for too long; the first has to
// come as soon as with HTTP/1.1.
Task<void> Http2Connection::supervise() {
  Deadline idle = Deadline::in(service_->limits.head_timeout);
  while (!over_) {
    if (handlers_ > 0) {
      (void)co_await changed_.wait(kForever);
      idle = Deadline::in(service_->limits.idle_timeout);
    } else if (!co_await changed_.wait(idle) && handlers_ == 0) {
      break;
    }
  }
  if (over_) co_return;
  session_->goaway(wire::H2Error::no_error);
  closing_ = true;
  flush();
  const Deadline deadline = Deadline::in(kServerWriteTimeout);
  while (!over_ && !deadline.passed()) (void)co_await changed_.wait(deadline);
}

void Http2Connection::cut() {
  over_ = true;
  stream_->close();
  for (auto& [id, stream] : std::exchange(streams_, {})) stream->close();
  output_.notify();
  changed_.notify();
}

Result<> Http2Connection::feed(std::string_view bytes) {
  auto fed = session_->receive(bytes);
  if (!fed) {
    closing_ = true;
    for (auto& [id, stream] : std::exchange(streams_, {})) stream->close();
  }
  flush();
  return fed;
}

Task<void> Http2Connection::read_loop() {
  auto fed = feed(received_);
  received_ = {};
  while (fed && !over_) {
    const auto bytes = co_await stream_->read(kForever);
    if (over_) co_return;
    if (!bytes || bytes->empty()) {
      cut();
      co_return;
    }
    fed = feed(*bytes);
  }
}

Task<void> Http2Connection::write_loop() {
  std::string out;
  while (!over_) {
    out.clear();
    if (!session_->take_output(out)) {
      if (closing_ || !session_->alive()) break;
      (void)co_await output_.wait(kForever);
      continue;
    }
    if (!co_await stream_->write(out, Deadline::in(service_->limits.idle_timeout))) break;
  }
  if (!over_) (void)co_await stream_->finish(Deadline::in(kServerWriteTimeout));
  cut();
}

Task<void> Http2Connection::handle(std::shared_ptr<Stream> stream) {
  Http2Exchange exchange(shared_from_this(), stream);
  co_await run_handler(*service_, exchange);
  if (!exchange.finished() && !stream->closed) {
    session_->reset(stream->id, wire::H2Error::internal);
    flush();
  }
  // What still comes for the stream has no reader.
  streams_.erase(stream->id);
  stream->closed = true;
}

void Http2Connection::answer_badly(wire::StreamId id, bool ended, std::string_view status) {
  (void)session_->respond(id, {{":status", std::string(status)}, {"date", http_date()}}, true);
  if (!ended) session_->reset(id, wire::H2Error::no_error);
}

void Http2Connection::on_headers(wire::StreamId id, wire::Headers headers, bool end) {
  if (over_) return;
  if (handlers_ >= kMaxHandlers) return session_->reset(id, wire::H2Error::refused);
  auto request = make_request(std::move(headers), peer_);
  if (!request) return answer_badly(id, end, "400");
  auto stream = std::make_shared<Stream>(executor_, id);
  stream->request = *std::move(request);
  stream->request.has_body = !end;
  stream->ended = end;
  streams_[id] = stream;
  spawn(handle(std::move(stream)), handlers_);
  changed_.notify();
}

void Http2Connection::on_data(wire::StreamId id, std::string_view bytes) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  it->second->in.append(bytes);
  it->second->readable.notify();
}

void Http2Connection::on_end(wire::StreamId id) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  it->second->ended = true;
  it->second->readable.notify();
}

void Http2Connection::on_writable(wire::StreamId id) {
  const auto it = streams_.find(id);
  if (it != streams_.end()) it->second->writable.notify();
}

void Http2Connection::on_closed(wire::StreamId id, std::uint32_t) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  const auto stream = it->second;
  streams_.erase(it);
  stream->close();
}

}  // namespace

std::shared_ptr<HttpConnection> make_http2_connection(asio::any_io_executor executor,
                                                      std::unique_ptr<ByteStream> stream,
                                                      std::shared_ptr<HttpService> service,
                                                      HttpPeer peer, std::string received) {
  return std::make_shared<Http2Connection>(std::move(executor), std::move(stream),
                                           std::move(service), std::move(peer),
                                           std::move(received));
}

}  // namespace firebreak::net
