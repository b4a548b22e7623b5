#include "ingress/route.h"

#include <gtest/gtest.h>

namespace firebreak::ingress {
namespace {

net::HttpRequest get(std::string target, wire::Headers headers = {}) {
  return {.method = "GET",
          .target = std::move(target),
          .authority = "127.0.0.1:7443",
          .headers = std::move(headers)};
}

net::HttpRequest websocket(const std::string& protocols, wire::Headers more = {}) {
  wire::Headers headers{{"connection", "Upgrade"},
                        {"upgrade", "websocket"},
                        {"sec-websocket-version", "13"},
                        {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
                        {"sec-websocket-protocol", protocols}};
  headers.insert(headers.end(), more.begin(), more.end());
  return get("/chat", headers);
}

Code code_of(const Result<Route>& route) {
  EXPECT_FALSE(route);
  return route ? Code::internal : route.error().code;
}

TEST(Route, PathStyleNamesTheEndpointAndLeavesTheRest) {
  struct Case {
    const char* target;
    const char* endpoint;
    const char* rest;
  };
  for (const Case& c : {Case{"/vm/abc/x/y?q=1", "abc", "/x/y?q=1"}, Case{"/vm/abc", "abc", "/"},
                        Case{"/vm/abc/", "abc", "/"}, Case{"/vm/abc?q", "abc", "/?q"},
                        Case{"/vm/abc//x/../%2e", "abc", "//x/../%2e"}, Case{"/vm/", "", "/"},
                        Case{"/vm/a%62c/x", "a%62c", "/x"}}) {
    const auto route = read_route(get(c.target), "");
    ASSERT_TRUE(route) << c.target;
    EXPECT_EQ(route->style, Style::path);
    EXPECT_EQ(route->endpoint, c.endpoint);
    EXPECT_EQ(route->target, c.rest);
  }
}

TEST(Route, HostStyleOnlyBelowTheDomain) {
  net::HttpRequest request = get("/vm/other/x");
  request.authority = "ABC.box.Test:7443";
  auto route = read_route(request, "box.test");
  ASSERT_TRUE(route);
  EXPECT_EQ(route->style, Style::host);
  EXPECT_EQ(route->endpoint, "abc");
  EXPECT_EQ(route->target, "/vm/other/x");
  for (const char* authority : {"box.test", "evilbox.test", ".box.test", "abc.box.test.evil", ""}) {
    request.authority = authority;
    EXPECT_EQ(read_route(request, "box.test")->style, Style::path) << authority;
  }
  request.authority = "abc.box.test";
  EXPECT_EQ(read_route(request, "")->style, Style::path);
}

TEST(Route, AnyOtherPathIsTheTokens) {
  for (const char* target : {"/", "/pkg.Service/Method", "/vmx/abc", "/vm", "*"}) {
    const auto route = read_route(get(target), "");
    ASSERT_TRUE(route);
    EXPECT_EQ(route->style, Style::token) << target;
    EXPECT_EQ(route->target, target);
  }
}

TEST(Route, HeadersNameTokenPortAndProtocol) {
  const auto route = read_route(get("/", {{"x-aws-proxy-auth", "t.o.k.e.n"},
                                          {"x-aws-proxy-port", "9000"},
                                          {"x-aws-proxy-force-h2", "True"}}),
                                "");
  ASSERT_TRUE(route);
  EXPECT_EQ(route->token, "t.o.k.e.n");
  EXPECT_EQ(route->port, 9000);
  EXPECT_TRUE(route->force_h2);
  const auto plain = read_route(get("/", {{"x-aws-proxy-force-h2", "1"}}), "");
  EXPECT_TRUE(plain->token.empty());
  EXPECT_EQ(plain->port, std::nullopt);
  EXPECT_FALSE(plain->force_h2);
  EXPECT_TRUE(read_route(get("/", {{"content-type", "application/grpc+proto"}}), "")->force_h2);
}

TEST(Route, MalformedPortsAndDoubledHeaders) {
  for (const char* port : {"", "0", "65536", "80a", " 80", "-1", "080800", "1e3"})
    EXPECT_EQ(code_of(read_route(get("/", {{"x-aws-proxy-port", port}}), "")), Code::invalid)
        << port;
  EXPECT_EQ(
      code_of(read_route(get("/", {{"x-aws-proxy-auth", "a"}, {"x-aws-proxy-auth", "b"}}), "")),
      Code::denied);
  EXPECT_EQ(
      code_of(read_route(get("/", {{"x-aws-proxy-port", "1"}, {"x-aws-proxy-port", "2"}}), "")),
      Code::denied);
}

TEST(Route, SubprotocolsCarryWhatABrowserCannot) {
  const auto route = read_route(websocket("chat.v2, lambda-microvms.port.3000, lambda-microvms, "
                                          "lambda-microvms.authentication.a.b.c.d.e"),
                                "");
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->websocket);
  EXPECT_TRUE(route->platform_protocols);
  EXPECT_EQ(route->token, "a.b.c.d.e");
  EXPECT_EQ(route->port, 3000);
  EXPECT_EQ(route->protocols, std::vector<std::string>{"chat.v2"});
}

TEST(Route, HeadersComeBeforeSubprotocols) {
  const auto route = read_route(
      websocket("lambda-microvms, lambda-microvms.port.3000, lambda-microvms.authentication.p",
                {{"x-aws-proxy-auth", "h"}, {"x-aws-proxy-port", "4000"}}),
      "");
  ASSERT_TRUE(route);
  EXPECT_EQ(route->token, "h");
  EXPECT_EQ(route->port, 4000);
}

TEST(Route, SubprotocolsNeedTheirMarkerAndOneValueEach) {
  for (const char* protocols :
       {"lambda-microvms.authentication.x", "lambda-microvms.port.80, chat",
        "lambda-microvms, lambda-microvms.authentication.x, lambda-microvms.authentication.y"})
    EXPECT_EQ(code_of(read_route(websocket(protocols), "")), Code::denied) << protocols;
  for (const char* protocols :
       {"lambda-microvms, lambda-microvms.port.0", "lambda-microvms, lambda-microvms.port.x",
        "lambda-microvms, lambda-microvms.port.1, lambda-microvms.port.2"})
    EXPECT_EQ(code_of(read_route(websocket(protocols), "")), Code::invalid) << protocols;
  // Without a handshake they are only a header.
  const auto plain =
      read_route(get("/", {{"sec-websocket-protocol", "lambda-microvms.authentication.x"}}), "");
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->token.empty());
}

TEST(Route, HookPathsHoweverSpelt) {
  for (const char* target :
       {"/aws/lambda-microvms/runtime/v1/run", "//aws//lambda-microvms/runtime/v1/suspend?x",
        "/x/../aws/Lambda-MicroVMs/runtime/v1/run", "/aws/lambda%2Dmicrovms/runtime/v1/run",
        "/aws%2flambda-microvms%2fruntime", "/aws/lambda%252Dmicrovms/runtime",
        "/aws\\lambda-microvms\\runtime"})
    EXPECT_TRUE(is_hook_path(target)) << target;
  for (const char* target : {"/", "/run", "/aws/lambda", "/x?path=/aws/lambda-microvms/runtime"})
    EXPECT_FALSE(is_hook_path(target)) << target;
}

}  // namespace
}  // namespace firebreak::ingress
