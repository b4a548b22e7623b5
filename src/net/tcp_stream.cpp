#include "net/tcp_stream.h"

#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>

namespace firebreak::net {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kSmallRead = 4096;
constexpr std::size_t kLargeRead = 64UL * 1024;
constexpr std::size_t kWriteChunk = 256UL * 1024;

// Lives on in the handlers of its operations when the stream is gone.
struct Tcp : std::enable_shared_from_this<Tcp> {
  explicit Tcp(tcp::socket connected)
      : socket(std::move(connected)),
        readable(socket.get_executor()),
        writable(socket.get_executor()) {}

  void start_read();
  void start_write(std::string_view bytes);
  void end(Error error);

  tcp::socket socket;
  Event readable;
  Event writable;
  std::string buffer;                  // of the pending read; kept for the next
  std::size_t read_size = kSmallRead;  // an idle connection holds little, a busy one reads much
  std::string in;
  std::string out;  // of the pending write
  bool reading = false;
  bool writing = false;
  bool at_end = false;
  std::optional<Error> failure;
};

void Tcp::start_read() {
  if (reading) return;
  reading = true;
  if (buffer.size() != read_size) {
    buffer.resize(read_size);
    buffer.shrink_to_fit();
  }
  socket.async_read_some(
      asio::buffer(buffer), [self = shared_from_this()](error_code ec, std::size_t size) {
        self->reading = false;
        if (size == self->read_size) {
          self->read_size = kLargeRead;
        } else if (size < kSmallRead) {
          self->read_size = kSmallRead;
        }
        self->in.assign(self->buffer, 0, size);
        if (ec == asio::error::eof) {
          self->at_end = true;
        } else if (ec) {
          self->end({Code::unavailable, "the connection was lost", ec.message()});
        }
        self->readable.notify();
      });
}

void Tcp::start_write(std::string_view bytes) {
  writing = true;
  out.assign(bytes);
  asio::async_write(socket, asio::buffer(out),
                    [self = shared_from_this()](error_code ec, std::size_t) {
                      self->writing = false;
                      self->out = {};
                      if (ec)
                        self->end({Code::unavailable, "the connection was lost", ec.message()});
                      self->writable.notify();
                    });
}

void Tcp::end(Error error) {
  if (!failure) failure = std::move(error);
  error_code ignored;
  socket.close(ignored);
  readable.notify();
  writable.notify();
}

class TcpStream : public ByteStream {
 public:
  explicit TcpStream(tcp::socket socket) : tcp_(std::make_shared<Tcp>(std::move(socket))) {
    error_code ignored;
    tcp_->socket.non_blocking(true, ignored);
    tcp_->socket.set_option(tcp::no_delay(true), ignored);
  }
  ~TcpStream() override { close(); }
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  Task<Result<std::string>> read(Deadline deadline) override {
    const auto tcp = tcp_;
    while (tcp->in.empty()) {
      if (tcp->failure) co_return std::unexpected(*tcp->failure);
      if (tcp->at_end) co_return std::string();
      tcp->start_read();
      if (!co_await tcp->readable.wait(deadline) && tcp->in.empty() && !tcp->at_end &&
          !tcp->failure)
        co_return fail(Code::timeout, "no data came in time");
    }
    co_return std::exchange(tcp->in, {});
  }

  Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    const auto tcp = tcp_;
    if (tcp->failure) co_return std::unexpected(*tcp->failure);
    if (!bytes.empty()) {
      // Mostly the kernel takes it all, without a turn of the event loop.
      error_code ec;
      bytes.remove_prefix(tcp->socket.write_some(asio::buffer(bytes), ec));
    }
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kWriteChunk);
      bytes.remove_prefix(piece.size());
      tcp->start_write(piece);
      while (tcp->writing && !tcp->failure) {
        if (!co_await tcp->writable.wait(deadline) && tcp->writing && !tcp->failure)
          tcp->end({Code::timeout, "the peer did not take the data in time", {}});
      }
      if (tcp->failure) co_return std::unexpected(*tcp->failure);
    }
    co_return Result<>();
  }

  Task<Result<>> finish(Deadline) override {
    error_code ec;
    tcp_->socket.shutdown(tcp::socket::shutdown_send, ec);
    if (ec) co_return fail(Code::unavailable, "the connection was lost", ec.message());
    co_return Result<>();
  }

  void close() override { tcp_->end({Code::unavailable, "the connection was closed", {}}); }

 private:
  std::shared_ptr<Tcp> tcp_;
};

// Lives on in the handlers of resolver and socket when the caller gave up.
struct Connecting {
  explicit Connecting(const asio::any_io_executor& executor)
      : resolver(executor), socket(executor), done(executor) {}
  tcp::resolver resolver;
  tcp::socket socket;
  Event done;
  tcp::resolver::results_type endpoints;
  std::optional<error_code> result;
};

}  // namespace

std::unique_ptr<ByteStream> make_tcp_stream(tcp::socket socket) {
  return std::make_unique<TcpStream>(std::move(socket));
}

Task<Result<std::unique_ptr<ByteStream>>> connect_tcp(std::string host, std::string port,
                                                      Deadline deadline) {
  const auto state = std::make_shared<Connecting>(co_await asio::this_coro::executor);
  state->resolver.async_resolve(host, port,
                                [state](error_code ec, tcp::resolver::results_type endpoints) {
                                  state->result = ec;
                                  state->endpoints = std::move(endpoints);
                                  state->done.notify();
                                });
  while (!state->result)
    if (!co_await state->done.wait(deadline) && !state->result)
      co_return fail(Code::timeout, "finding the address of " + host + " took too long");
  if (*state->result)
    co_return fail(Code::unavailable, "there is no address for " + host, state->result->message());
  state->result.reset();
  asio::async_connect(state->socket, state->endpoints,
                      [state](error_code ec, const tcp::endpoint&) {
                        state->result = ec;
                        state->done.notify();
                      });
  while (!state->result) {
    if (!co_await state->done.wait(deadline) && !state->result) {
      error_code ignored;
      state->socket.close(ignored);
      co_return fail(Code::timeout, "connecting to " + host + " took too long");
    }
  }
  if (*state->result)
    co_return fail(Code::unavailable, "cannot connect to " + host + ":" + port,
                   state->result->message());
  co_return make_tcp_stream(std::move(state->socket));
}

}  // namespace firebreak::net
