// 1 GiB each way through the endpoint of a real microVM: every byte arrives, and the server's
// memory stays as it was.
#include <thread>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "base/text.h"
#include "net/upstream.h"
#include "server/server_process.h"
#include "support/run_task.h"
#include "wire/checksum.h"

namespace firebreak::testing_support {
namespace {

constexpr std::uint64_t kBlocks = 1024;
constexpr std::size_t kBlock = 1 << 20;
constexpr std::uint64_t kMostGrowthKib = 24UL * 1024;

// Blocks of 1 MiB that begin with their number; an upload is answered with its size and CRC-32.
constexpr const char* kApp = R"(
import http.server, struct, zlib
rest = bytes(range(256)) * 4096
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        count = int(self.path[1:])
        self.send_response(200)
        self.send_header("content-length", str(count << 20))
        self.end_headers()
        for number in range(count): self.wfile.write(struct.pack("<Q", number) + rest[8:])
    def do_PUT(self):
        left = size = int(self.headers["content-length"])
        room, crc = memoryview(bytearray(1 << 18)), 0
        while left > 0:
            got = self.rfile.readinto1(room[:min(left, len(room))])
            crc = zlib.crc32(room[:got], crc)
            left -= got
        body = ("%d %08x" % (size, crc)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", 8080), App).serve_forever()
)";

std::string block(std::uint64_t number) {
  std::string bytes(kBlock, '\0');
  for (std::size_t i = 0; i < kBlock; ++i)
    bytes[i] = static_cast<char>(i < 8 ? number >> (8 * i) : i);
  return bytes;
}

std::string text_of(wire::Checksum& sum) {
  const std::string bytes = sum.finish();
  return to_hex(std::as_bytes(std::span(bytes)));
}

// What a body of so many blocks is.
std::string sum_of(std::uint64_t blocks) {
  wire::Checksum sum(wire::Checksum::Kind::crc32);
  for (std::uint64_t i = 0; i < blocks; ++i) sum.update(block(i));
  return text_of(sum);
}

class EndpointBulk : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.start()) << server_.log();
    ASSERT_TRUE(server_.wait_python()) << server_.log();
    const Answer made = server_.call("POST", "/v1/microvms", json::object{{"image", "python"}});
    const std::string id = made.text_of("id");
    const std::string endpoint = made.text_of("endpoint");
    ASSERT_FALSE(endpoint.empty()) << made.text;
    place_ = endpoint.substr(endpoint.find('/'));
    server_.call("POST", "/v1/microvms/" + id + "/execs",
                 json::object{{"argv", json::array{"python3", "-c", kApp}}});
    token_ = server_.call("POST", "/v1/microvms/" + id + "/tokens", json::object{{"ports", 8080}})
                 .text_of("token");
    for (int i = 0; i < 300 && !run_task(download(1)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  std::uint64_t resident_kib() const {
    const auto text = sys::read_file("/proc/" + std::to_string(server_.pid()) + "/status");
    const auto at = text ? text->find("VmRSS:") : std::string::npos;
    return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at + 6, nullptr, 10);
  }
  void watch() { most_ = std::max(most_, resident_kib()); }

  net::Task<Result<std::unique_ptr<net::Http1Upstream>>> begin(net::UpstreamRequest request) {
    FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(server_.endpoint_url(),
                                                            server_.ca_file(), deadline()));
    request.authority = server_.endpoint_url().substr(8);
    request.headers.push_back({"x-aws-proxy-auth", token_});
    auto connection = net::Http1Upstream::over(std::move(stream));
    FB_CO_TRY(co_await connection->begin(request, deadline()));
    co_return connection;
  }
  net::Task<Result<>> check_head(net::UpstreamExchange& exchange) {
    FB_CO_TRY_ASSIGN(const net::UpstreamHead head, co_await exchange.head(deadline()));
    if (head.status == 200) co_return Result<>();
    co_return fail(Code::internal, "answered " + std::to_string(head.status));
  }

  net::Task<Result<>> download(std::uint64_t blocks) {
    FB_CO_TRY_ASSIGN(
        auto exchange,
        co_await begin({.method = "GET", .target = place_ + "/" + std::to_string(blocks)}));
    FB_CO_TRY(co_await check_head(*exchange));
    wire::Checksum sum(wire::Checksum::Kind::crc32);
    for (std::uint64_t size = 0;;) {
      FB_CO_TRY_ASSIGN(const net::UpstreamPiece piece, co_await exchange->read(deadline()));
      sum.update(piece.bytes);
      if ((size + piece.bytes.size()) / kBlock != size / kBlock) watch();
      size += piece.bytes.size();
      if (!piece.last) continue;
      if (size == blocks * kBlock && text_of(sum) == sum_of(blocks)) co_return Result<>();
      co_return fail(Code::corrupt, "other bytes came than were sent");
    }
  }
  net::Task<Result<>> upload(std::uint64_t blocks) {
    const std::uint64_t size = blocks * kBlock;
    FB_CO_TRY_ASSIGN(
        auto exchange,
        co_await begin(
            {.method = "PUT", .target = place_ + "/", .has_body = true, .length = size}));
    for (std::uint64_t i = 0; i < blocks; ++i) {
      FB_CO_TRY(co_await exchange->write(block(i), deadline()));
      watch();
    }
    FB_CO_TRY(co_await exchange->finish(deadline()));
    FB_CO_TRY(co_await check_head(*exchange));
    std::string answer;
    for (bool last = false; !last;) {
      FB_CO_TRY_ASSIGN(const net::UpstreamPiece piece, co_await exchange->read(deadline()));
      answer += piece.bytes;
      last = piece.last;
    }
    const std::string expected = std::to_string(size) + " " + sum_of(blocks);
    if (answer == expected) co_return Result<>();
    co_return fail(Code::corrupt, "the guest got " + answer + " instead of " + expected);
  }

  static Deadline deadline() { return Deadline::in(std::chrono::minutes(10)); }

  ServerProcess server_;
  std::string place_;
  std::string token_;
  std::uint64_t most_ = 0;
};

TEST_F(EndpointBulk, AGibibyteEachWayWithFlatMemory) {
  const std::uint64_t before = resident_kib();
  ASSERT_GT(before, 0U);
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&began] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  const Result<> down = run_task(download(kBlocks));
  EXPECT_TRUE(down) << down.error().text();
  const double down_seconds = seconds();
  const Result<> up = run_task(upload(kBlocks));
  EXPECT_TRUE(up) << up.error().text();
  EXPECT_LT(most_, before + kMostGrowthKib);
  RecordProperty("down_mib_per_second", std::to_string(kBlocks / down_seconds));
  RecordProperty("up_mib_per_second", std::to_string(kBlocks / (seconds() - down_seconds)));
  RecordProperty("growth_kib", std::to_string(most_ - before));
}

}  // namespace
}  // namespace firebreak::testing_support
