#include "image/guest_stream.h"

namespace firebreak::image {
namespace {

class GuestStream final : public net::ByteStream {
 public:
  explicit GuestStream(std::unique_ptr<net::ChannelStream> stream) : stream_(std::move(stream)) {}

  net::Task<Result<std::string>> read(Deadline deadline) override {
    return stream_->read(deadline);
  }
  net::Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    return stream_->write(bytes, deadline);
  }
  net::Task<Result<>> finish(Deadline) override {
    stream_->finish();
    co_return Result<>();
  }
  void close() override { stream_->cancel(); }
  bool quiet() const override { return stream_->quiet(); }

 private:
  std::unique_ptr<net::ChannelStream> stream_;
};

net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_to(machine::AgentClient& agent,
                                                               std::uint16_t port,
                                                               std::string_view host,
                                                               Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      auto stream,
      agent.data_stream(
          "POST", "/tunnel?port=" + std::to_string(port) + "&host=" + std::string(host), false));
  FB_CO_TRY_ASSIGN(const net::Reply head, co_await stream->head(deadline));
  if (head.status == 200) {
    std::unique_ptr<net::ByteStream> out = std::make_unique<GuestStream>(std::move(stream));
    co_return out;
  }
  stream->cancel();
  if (head.status == 502) {
    co_return fail(Code::unavailable, "nothing listens on port " + std::to_string(port));
  }
  co_return fail(Code::guest, "the tunnel was refused with status " + std::to_string(head.status));
}

}  // namespace

net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_guest(machine::AgentClient& agent,
                                                                  std::uint16_t port,
                                                                  Deadline deadline) {
  auto first = co_await connect_to(agent, port, "127.0.0.1", deadline);
  if (first || first.error().code != Code::unavailable) co_return first;
  auto second = co_await connect_to(agent, port, "::1", deadline);
  if (second) co_return second;
  co_return first;
}

}  // namespace firebreak::image
