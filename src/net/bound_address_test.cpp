// Addresses that are taken before anybody is served there.
#include "net/bound_address.h"

#include "net/http_test_support.h"

namespace firebreak::net {
namespace {

TEST_F(HttpTest, ABoundAddressIsTaken) {
  auto bound = BoundAddress::bind("127.0.0.1:0");
  ASSERT_TRUE(bound) << bound.error().text();
  EXPECT_FALSE(bound->text().ends_with(":0"));
  const auto second = BoundAddress::bind(bound->text());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict);
  EXPECT_EQ(second.error().message,
            "cannot listen on " + bound->text() + ": another program listens there already");
}

TEST_F(HttpTest, WhoConnectsBeforeTheServerServesIsAnsweredThen) {
  auto bound = BoundAddress::bind("127.0.0.1:0");
  ASSERT_TRUE(bound) << bound.error().text();
  const std::string url = "http://" + bound->text();
  run([&]() -> Task<void> {
    auto stream = co_await connect_url(url, "", soon());
    CO_REQUIRE(stream);
    auto server = HttpServer::serve(io_.get_executor(), *std::move(bound), std::nullopt, echo);
    CO_REQUIRE(server);
    EXPECT_EQ("http://" + (*server)->address(), url);
    const HttpCall call{
        .method = "GET", .target = "/early", .host = "box.test", .headers = {}, .body = {}};
    auto reply = co_await http_call(**stream, call, soon());
    CO_REQUIRE(reply);
    EXPECT_EQ(reply->body, "GET /early box.test");
    co_await (*server)->drain(soon());
  });
}

TEST(BoundAddress, WhatIsNoAddressIsRefused) {
  for (const char* text : {"", "7070", "localhost:7070", "127.0.0.1", "127.0.0.1:x", "[::1]:65536"})
    EXPECT_FALSE(BoundAddress::bind(text)) << text;
  // A block that is kept for documents.
  const auto elsewhere = BoundAddress::bind("192.0.2.1:7070");
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().message,
            "cannot listen on 192.0.2.1:7070: this host does not have that address");
}

TEST(BoundAddress, KnowsWhatOnlyThisHostReaches) {
  for (const char* text : {"127.0.0.1:0", "127.1.2.3:7070", "[::1]:7070"})
    EXPECT_TRUE(*is_loopback(text)) << text;
  for (const char* text : {"0.0.0.0:7070", "[::]:7070", "192.0.2.1:7070"})
    EXPECT_FALSE(*is_loopback(text)) << text;
  EXPECT_FALSE(is_loopback("here"));
}

}  // namespace
}  // namespace firebreak::net
