// HTTP/2 by prior knowledge to an application: one task reads, one writes, exchanges wait for their
// events.
#include <algorithm>
#include <charconv>
#include <map>

#include <boost/asio/co_spawn.hpp>

#include "net/upstream.h"

namespace firebreak::net {
namespace {

const Deadline kForever{Deadline::Clock::time_point::max()};
// For an application that does not read.
constexpr std::chrono::minutes kWriteTimeout{10};

class Connection;

// One request as its exchange and the connection share it.
struct Stream {
  explicit Stream(const asio::any_io_executor& executor) : readable(executor), writable(executor) {}
  void close(std::uint32_t code) {
    closed = true;
    close_code = code;
    readable.notify();
    writable.notify();
  }

  wire::StreamId id = 0;
  std::optional<UpstreamHead> head;
  std::string in;
  wire::Headers trailers;
  bool ended = false;   // the answer is complete
  bool closed = false;  // the id must not be used any more
  std::uint32_t close_code = 0;
  Event readable;
  Event writable;
};

class Connection : public Http2Upstream,
                   public std::enable_shared_from_this<Connection>,
                   private wire::H2Handler {
 public:
  Connection(asio::any_io_executor executor, std::unique_ptr<ByteStream> stream)
      : executor_(executor), stream_(std::move(stream)), output_(executor) {
    wire::H2Limits limits;
    limits.max_streams = 0;  // the application opens none
    session_ = wire::H2Session::client(limits, *this);
  }

  void start();
  Result<std::unique_ptr<UpstreamExchange>> open(const UpstreamRequest& request) override;
  bool usable() const override { return !over_ && !going_; }
  std::size_t open_exchanges() const override { return streams_.size(); }
  void close() override;

  wire::H2Session& session() { return *session_; }
  void flush() { output_.notify(); }
  void forget(Stream& stream);

 private:
  Task<void> read_loop();
  Task<void> write_loop();

  void on_headers(wire::StreamId id, wire::Headers headers, bool end) override;
  void on_trailers(wire::StreamId id, wire::Headers trailers) override;
  void on_data(wire::StreamId id, std::string_view bytes) override;
  void on_end(wire::StreamId id) override;
  void on_writable(wire::StreamId id) override;
  void on_closed(wire::StreamId id, std::uint32_t error_code) override;
  void on_goaway(std::uint32_t) override { going_ = true; }
  std::shared_ptr<Stream> find(wire::StreamId id) const {
    const auto it = streams_.find(id);
    return it == streams_.end() ? nullptr : it->second;
  }

  asio::any_io_executor executor_;
  const std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<wire::H2Session> session_;
  std::map<wire::StreamId, std::shared_ptr<Stream>> streams_;
  Event output_;  // of write_loop()
  bool going_ = false;
  bool over_ = false;
};

class Exchange : public UpstreamExchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, std::shared_ptr<Stream> stream)
      : connection_(std::move(connection)), stream_(std::move(stream)) {}
  ~Exchange() override { connection_->forget(*stream_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Task<Result<>> write(std::string_view bytes, Deadline deadline) override;
  Task<Result<>> finish(Deadline) override {
    if (!stream_->closed) {
      connection_->session().finish(stream_->id);
      connection_->flush();
    }
    co_return Result<>();
  }
  Task<Result<UpstreamHead>> head(Deadline deadline) override;
  std::optional<UpstreamPiece> ready() override;
  Task<Result<UpstreamPiece>> read(Deadline deadline) override;
  const wire::Headers& trailers() const override { return stream_->trailers; }

 private:
  std::unexpected<Error> gone() const {
    return fail(Code::unavailable, "the application ended the request",
                "HTTP/2 error " + std::to_string(stream_->close_code));
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Stream> stream_;
};

// ----------------------------------------------------------------------------------------------
// exchange

Task<Result<>> Exchange::write(std::string_view bytes, Deadline deadline) {
  for (;;) {
    if (stream_->closed) co_return gone();
    const std::size_t taken = connection_->session().write(stream_->id, bytes);
    bytes.remove_prefix(taken);
    connection_->flush();
    if (bytes.empty()) co_return Result<>();
    if (taken == 0 && !co_await stream_->writable.wait(deadline) && deadline.passed())
      co_return fail(Code::timeout, "the application did not take the data in time");
  }
}

Task<Result<UpstreamHead>> Exchange::head(Deadline deadline) {
  while (!stream_->head) {
    if (stream_->closed) co_return gone();
    if (!co_await stream_->readable.wait(deadline) && !stream_->head && !stream_->closed)
      co_return fail(Code::timeout, "the application did not answer in time");
  }
  co_return *stream_->head;
}

std::optional<UpstreamPiece> Exchange::ready() {
  if (stream_->in.empty() && !stream_->ended) return std::nullopt;
  UpstreamPiece piece{.bytes = std::exchange(stream_->in, {}), .last = stream_->ended};
  if (!stream_->closed && !piece.bytes.empty()) {
    connection_->session().consume(stream_->id, piece.bytes.size());
    connection_->flush();
  }
  return piece;
}

Task<Result<UpstreamPiece>> Exchange::read(Deadline deadline) {
  for (;;) {
    if (auto piece = ready()) co_return *std::move(piece);
    if (stream_->closed) co_return gone();
    if (!co_await stream_->readable.wait(deadline) && stream_->in.empty() && !stream_->ended &&
        !stream_->closed)
      co_return fail(Code::timeout, "no data from the application in time");
  }
}

// ----------------------------------------------------------------------------------------------
// connection

void Connection::start() {
  asio::co_spawn(
      executor_, [self = shared_from_this()]() -> Task<void> { co_await self->read_loop(); },
      [self = shared_from_this()](const std::exception_ptr&) { self->close(); });
  asio::co_spawn(
      executor_, [self = shared_from_this()]() -> Task<void> { co_await self->write_loop(); },
      [self = shared_from_this()](const std::exception_ptr&) { self->close(); });
}

void Connection::close() {
  if (std::exchange(over_, true)) return;
  stream_->close();
  for (auto& [id, stream] : std::exchange(streams_, {})) stream->close(0);
  output_.notify();
}

Task<void> Connection::read_loop() {
  while (!over_) {
    const auto bytes = co_await stream_->read(kForever);
    if (!bytes || bytes->empty()) break;
    const auto fed = session_->receive(*bytes);
    flush();
    if (!fed) break;
  }
  going_ = true;  // until close() is called by the task's end
}

Task<void> Connection::write_loop() {
  std::string out;
  while (!over_) {
    out.clear();
    if (!session_->take_output(out)) {
      if (!session_->alive()) co_return;
      (void)co_await output_.wait(kForever);
      continue;
    }
    if (!co_await stream_->write(out, Deadline::in(kWriteTimeout))) co_return;
  }
}

Result<std::unique_ptr<UpstreamExchange>> Connection::open(const UpstreamRequest& request) {
  if (!usable()) return fail(Code::unavailable, "the application closed the connection");
  wire::Headers headers{{":method", request.method},
                        {":scheme", "http"},
                        {":authority", request.authority},
                        {":path", request.target}};
  headers.insert(headers.end(), request.headers.begin(), request.headers.end());
  if (request.length) headers.push_back({"content-length", std::to_string(*request.length)});
  auto stream = std::make_shared<Stream>(executor_);
  FB_TRY_ASSIGN(stream->id, session_->request(headers, !request.has_body));
  streams_[stream->id] = stream;
  flush();
  return std::make_unique<Exchange>(shared_from_this(), std::move(stream));
}

void Connection::forget(Stream& stream) {
  if (stream.closed || over_) return;
  stream.closed = true;
  streams_.erase(stream.id);
  session_->reset(stream.id, wire::H2Error::cancel);
  flush();
}

void Connection::on_headers(wire::StreamId id, wire::Headers headers, bool) {
  const auto stream = find(id);
  if (!stream) return;
  UpstreamHead head;
  const std::string_view status = wire::find_header(headers, ":status");
  std::from_chars(status.data(), status.data() + status.size(), head.status);
  std::erase_if(headers, [](const auto& field) { return field.name.starts_with(':'); });
  head.headers = std::move(headers);
  stream->head = std::move(head);
  stream->readable.notify();
}

void Connection::on_trailers(wire::StreamId id, wire::Headers trailers) {
  if (const auto stream = find(id)) stream->trailers = std::move(trailers);
}

void Connection::on_data(wire::StreamId id, std::string_view bytes) {
  const auto stream = find(id);
  if (!stream) return;
  stream->in.append(bytes);
  stream->readable.notify();
}

void Connection::on_end(wire::StreamId id) {
  const auto stream = find(id);
  if (!stream) return;
  stream->ended = true;
  stream->readable.notify();
}

void Connection::on_writable(wire::StreamId id) {
  if (const auto stream = find(id)) stream->writable.notify();
}

void Connection::on_closed(wire::StreamId id, std::uint32_t error_code) {
  const auto stream = find(id);
  if (!stream) return;
  streams_.erase(id);
  stream->close(error_code);
}

}  // namespace

std::shared_ptr<Http2Upstream> Http2Upstream::over(const asio::any_io_executor& executor,
                                                   std::unique_ptr<ByteStream> stream) {
  auto connection = std::make_shared<Connection>(executor, std::move(stream));
  connection->start();
  return connection;
}

}  // namespace firebreak::net
