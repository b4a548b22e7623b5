// Clients without a key take every connection the API's listener has, and take them again as soon
// as they lose them. Whoever has a key is served all the same.
#include <atomic>
#include <thread>

#include <arpa/inet.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/text.h"
#include "server/api_fixture.h"
#include "wire/h2_session.h"

namespace firebreak::testing_support {
namespace {

constexpr std::size_t kListener = 4096;  // connections it takes
constexpr std::size_t kCrowd = 4200;
// Less than the two minutes after which an idle connection would be closed anyway.
constexpr std::chrono::seconds kPatience{60};

// Connections that send the same bytes, take what they get, and come again when they are closed.
class Crowd {
 public:
  Crowd(std::uint16_t port, std::string request)
      : request_(std::move(request)), waits_(kCrowd), sockets_(kCrowd) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(port);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    thread_ = std::thread([this] { run(); });
  }
  ~Crowd() {
    stop_ = true;
    thread_.join();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  std::size_t answers() const { return answers_; }
  // As many answers as there are places have come, or that many more.
  bool wait_answers(std::size_t count) const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (answers_ < count && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return answers_ >= count;
  }

 private:
  void open(std::size_t at) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // Closed without a trace: the host must not run out of ports.
    const linger none{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
    waits_[at] = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
    sockets_[at] = std::move(fd);
  }
  void serve(std::size_t at) {
    pollfd& wait = waits_[at];
    if ((wait.revents & POLLOUT) != 0) {
      const auto sent = ::send(wait.fd, request_.data(), request_.size(), MSG_NOSIGNAL);
      if (sent < 0) return open(at);
      wait.events = POLLIN;
      return;
    }
    char bytes[4096];
    const auto got = ::recv(wait.fd, bytes, sizeof bytes, 0);
    if (got <= 0) return open(at);
    ++answers_;
  }
  void run() {
    for (std::size_t at = 0; at < kCrowd; ++at) open(at);
    while (!stop_) {
      if (::poll(waits_.data(), waits_.size(), 100) <= 0) continue;
      for (std::size_t at = 0; at < kCrowd; ++at) {
        if (waits_[at].revents != 0) serve(at);
      }
    }
  }

  const std::string request_;
  sockaddr_in address_{};
  std::vector<pollfd> waits_;
  std::vector<UniqueFd> sockets_;
  std::atomic<std::size_t> answers_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct NoAnswers : wire::H2Handler {
  void on_headers(wire::StreamId, wire::Headers, bool) override {}
  void on_data(wire::StreamId, std::string_view) override {}
  void on_end(wire::StreamId) override {}
  void on_closed(wire::StreamId, std::uint32_t) override {}
};

std::string http2_request() {
  NoAnswers nobody;
  const auto session = wire::H2Session::client({}, nobody);
  EXPECT_TRUE(session->request({{":method", "GET"},
                                {":scheme", "http"},
                                {":authority", "box.test"},
                                {":path", "/v1/microvms"},
                                {"authorization", "Bearer wrong"}},
                               true));
  std::string out;
  EXPECT_TRUE(session->take_output(out));
  return out;
}

struct Kind {
  std::string name;
  std::string request;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class Strangers : public Api, public ::testing::WithParamInterface<Kind> {
 protected:
  // One call through a connection that stays open, or through a new one.
  static net::Task<int> ask(std::unique_ptr<net::ByteStream>& stream) {
    if (!stream) {
      auto made = co_await net::connect_url(server->url(), "", Deadline::in(kPatience));
      if (!made) co_return 0;
      stream = *std::move(made);
    }
    const net::HttpCall call{.method = "GET",
                             .target = "/v1/microvms",
                             .host = "box.test",
                             .headers = {{"authorization", "Bearer " + server->api_key()}},
                             .body = {}};
    const auto reply = co_await net::http_call(*stream, call, Deadline::in(kPatience));
    co_return reply ? reply->status : 0;
  }
  static void run(net::Task<void> body) {
    net::asio::io_context io(1);
    net::asio::co_spawn(io, std::move(body), [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);
    });
    io.run();
  }
};

TEST_P(Strangers, KeepNobodyWithAKeyOut) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < kCrowd + 1000) GTEST_SKIP() << "too few descriptors for a crowd";

  const std::string url = server->url();
  const auto port = static_cast<std::uint16_t>(*parse_u64(url.substr(url.rfind(':') + 1)));
  const auto attack = [&]() -> net::Task<void> {
    std::unique_ptr<net::ByteStream> known;
    EXPECT_EQ(co_await ask(known), 200);
    const Crowd crowd(port, GetParam().request);
    EXPECT_TRUE(crowd.wait_answers(kListener)) << crowd.answers();
    for (int i = 0; i < 5; ++i) {
      std::unique_ptr<net::ByteStream> fresh;
      EXPECT_EQ(co_await ask(fresh), 200);
      EXPECT_EQ(co_await ask(known), 200);
      const std::size_t before = crowd.answers();
      EXPECT_TRUE(crowd.wait_answers(before + 1)) << "nobody comes again";
    }
  };
  run(attack());
}

INSTANTIATE_TEST_SUITE_P(
    Api, Strangers,
    ::testing::Values(
        Kind{"WrongKey",
             "GET /v1/microvms HTTP/1.1\r\nhost: a\r\nauthorization: Bearer wrong\r\n\r\n"},
        Kind{"WrongSignature",
             "GET /2025-09-09/microvms HTTP/1.1\r\nhost: a\r\nauthorization: AWS4-HMAC-SHA256 "
             "Credential=AKIANOBODY/20260101/us-east-1/lambda/aws4_request, SignedHeaders=host, "
             "Signature=00\r\n\r\n"},
        Kind{"WrongKeyOverHttp2", http2_request()},
        Kind{"WithoutOne", "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace firebreak::testing_support
