// Messages of the Model Context Protocol: JSON-RPC 2.0, one or a batch of them, from an untrusted
// peer. Bounded in size, depth and number of values before anything is built. Pure functions; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace firebreak::wire::mcp {

inline constexpr std::size_t kMaxMessage = 16UL << 20;  // bytes
inline constexpr std::size_t kMaxValues = 100'000;      // of JSON, in one message
inline constexpr std::size_t kMaxBatch = 64;

// Revisions with `initialize`, the newest first.
inline constexpr std::array<std::string_view, 4> kLegacyVersions{"2025-11-25", "2025-06-18",
                                                                 "2025-03-26", "2024-11-05"};
// The revision in which every request describes itself.
inline constexpr std::string_view kModernVersion = "2026-07-28";
// What a request without a version is taken for, and the last revision that has batches.
inline constexpr std::string_view kAssumedVersion = "2025-03-26";

bool is_legacy_version(std::string_view version);

enum class ErrorCode : std::int16_t {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  resource_not_found = -32002,  // before 2026-07-28
  header_mismatch = -32020,
  unsupported_version = -32022,
};

struct RpcError {
  ErrorCode code = ErrorCode::internal_error;
  std::string message;
  json::object data;  // may be empty
};

struct Message {
  enum class Kind : std::uint8_t { request, notification, response };
  Kind kind = Kind::request;
  json::value id;      // of a request or a response: a string or an integer
  std::string method;  // of a request or a notification
  json::object params;

  // params._meta; nullptr when there is none.
  const json::object* meta() const;
};

struct Incoming {
  std::vector<Message> messages;  // at least one
  bool batch = false;
};

// Why a text is no message; the id of the request, if that much could be read.
struct Refusal {
  RpcError error;
  json::value id;
};

std::expected<Incoming, Refusal> parse(std::string_view text);

// Messages as texts, without a newline.
std::string result_text(const json::value& id, json::object result);
std::string error_text(const json::value& id, const RpcError& error);
std::string notification_text(std::string_view method, json::object params);

}  // namespace firebreak::wire::mcp
