// TLS: the local CA's files, HTTPS by our client and by the usual tools, broken peers.
#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "net/http_test_support.h"
#include "net/tcp_stream.h"
#include "net/tls_identity.h"
#include "net/tls_stream.h"
#include "net/websocket.h"

namespace firebreak::net {
namespace {

class TlsTest : public HttpTest {
 protected:
  TlsTest() : dir_(testing::TempDir() + "/fb-tls-" + sys::random_hex(6)) {}
  ~TlsTest() override { (void)sys::remove_tree(dir_); }

  LocalIdentity identity(const std::vector<std::string>& names) {
    auto made = make_local_ca(dir_, names);
    EXPECT_TRUE(made) << made.error().text();
    return made.value_or(LocalIdentity{});
  }
  std::string port() const { return server_->address().substr(server_->address().rfind(':')); }

  // Runs a command while the event loop serves; nullopt when the program is not installed.
  std::optional<std::string> shell(const std::string& command) {
    std::string out;
    int status = -1;
    bool done = false;
    std::thread thread([&] {
      FILE* pipe = popen((command + " 2>&1").c_str(), "r");
      std::array<char, 4096> buffer{};
      while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
        out.append(buffer.data(), n);
      status = pclose(pipe);
      asio::post(io_, [&] { done = true; });
    });
    run([&]() -> Task<void> {
      while (!done) co_await pause(5ms);
    });
    thread.join();
    if (WEXITSTATUS(status) == 127) return std::nullopt;
    return out;
  }

