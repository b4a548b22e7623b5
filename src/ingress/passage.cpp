#include "ingress/passage.h"

#include "net/race.h"

namespace firebreak::ingress {
namespace {

// For a client that does not read.
constexpr std::chrono::minutes kWriteTime{10};
// For the last bytes of a WebSocket to be taken before its connection is closed.
constexpr std::chrono::seconds kLinger{2};
// An answer that comes within this time is waited for without watching the client.
constexpr std::chrono::milliseconds kQuick{100};

Deadline stream_deadline() {
  return Deadline::in(kStreamTime);
}

Deadline write_deadline() {
  return Deadline::in(kWriteTime);
}

bool has_body(const std::string& method, int status) {
  return method != "HEAD" && status != 204 && status != 304;
}

// Small heads cost as well; their exact size is nobody's concern.
std::size_t head_size(const wire::Headers& headers) {
  std::size_t size = 0;
  for (const wire::HeaderField& field : headers) size += field.name.size() + field.value.size() + 4;
  return size;
}

}  // namespace

bool Passage::count(std::size_t in, std::size_t out) {
  guest_.relayed(in, out);
  return limits_.bytes_per_second != 0;
}

net::Task<void> Passage::pace(std::size_t bytes) {
  const auto wait = backend_.byte_rate.pace(bytes, limits_.bytes_per_second, Rate::Clock::now());
  if (wait <= Rate::Clock::duration::zero()) co_return;
  net::Event pause(co_await net::asio::this_coro::executor);
  (void)co_await pause.wait(Deadline::in(wait));
}

// Returns when the client is gone; an application that takes no more may still answer.
net::Task<void> Passage::client_side(net::UpstreamExchange& server, bool has_body) {
  while (has_body) {
    auto bytes = co_await client_.read(stream_deadline());
    if (!bytes) co_return;
    if (bytes->empty()) {
      (void)co_await server.finish(write_deadline());
      break;
    }
    if (count(bytes->size(), 0)) co_await pace(bytes->size());
    if (!co_await server.write(*bytes, write_deadline())) break;
  }
  (void)co_await client_.wait_gone(stream_deadline());
}

net::Task<Result<>> Passage::server_side(net::UpstreamExchange& server) {
  if (!head_) {
    FB_CO_TRY_ASSIGN(head_, co_await server.head(stream_deadline()));
  }
  if (switched()) co_return Result<>();
  auto piece = first_ ? std::exchange(first_, {}) : server.ready();
  if (piece && piece->last) co_return co_await whole_answer(server, std::move(piece->bytes));
  const int status = head_->status;
  const std::size_t head_bytes = head_size(head_->headers);
  if (count(0, head_bytes)) co_await pace(head_bytes);
  wire::Headers headers = to_client(std::move(head_->headers), route_, endpoint_);
  FB_CO_TRY(co_await client_.start(status, std::move(headers), write_deadline()));
  const bool body = has_body(client_.request().method, status);
  for (;;) {
    if (!piece) {
      FB_CO_TRY_ASSIGN(piece, co_await server.read(stream_deadline()));
    }
    if (body && !piece->bytes.empty()) {
      if (count(0, piece->bytes.size())) co_await pace(piece->bytes.size());
      FB_CO_TRY(co_await client_.write(piece->bytes, write_deadline()));
    }
    if (piece->last) break;
    piece.reset();
  }
  co_return co_await client_.finish(write_deadline(), server.trailers());
}

// Everything of it is here: one write, where the client's protocol allows.
net::Task<Result<>> Passage::whole_answer(net::UpstreamExchange& server, std::string body) {
  const int status = head_->status;
  const std::size_t size = head_size(head_->headers) + body.size();
  if (count(0, size)) co_await pace(size);
  wire::Headers headers = to_client(std::move(head_->headers), route_, endpoint_);
  if (has_body(client_.request().method, status) && server.trailers().empty())
    co_return co_await client_.reply(status, std::move(headers), std::move(body), write_deadline());
  FB_CO_TRY(co_await client_.start(status, std::move(headers), write_deadline()));
  if (!body.empty()) FB_CO_TRY(co_await client_.write(body, write_deadline()));
  co_return co_await client_.finish(write_deadline(), server.trailers());
}

net::Task<Result<>> Passage::run(net::UpstreamExchange& server, bool has_body) {
  if (!has_body) {
    // Most answers are short and quick. Watching the client meanwhile would cost as much as all the
    // rest; one that leaves in this time is noticed after it.
    auto head = co_await server.head(Deadline::in(kQuick));
    if (!head && head.error().code != Code::timeout)
      co_return std::unexpected(std::move(head).error());
    if (head) {
      head_ = *std::move(head);
      if (switched()) co_return Result<>();
      auto piece = server.ready();
      if (piece && piece->last) co_return co_await whole_answer(server, std::move(piece->bytes));
      first_ = std::move(piece);
    }
  }
  auto either = co_await net::race(client_side(server, has_body), server_side(server));
  if (either.index() == 1) co_return std::get<1>(either);
  // What the client waited for may have been the answer that is complete by now.
  if (client_.started()) co_return Result<>();
  co_return fail(Code::unavailable, "the client went away");
}

net::Task<void> Passage::copy(net::ByteStream& from, net::ByteStream& to, bool inwards) {
  for (;;) {
    auto bytes = co_await from.read(stream_deadline());
    if (!bytes) co_return;
    if (bytes->empty()) {
      (void)co_await to.finish(write_deadline());
      co_return;
    }
    if (count(inwards ? bytes->size() : 0, inwards ? 0 : bytes->size()))
      co_await pace(bytes->size());
    if (!co_await to.write(*bytes, write_deadline())) co_return;
  }
}

net::Task<Result<>> Passage::relay(std::unique_ptr<net::ByteStream> server) {
  wire::Headers headers = to_client(std::move(head_->headers), route_, endpoint_);
  // A browser drops a connection for which none of its subprotocols was chosen.
  if (route_.platform_protocols && wire::find_header(headers, "sec-websocket-protocol").empty())
    headers.push_back({"sec-websocket-protocol", std::string(kMarkerProtocol)});
  FB_CO_TRY_ASSIGN(auto client, co_await client_.upgrade(std::move(headers), write_deadline()));
  auto either = co_await net::race(copy(*client, *server, true), copy(*server, *client, false));
  server->close();
  if (either.index() == 1) {
    const Deadline linger = Deadline::in(kLinger);
    for (;;) {
      auto rest = co_await client->read(linger);
      if (!rest || rest->empty()) break;
    }
  }
  co_return Result<>();
}

}  // namespace firebreak::ingress
