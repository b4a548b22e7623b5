#include "wire/mcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/mcp_envelope.h"

namespace firebreak::wire::mcp {
namespace {

using testing::HasSubstr;

ErrorCode code_of(const std::string& text) {
  const auto parsed = parse(text);
  return parsed ? ErrorCode::internal_error : parsed.error().error.code;
}

Message request(const std::string& text) {
  auto parsed = parse(text);
  EXPECT_TRUE(parsed) << parsed.error().error.message;
  return parsed ? parsed->messages.front() : Message{};
}

TEST(McpMessage, RequestNotificationAndResponseAreTold) {
  const Message call = request(R"({"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1}})");
  EXPECT_EQ(call.kind, Message::Kind::request);
  EXPECT_EQ(call.id.as_int64(), 7);
  EXPECT_EQ(call.method, "ping");
  EXPECT_EQ(call.params.at("a").as_int64(), 1);
  EXPECT_EQ(request(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").kind,
            Message::Kind::notification);
  EXPECT_EQ(request(R"({"jsonrpc":"2.0","id":"x","result":{}})").kind, Message::Kind::response);
  EXPECT_EQ(request(R"({"jsonrpc":"2.0","id":"x","error":{"code":1}})").kind,
            Message::Kind::response);
}

TEST(McpMessage, WhatIsNoMessageIsRefusedWithItsCode) {
  EXPECT_EQ(code_of("{"), ErrorCode::parse_error);
  EXPECT_EQ(code_of(""), ErrorCode::parse_error);
  EXPECT_EQ(code_of("3"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"id":1,"method":"ping"})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"1.0","id":1,"method":"ping"})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":null,"method":"ping"})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":3})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1})"), ErrorCode::invalid_request);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})"),
            ErrorCode::invalid_params);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}})"),
            ErrorCode::invalid_params);
}

TEST(McpMessage, ARefusalNamesTheRequestWhoseIdCouldBeRead) {
  const auto parsed = parse(R"({"jsonrpc":"2.0","id":"a","method":"ping","params":4})");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().id.as_string(), "a");
}

TEST(McpMessage, SizeDepthAndNumberOfValuesAreBounded) {
  EXPECT_EQ(code_of(std::string(kMaxMessage + 1, ' ')), ErrorCode::invalid_request);
  std::string many = R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[0)";
  for (std::size_t i = 0; i < kMaxValues; ++i) many += ",0";
  EXPECT_EQ(code_of(many + "]}}"), ErrorCode::invalid_request);
  const std::string deep = R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":)" +
                           std::string(100, '[') + std::string(100, ']') + "}}";
  EXPECT_EQ(code_of(deep), ErrorCode::parse_error);
}

TEST(McpMessage, ATextMayHoldAsManySeparatorsAsItLikes) {
  const std::string text = R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":")" +
                           std::string(kMaxValues * 2, ',') + R"(\",[{"}})";
  EXPECT_EQ(request(text).params.at("a").as_string().size(), kMaxValues * 2 + 4);
}

TEST(McpMessage, ABatchIsBounded) {
  const auto two = parse(
      R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}])");
  ASSERT_TRUE(two);
  EXPECT_TRUE(two->batch);
  EXPECT_EQ(two->messages.size(), 2U);
  EXPECT_EQ(code_of("[]"), ErrorCode::invalid_request);
  std::string many = "[";
  for (std::size_t i = 0; i <= kMaxBatch; ++i)
    many += std::string(i == 0 ? "" : ",") + R"({"jsonrpc":"2.0","method":"m"})";
  EXPECT_EQ(code_of(many + "]"), ErrorCode::invalid_request);
}

TEST(McpMessage, WhatIsWrittenIsOneLine) {
  EXPECT_EQ(result_text(1, {{"a", "x\ny"}}), R"({"jsonrpc":"2.0","id":1,"result":{"a":"x\ny"}})");
  EXPECT_EQ(error_text("b", {ErrorCode::method_not_found, "no", {}}),
            R"({"jsonrpc":"2.0","id":"b","error":{"code":-32601,"message":"no"}})");
}

