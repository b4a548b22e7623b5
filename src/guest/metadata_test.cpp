#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/metadata_listener.h"
#include "guest/metadata_server.h"
#include "guest/metadata_session.h"

namespace firebreak::guest {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kList = "/latest/meta-data/iam/security-credentials/";

const Metadata::Values kValues{.instance_id = "microvm-1",
                               .region = "eu-1",
                               .account = "123456789012",
                               .role = "execution_role",
                               .credentials = R"({"Code":"Success"})"};

class MetadataTest : public testing::Test {
 protected:
  // One request on a connection of its own, and what came back.
  std::string ask(const std::string& text) {
    MetadataSession session(metadata_);
    std::string out;
    open_ = session.receive(text, now_, out);
    return out;
  }
  std::string get(const std::string& path, const std::string& headers) {
    return ask("GET " + path + " HTTP/1.1\r\nHost: 169.254.169.254\r\n" + headers + "\r\n");
  }
  std::string put_token(const std::string& headers) {
    return ask("PUT /latest/api/token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + headers +
               "\r\n");
  }
  std::string token(int seconds = 60) {
    const std::string answer =
        put_token("X-aws-ec2-metadata-token-ttl-seconds: " + std::to_string(seconds) + "\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }
  std::string get(const std::string& path) {
    return get(path, "X-aws-ec2-metadata-token: " + token() + "\r\n");
  }

  Metadata metadata_;
  Metadata::Clock::time_point now_ = Metadata::Clock::now();
  bool open_ = false;
};

TEST_F(MetadataTest, TheHandshakeOfVersionTwoLeadsToTheCredentials) {
  metadata_.set(kValues);
  EXPECT_THAT(get(kList), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nexecution_role")));
  const std::string answer = get(std::string(kList) + "execution_role");
  EXPECT_THAT(answer, AllOf(HasSubstr("content-type: application/json\r\n"),
                            EndsWith("\r\n\r\n" + kValues.credentials)));
  EXPECT_THAT(get(std::string(kList).substr(0, 42)), EndsWith("execution_role"));
  EXPECT_THAT(get("/latest/meta-data/instance-id"), EndsWith("\r\n\r\nmicrovm-1"));
  EXPECT_THAT(get("/latest/meta-data/"), EndsWith("\r\n\r\niam/\ninstance-id\nplacement/"));
  EXPECT_THAT(get(std::string(kList) + "other"), StartsWith("HTTP/1.1 404 "));
  EXPECT_TRUE(open_);
}

TEST_F(MetadataTest, TellsWhereItRuns) {
  metadata_.set(kValues);
  EXPECT_THAT(get("/latest/meta-data/placement"), EndsWith("\r\n\r\navailability-zone\nregion"));
  EXPECT_THAT(get("/latest/meta-data/placement/region"), EndsWith("\r\n\r\neu-1"));
  EXPECT_THAT(get("/latest/meta-data/placement/availability-zone"), EndsWith("\r\n\r\neu-1a"));
  const std::string path = "/latest/dynamic/instance-identity/document";
  EXPECT_THAT(get(path, ""), StartsWith("HTTP/1.1 401 "));
  const std::string answer = get(path);
  EXPECT_THAT(answer, HasSubstr("content-type: application/json\r\n"));
  const auto told = parse_json_object(answer.substr(answer.find("\r\n\r\n") + 4));
  ASSERT_TRUE(told);
  EXPECT_EQ(*told, (json::object{{"accountId", "123456789012"},
                                 {"architecture", "x86_64"},
                                 {"availabilityZone", "eu-1a"},
                                 {"instanceId", "microvm-1"},
                                 {"region", "eu-1"},
                                 {"version", "2017-09-30"}}));
}

TEST_F(MetadataTest, WithoutARoleThereAreNone) {
  EXPECT_THAT(get("/latest/meta-data/instance-id"), StartsWith("HTTP/1.1 404 "));
  metadata_.set(
      {.instance_id = "microvm-1", .region = "", .account = "", .role = "", .credentials = ""});
  for (const std::string& path : {std::string(kList), std::string(kList) + "execution_role",
                                  std::string("/latest/meta-data/iam/"), std::string("/"),
                                  std::string("/latest/dynamic/instance-identity/document")})
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 404 ")) << path;
  EXPECT_THAT(get("/latest/meta-data"), EndsWith("\r\n\r\ninstance-id"));
}

TEST_F(MetadataTest, WithoutATokenNothingIsTold) {
  metadata_.set(kValues);
  const std::string good = token();
  for (const std::string& headers :
       {std::string(), std::string("X-aws-ec2-metadata-token: \r\n"),
        std::string("X-aws-ec2-metadata-token: " + std::string(56, 'a') + "\r\n"),
        "X-aws-ec2-metadata-token: " + good.substr(1) + "\r\n"}) {
    const std::string answer = get(std::string(kList) + "execution_role", headers);
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("Success"))));
  }
}

TEST_F(MetadataTest, ATokenEndsWithItsTimeAndWithItsMicrovm) {
  metadata_.set(kValues);
  const std::string header = "X-aws-ec2-metadata-token: " + token(60) + "\r\n";
  now_ += 59s;
  EXPECT_THAT(get(kList, header), StartsWith("HTTP/1.1 200 "));
  metadata_.set(kValues);  // credentials are refreshed
  EXPECT_THAT(get(kList, header), StartsWith("HTTP/1.1 200 "));
  now_ += 1s;
  EXPECT_THAT(get(kList, header), StartsWith("HTTP/1.1 401 "));
  const std::string again = "X-aws-ec2-metadata-token: " + token(60) + "\r\n";
  Metadata::Values clone = kValues;
  clone.instance_id = "microvm-2";
  metadata_.set(clone);
  EXPECT_THAT(get(kList, again), StartsWith("HTTP/1.1 401 "));
}

TEST_F(MetadataTest, TimesOfTokensAreBounded) {
  for (const char* bad : {"", "X-aws-ec2-metadata-token-ttl-seconds: 0\r\n",
                          "X-aws-ec2-metadata-token-ttl-seconds: 21601\r\n",
                          "X-aws-ec2-metadata-token-ttl-seconds: -1\r\n",
                          "X-aws-ec2-metadata-token-ttl-seconds: many\r\n"})
    EXPECT_THAT(put_token(bad), StartsWith("HTTP/1.1 400 ")) << bad;
  EXPECT_THAT(put_token("X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"),
              HasSubstr("x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
}

TEST_F(MetadataTest, ManyTokensPushOutTheFirstToEnd) {
  const std::string first = token(10);
  const std::string longer = token(20);
  for (std::size_t i = 1; i < Metadata::kMaxTokens; ++i) token(60);
  EXPECT_FALSE(metadata_.accepts(first, now_));
  EXPECT_TRUE(metadata_.accepts(longer, now_));
}

TEST_F(MetadataTest, WhatAProxyPassedOnIsRefused) {
  metadata_.set(kValues);
  EXPECT_THAT(put_token("X-aws-ec2-metadata-token-ttl-seconds: 60\r\nX-Forwarded-For: 1.2.3.4\r\n"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(get(kList, "X-aws-ec2-metadata-token: " + token() + "\r\nX-Forwarded-For: \r\n"),
              StartsWith("HTTP/1.1 403 "));
}

TEST_F(MetadataTest, OtherRequestsAreRefusedWithinLimits) {
  EXPECT_THAT(ask("GET /latest/api/token HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask("POST /latest/meta-data/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_FALSE(open_);
  EXPECT_THAT(ask("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("HTTP/1.1 4"));
  EXPECT_FALSE(open_);
  const std::string upload =
      "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n";
  EXPECT_THAT(ask(upload + "\r\n" + std::string(20'000, 'x')), StartsWith("HTTP/1.1 413 "));
  EXPECT_FALSE(open_);
  EXPECT_THAT(get("/", "Connection: close\r\n"), HasSubstr("connection: close\r\n"));
  EXPECT_FALSE(open_);
}

TEST_F(MetadataTest, AFreezeEndsTheCredentialsAndLetsReadersWait) {
  metadata_.set(kValues);
  metadata_.hold();
  Metadata::Values read;
  std::thread reader([&] { read = metadata_.values(); });
  Metadata::Values fresh = kValues;
  fresh.credentials = "new";
  metadata_.set(fresh);
  metadata_.release();
  reader.join();
  EXPECT_EQ(read.credentials, "new");
  metadata_.hold();
  metadata_.release();
  EXPECT_TRUE(metadata_.values().credentials.empty());
  EXPECT_TRUE(metadata_.values().role.empty());
  EXPECT_EQ(metadata_.values().instance_id, "microvm-1");
}

TEST_F(MetadataTest, WhatTheHostSendsIsChecked) {
  EXPECT_TRUE(Metadata::parse({{"instance_id", "x"}}));
  EXPECT_TRUE(Metadata::parse({{"instance_id", "x"}, {"role", "r"}, {"credentials", "{}"}}));
  EXPECT_FALSE(Metadata::parse({}));
  EXPECT_FALSE(Metadata::parse({{"instance_id", "x"}, {"role", "r"}}));
  EXPECT_FALSE(Metadata::parse(
      {{"instance_id", "x"}, {"role", "r"}, {"credentials", std::string(20'000, 'x')}}));
}

// ------------------------------------------------------------------------------------------
// sockets

Result<UniqueFd> connect_to(const char* address, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &to.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
    return fail_errno("connect");
  return fd;
}

std::string exchange(int fd, const std::string& text) {
  EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  std::string answer(4096, '\0');
  const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
  answer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return answer;
}

// In a network namespace of its own, as the tenant's.
void serve_in_namespace(const std::function<void()>& test) {
  std::thread([&test] {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "needs root";
    auto netns = sys::open("/proc/thread-self/ns/net", O_RDONLY);
    auto links = Links::open();
    ASSERT_TRUE(netns && links);
    auto listener = MetadataListener::open(netns->get(), *links);
    ASSERT_TRUE(listener) << listener.error().text();
    ASSERT_TRUE(links->set_up("lo"));
    Metadata metadata;
    auto server = MetadataServer::create(metadata);
    ASSERT_TRUE(server);
    std::thread thread([&server] { (*server)->run(); });
    (*server)->serve(std::move(listener->socket));
    test();
    (*server)->stop();
    thread.join();
  }).join();
}

constexpr const char* kUnsigned = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(MetadataServer, LeavesPortEightyToTheTenant) {
  serve_in_namespace([] {
    const UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(80);
    ASSERT_EQ(::bind(own.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    ASSERT_EQ(::listen(own.get(), 8), 0);
    const auto metadata = connect_to("169.254.169.254", 80);
    ASSERT_TRUE(metadata) << metadata.error().text();
    EXPECT_THAT(exchange(metadata->get(), kUnsigned), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(exchange(metadata->get(), kUnsigned), StartsWith("HTTP/1.1 401 "));
    const auto tenant = connect_to("127.0.0.1", 80);
    ASSERT_TRUE(tenant);
    const UniqueFd accepted(::accept4(own.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(accepted);
  });
}

TEST(MetadataServer, IdleConnectionsMakeRoomForOthers) {
  serve_in_namespace([] {
    std::vector<UniqueFd> idle;
    for (int i = 0; i < 100; ++i) {
      auto one = connect_to("169.254.169.254", 80);
      ASSERT_TRUE(one) << one.error().text();
      idle.push_back(*std::move(one));
    }
    const auto late = connect_to("169.254.169.254", 80);
    ASSERT_TRUE(late);
    EXPECT_THAT(exchange(late->get(), kUnsigned), StartsWith("HTTP/1.1 401 "));
    char byte = 0;
    EXPECT_EQ(::recv(idle.front().get(), &byte, 1, 0), 0);  // the first was ended
  });
}

}  // namespace
}  // namespace firebreak::guest