  std::string dir_;
};

TEST_F(TlsTest, MakesAnIdentityOnceAndRenewsItForOtherNames) {
  const LocalIdentity made = identity({"localhost", "*.box.test", "127.0.0.1"});
  const auto ca = sys::read_file(made.ca_file).value_or("");
  const auto server = sys::read_file(made.server.certificate_file).value_or("");
  for (const std::string& key : {dir_ + "/ca.key", dir_ + "/server.key"}) {
    struct stat info{};
    ASSERT_EQ(stat(key.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
  }
  identity({"localhost", "*.box.test", "127.0.0.1"});
  EXPECT_EQ(*sys::read_file(made.server.certificate_file), server);
  identity({"localhost", "other.test"});
  EXPECT_NE(*sys::read_file(made.server.certificate_file), server);
  EXPECT_EQ(*sys::read_file(made.ca_file), ca);
  // A damaged server certificate is made anew, a damaged CA is reported.
  ASSERT_TRUE(sys::write_file(made.server.certificate_file, "x"));
  EXPECT_TRUE(make_local_ca(dir_, {"localhost"}));
  ASSERT_TRUE(sys::write_file(dir_ + "/ca.key", "x"));
  EXPECT_EQ(make_local_ca(dir_, {"localhost"}).error().code, Code::corrupt);
  EXPECT_EQ(make_local_ca(dir_, {"a,DNS:evil"}).error().code, Code::invalid);
  EXPECT_EQ(make_local_ca(dir_, {}).error().code, Code::invalid);
}

TEST_F(TlsTest, ServesHttpsToAClientThatVerifies) {
  const LocalIdentity made = identity({"localhost", "127.0.0.1"});
  std::string sni = "?";
  serve(
      [&](HttpExchange& exchange) -> Task<void> {
        EXPECT_TRUE(exchange.request().tls);
        sni = exchange.request().sni;
        co_await echo(exchange);
      },
      {}, made.server);
  run([&]() -> Task<void> {
    const HttpCall call{.method = "POST", .host = "x", .body = std::string(3'000'000, 'b')};
    for (const std::string host : {"localhost", "127.0.0.1"}) {
      const std::string url = "https://" + host + port();
      auto stream = co_await connect_url(url, made.ca_file, soon());
      CO_REQUIRE(stream);
      for (int i = 0; i < 3; ++i) {
        auto reply = co_await http_call(**stream, call, soon());
        CO_REQUIRE(reply);
        EXPECT_EQ(reply->body, call.body);
      }
      EXPECT_EQ(sni, host == "localhost" ? "localhost" : "");
    }
  });
}

TEST_F(TlsTest, RefusesWhatCannotBeVerified) {
  const LocalIdentity made = identity({"other.test"});
  serve(echo, {}, made.server);
  run([&]() -> Task<void> {
    const std::string url = "https://localhost" + port();
    auto wrong_name = co_await connect_url(url, made.ca_file, soon());
    EXPECT_FALSE(wrong_name);
    auto unknown = co_await connect_url(url, "", soon());
    EXPECT_FALSE(unknown);
    EXPECT_NE(unknown.error().message.find("certificate"), std::string::npos)
        << unknown.error().text();
    auto no_file = co_await connect_url(url, dir_ + "/none.pem", soon());
    EXPECT_FALSE(no_file);
  });
}

TEST_F(TlsTest, EndsBrokenAndSlowHandshakes) {
  const LocalIdentity made = identity({"localhost"});
  HttpLimits limits;
  limits.tls_timeout = 1s;
  serve(echo, limits, made.server);
  run([&]() -> Task<void> {
    const auto begin = std::chrono::steady_clock::now();
    (void)co_await raw("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    (void)co_await raw("\x16\x03\x01");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    auto stream = co_await connect_url("https://localhost" + port(), made.ca_file, soon());
    CO_REQUIRE(stream);
  });
}

TEST_F(TlsTest, ChoosesTheProtocolByAlpn) {
  const LocalIdentity made = identity({"localhost"});
  serve(echo, {}, made.server);
  run([&]() -> Task<void> {
    auto tcp = co_await connect_tcp("127.0.0.1", port().substr(1), soon());
    CO_REQUIRE(tcp);
    auto h2 = co_await connect_tls(*std::move(tcp), "localhost", made.ca_file, {"h2"}, soon());
    CO_REQUIRE(h2);
    EXPECT_EQ(h2->protocol, "h2");
    tcp = co_await connect_tcp("127.0.0.1", port().substr(1), soon());
    CO_REQUIRE(tcp);
    auto none = co_await connect_tls(*std::move(tcp), "localhost", made.ca_file, {"xx"}, soon());
    EXPECT_FALSE(none);
  });
}

TEST_F(TlsTest, CarriesWebSockets) {
  const LocalIdentity made = identity({"localhost"});
  serve(
      [](HttpExchange& exchange) -> Task<void> {
        auto socket = co_await accept_websocket(exchange, "", soon());
        CO_REQUIRE(socket);
        for (;;) {
          auto message = co_await (*socket)->read(soon());
          CO_REQUIRE(message);
          if (!*message) co_return;
          (void)co_await (*socket)->write(true, (*message)->data, soon());
        }
      },
      {}, made.server);
  run([&]() -> Task<void> {
    auto stream = co_await connect_url("https://localhost" + port(), made.ca_file, soon());
    CO_REQUIRE(stream);
    auto socket = co_await open_websocket(*std::move(stream), "localhost", "/", {}, {}, soon());
    CO_REQUIRE(socket);
    const std::string data(500'000, 'd');
    CO_REQUIRE(co_await (*socket)->write(true, data, soon()));
    auto message = co_await (*socket)->read(soon());
    CO_REQUIRE(message);
    EXPECT_EQ((*message)->data.size(), data.size());
    CO_REQUIRE(co_await (*socket)->close(1000, "", soon()));
    EXPECT_FALSE((co_await (*socket)->read(soon())).value_or(WebSocketMessage{}));
  });
}

TEST_F(TlsTest, ServesCurl) {
  const LocalIdentity made = identity({"localhost", "127.0.0.1"});
  serve(echo, {}, made.server);
  const std::string url = "https://localhost" + port();
  const std::string curl = "curl -sS --max-time 20 --cacert " + made.ca_file;
  const auto h2 = shell(curl + " --http2 -w ' %{http_version}' " + url + "/a");
  ASSERT_TRUE(h2) << "curl did not run; tools/packages/test.txt names it";
  EXPECT_EQ(*h2, "GET /a localhost" + port() + " 2");
  EXPECT_EQ(shell(curl + " --http1.1 -w ' %{http_version}' " + url + "/a"),
            "GET /a localhost" + port() + " 1.1");
  const std::string upload =
      "head -c 20000000 /dev/zero | " + curl + " -T - -o /dev/null -w '%{size_download}' ";
  EXPECT_EQ(shell(upload + "--http1.1 " + url + "/up"), "20000000");
  EXPECT_EQ(shell(upload + "--http2 " + url + "/up"), "20000000");
}

TEST_F(TlsTest, ServesNghttp) {
  serve(echo);
  const auto out = shell("nghttp -nsm 20 http://" + server_->address() + "/a");
  ASSERT_TRUE(out) << "nghttp did not run; tools/packages/test.txt names it";
  EXPECT_NE(out->find("200"), std::string::npos) << *out;
}

}  // namespace
}  // namespace firebreak::net