// ------------------------------------------------------------------------------------- envelope

Message modern(const std::string& method, const std::string& members = "",
               const std::string& version = "2026-07-28") {
  return request(R"({"jsonrpc":"2.0","id":1,"method":")" + method + R"(","params":{)" + members +
                 R"("_meta":{"io.modelcontextprotocol/protocolVersion":")" + version +
                 R"(","io.modelcontextprotocol/clientCapabilities":{}}}})");
}

RoutingHeaders headers(const std::string& method, std::optional<std::string> name = {},
                       const std::string& version = "2026-07-28") {
  return {.version = version, .method = method, .name = std::move(name)};
}

TEST(McpEnvelope, TheEraIsInTheBodyOrInTheHeader) {
  EXPECT_TRUE(is_modern(modern("tools/list"), {}));
  const Message bare = request(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_TRUE(is_modern(bare, headers("tools/list")));
  EXPECT_FALSE(is_modern(bare, {}));
  EXPECT_FALSE(is_modern(bare, {.version = "2025-11-25", .method = {}, .name = {}}));
}

TEST(McpEnvelope, AModernRequestMustDescribeItself) {
  EXPECT_FALSE(check_envelope(modern("tools/list")));
  const auto missing = check_envelope(request(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code, ErrorCode::invalid_params);
  const auto other = check_envelope(modern("tools/list", "", "2031-01-01"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code, ErrorCode::unsupported_version);
  EXPECT_EQ(other->data.at("requested").as_string(), "2031-01-01");
  EXPECT_EQ(other->data.at("supported").as_array().size(), 1U);
}

TEST(McpEnvelope, HeadersMustSayWhatTheBodySays) {
  const Message list = modern("tools/list");
  const auto code = [](const Message& message, const RoutingHeaders& with) {
    const auto error = check_headers(message, with);
    return error ? error->code : ErrorCode::internal_error;
  };
  constexpr auto kFine = ErrorCode::internal_error;
  EXPECT_EQ(code(list, headers("tools/list")), kFine);
  EXPECT_EQ(code(list, headers(" tools/list ")), kFine);
  EXPECT_EQ(code(list, headers("TOOLS/LIST")), ErrorCode::header_mismatch);
  EXPECT_EQ(code(list, headers("tools/call")), ErrorCode::header_mismatch);
  EXPECT_EQ(code(list, {}), ErrorCode::header_mismatch);
  EXPECT_EQ(code(list, headers("tools/list", {}, "2025-11-25")), ErrorCode::header_mismatch);
  const Message call = modern("tools/call", R"("name":"read_file",)");
  EXPECT_EQ(code(call, headers("tools/call", "read_file")), kFine);
  EXPECT_EQ(code(call, headers("tools/call", "=?base64?cmVhZF9maWxl?=")), kFine);
  EXPECT_EQ(code(call, headers("tools/call")), ErrorCode::header_mismatch);
  EXPECT_EQ(code(call, headers("tools/call", "write_file")), ErrorCode::header_mismatch);
  EXPECT_EQ(code(call, headers("tools/call", "=?base64?!!?=")), ErrorCode::header_mismatch);
}

TEST(McpEnvelope, HeaderValuesThatAreNoPlainTextAreBase64) {
  for (const std::string value : {"plain", "", " around ", "zwölf", "=?base64?QQ==?=", "a\nb"}) {
    const std::string encoded = encode_header(value);
    EXPECT_EQ(encoded.find_first_of("\n\xc3"), std::string::npos) << encoded;
    EXPECT_EQ(decode_header(encoded), value);
  }
  EXPECT_EQ(encode_header("plain"), "plain");
  EXPECT_EQ(decode_header("=?base64?SGVsbG8"), "=?base64?SGVsbG8");
  EXPECT_EQ(decode_header("=?base64?SGVsbG8?="), std::nullopt);
}

}  // namespace
}  // namespace firebreak::wire::mcp
