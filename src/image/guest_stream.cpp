#include "image/guest_stream.h"

namespace firebreak::image {
namespace {

// `first`: sent with the request, to be the connection's first bytes.
net::Task<Result<std::unique_ptr<net::ChannelStream>>> connect_to(machine::AgentClient& agent,
                                                                  std::uint16_t port,
                                                                  std::string_view host,
                                                                  std::string_view first,
                                                                  Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      auto stream,
      agent.data_stream(
          "POST", "/tunnel?port=" + std::to_string(port) + "&host=" + std::string(host), false));
  FB_CO_TRY(co_await stream->write(first, deadline));
  FB_CO_TRY_ASSIGN(const net::Reply head, co_await stream->head(deadline));
  if (head.status == 200) co_return stream;
  stream->cancel();
  if (head.status == 502) {
    co_return fail(Code::unavailable, "nothing listens on port " + std::to_string(port));
  }
  co_return fail(Code::guest, "the tunnel was refused with status " + std::to_string(head.status));
}

class GuestStream final : public net::ByteStream {
 public:
  GuestStream(machine::AgentClient& agent, std::uint16_t port) : agent_(agent), port_(port) {}

  net::Task<Result<>> connect(std::string_view first, Deadline deadline) {
    auto v4 = co_await connect_to(agent_, port_, "127.0.0.1", first, deadline);
    if (!v4 && v4.error().code == Code::unavailable) {
      if (auto v6 = co_await connect_to(agent_, port_, "::1", first, deadline)) v4 = std::move(v6);
    }
    if (!v4) co_return std::unexpected(std::move(v4).error());
    stream_ = *std::move(v4);
    co_return Result<>();
  }

  net::Task<Result<std::string>> read(Deadline deadline) override {
    return stream_ ? stream_->read(deadline) : read_nothing();
  }
  net::Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    return stream_ ? stream_->write(bytes, deadline) : connect(bytes, deadline);
  }
  net::Task<Result<>> finish(Deadline) override {
    if (!stream_) co_return not_connected();
    stream_->finish();
    co_return Result<>();
  }
  void close() override {
    if (stream_) stream_->cancel();
  }
  bool quiet() const override { return stream_ && stream_->quiet(); }

 private:
  static std::unexpected<Error> not_connected() {
    return fail(Code::unavailable, "the port was not connected to");
  }
  static net::Task<Result<std::string>> read_nothing() { co_return not_connected(); }

  machine::AgentClient& agent_;  // used until connected
  const std::uint16_t port_;
  std::unique_ptr<net::ChannelStream> stream_;
};

}  // namespace

net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_guest(machine::AgentClient& agent,
                                                                  std::uint16_t port,
                                                                  Deadline deadline) {
  auto stream = std::make_unique<GuestStream>(agent, port);
  FB_CO_TRY(co_await stream->connect({}, deadline));
  co_return stream;
}

std::unique_ptr<net::ByteStream> speak_to_guest(machine::AgentClient& agent, std::uint16_t port) {
  return std::make_unique<GuestStream>(agent, port);
}

}  // namespace firebreak::image
