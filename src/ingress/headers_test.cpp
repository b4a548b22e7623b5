#include "ingress/headers.h"

#include <gmock/gmock.h>

namespace firebreak::ingress {
namespace {

using testing::Contains;
using testing::ElementsAre;
using wire::HeaderField;

net::HttpRequest post(wire::Headers headers) {
  return {.method = "POST",
          .target = "/x",
          .authority = "vm.test",
          .headers = std::move(headers),
          .has_body = true};
}

Route route_of(Style style = Style::path) {
  Route route;
  route.style = style;
  route.target = "/x";
  return route;
}

TEST(ToApplication, TakesOutWhatEndsAtAProxy) {
  const auto out = to_application(post({{"accept", "a"},
                                        {"connection", "close, X-Mine"},
                                        {"x-mine", "1"},
                                        {"keep-alive", "5"},
                                        {"te", "gzip"},
                                        {"transfer-encoding", "chunked"},
                                        {"upgrade", "h2c"},
                                        {"http2-settings", "AAA"},
                                        {"expect", "100-continue"},
                                        {"x-aws-proxy-auth", "secret"},
                                        {"x-aws-proxy-port", "1"},
                                        {"x-aws-proxy-whatever", "1"},
                                        {"x-amzn-requestid", "forged"},
                                        {"x-amzn-trace-id", "t"},
                                        {"cookie", "c=1"}}),
                                  route_of(), "id-1");
  ASSERT_TRUE(out);
  EXPECT_THAT(out->headers,
              ElementsAre(HeaderField{"accept", "a"}, HeaderField{"x-amzn-trace-id", "t"},
                          HeaderField{"cookie", "c=1"}, HeaderField{"x-amzn-requestid", "id-1"}));
  EXPECT_EQ(out->authority, "vm.test");
  EXPECT_TRUE(out->has_body);
  EXPECT_EQ(out->length, std::nullopt);
}

TEST(ToApplication, OneLengthOrNone) {
  EXPECT_EQ(to_application(post({{"content-length", "12"}}), route_of(), "")->length, 12U);
  for (const char* bad : {"12, 12", "+12", "12a", "", "-1", "0x10", "99999999999999999999"})
    EXPECT_FALSE(to_application(post({{"content-length", bad}}), route_of(), "")) << bad;
  EXPECT_FALSE(
      to_application(post({{"content-length", "1"}, {"content-length", "2"}}), route_of(), ""));
}

TEST(ToApplication, WebSocketKeepsOnlyTheApplicationsProtocols) {
  Route route = route_of();
  route.websocket = true;
  route.protocols = {"a", "b"};
  net::HttpRequest request = post({{"sec-websocket-protocol", "lambda-microvms, a, b"},
                                   {"sec-websocket-key", "k"},
                                   {"connection", "upgrade"},
                                   {"upgrade", "websocket"}});
  request.has_body = false;
  auto out = to_application(request, route, "");
  EXPECT_THAT(out->headers, Contains(HeaderField{"sec-websocket-protocol", "a, b"}));
  EXPECT_THAT(out->headers, Contains(HeaderField{"upgrade", "websocket"}));
  EXPECT_THAT(out->headers, Contains(HeaderField{"sec-websocket-key", "k"}));
  route.protocols.clear();
  out = to_application(request, route, "");
  EXPECT_EQ(wire::find_header(out->headers, "sec-websocket-protocol"), "");
}

TEST(ToApplication, TeTrailersForHttp2Only) {
  Route route = route_of();
  const auto without = to_application(post({{"te", "trailers"}}), route, "");
  EXPECT_EQ(wire::find_header(without->headers, "te"), "");
  route.force_h2 = true;
  const auto with = to_application(post({{"te", "trailers"}}), route, "");
  EXPECT_EQ(wire::find_header(with->headers, "te"), "trailers");
}

TEST(ToClient, SharedOriginsAreConfined) {
  for (const Style style : {Style::path, Style::token}) {
    const wire::Headers out = to_client({{"set-cookie", "a=1; Path=/; Domain=test; HttpOnly"},
                                         {"clear-site-data", "\"*\""},
                                         {"strict-transport-security", "max-age=1"},
                                         {"service-worker-allowed", "/"},
                                         {"content-type", "text/html"},
                                         {"content-security-policy", "default-src 'self'"}},
                                        route_of(style), "e1");
    EXPECT_EQ(wire::find_header(out, "set-cookie"), "a=1; HttpOnly; Path=/vm/e1");
    EXPECT_EQ(wire::find_header(out, "clear-site-data"), "");
    EXPECT_EQ(wire::find_header(out, "strict-transport-security"), "");
    EXPECT_EQ(wire::find_header(out, "service-worker-allowed"), "");
    // Both policies count in a browser.
    EXPECT_TRUE(out.back().value.starts_with("sandbox "));
    EXPECT_EQ(out.back().value.find("allow-same-origin"), std::string::npos);
    EXPECT_THAT(out, Contains(HeaderField{"content-security-policy", "default-src 'self'"}));
  }
}

TEST(ToClient, AnOwnHostIsLeftAlone) {
  const wire::Headers headers{{"set-cookie", "a=1; Path=/"}, {"location", "/x"}, {"alt-svc", "x"}};
  EXPECT_EQ(to_client(headers, route_of(Style::host), "e1"), headers);
}

TEST(ToClient, RedirectsStayBelowThePath) {
  const auto location = [](const char* value, Style style) {
    return std::string(
        wire::find_header(to_client({{"location", value}}, route_of(style), "e1"), "location"));
  };
  EXPECT_EQ(location("/login", Style::path), "/vm/e1/login");
  EXPECT_EQ(location("login", Style::path), "login");
  EXPECT_EQ(location("https://example.com/", Style::path), "https://example.com/");
  EXPECT_EQ(location("//example.com/", Style::path), "//example.com/");
  EXPECT_EQ(location("/login", Style::token), "/login");
}

TEST(ConfineCookie, PathAndDomain) {
  struct Case {
    const char* from;
    const char* to;
  };
  for (const Case& c : {
           Case{"a=1", "a=1; Path=/vm/e"},
           Case{"a=1; path=/", "a=1; Path=/vm/e"},
           Case{"a=1; PATH = /x ; Secure", "a=1; Secure; Path=/vm/e/x"},
           Case{"a=1; Path=x", "a=1; Path=/vm/e"},
           Case{"a=1; Path=", "a=1; Path=/vm/e"},
           Case{"a=1; Path", "a=1; Path=/vm/e"},
           Case{"a=1; Path=/vm/e/y", "a=1; Path=/vm/e/y"},
           Case{"a=1; Path=/vm/ee", "a=1; Path=/vm/e/vm/ee"},
           Case{"a=1; Path=/x; Path=/", "a=1; Path=/vm/e"},
           Case{"a=1; DOMAIN=.test; Max-Age=5", "a=1; Max-Age=5; Path=/vm/e"},
           Case{"path=/", "path=/; Path=/vm/e"},
           Case{"", "; Path=/vm/e"},
           Case{";;", "; Path=/vm/e"},
       })
    EXPECT_EQ(confine_cookie(c.from, "/vm/e"), c.to) << c.from;
}

}  // namespace
}  // namespace firebreak::ingress
