#include "wire/mcp_envelope.h"

#include <algorithm>
#include <array>

#include "wire/crypto.h"

namespace firebreak::wire::mcp {
namespace {

constexpr std::string_view kPrefix = "=?base64?";
constexpr std::string_view kSuffix = "?=";

struct NameSource {
  std::string_view method;
  std::string_view member;
};
constexpr std::array<NameSource, 6> kNameSources{{{"tools/call", "name"},
                                                  {"prompts/get", "name"},
                                                  {"resources/read", "uri"},
                                                  {"tasks/get", "taskId"},
                                                  {"tasks/update", "taskId"},
                                                  {"tasks/cancel", "taskId"}}};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::string> version_of(const Message& message) {
  const json::object* meta = message.meta();
  const json::value* version = meta == nullptr ? nullptr : meta->if_contains(kVersionKey);
  if (version == nullptr || !version->is_string()) return std::nullopt;
  return std::string(version->get_string());
}

RpcError mismatch(std::string_view header, std::string_view why) {
  return {ErrorCode::header_mismatch, std::string(header) + " " + std::string(why), {}};
}

RpcError missing(std::string_view key) {
  return {ErrorCode::invalid_params, "params._meta must have \"" + std::string(key) + "\"", {}};
}

bool is_sentinel(std::string_view value) {
  return value.size() >= kPrefix.size() + kSuffix.size() && value.starts_with(kPrefix) &&
         value.ends_with(kSuffix);
}

bool is_plain(std::string_view value) {
  return !value.empty() && !is_sentinel(value) && trimmed(value) == value &&
         std::ranges::all_of(value, [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
}

}  // namespace

bool is_modern(const Message& message, const RoutingHeaders& headers) {
  const json::object* meta = message.meta();
  return (meta != nullptr && meta->contains(kVersionKey)) ||
         (headers.version && trimmed(*headers.version) == kModernVersion);
}

std::optional<std::string> routed_name(const Message& message) {
  const auto source = std::ranges::find(kNameSources, message.method, &NameSource::method);
  if (source == kNameSources.end()) return std::nullopt;
  const json::value* value = message.params.if_contains(source->member);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

std::optional<RpcError> check_envelope(const Message& request) {
  const auto version = version_of(request);
  if (!version) return missing(kVersionKey);
  const json::value* capabilities = request.meta()->if_contains(kCapabilitiesKey);
  if (capabilities == nullptr || !capabilities->is_object()) return missing(kCapabilitiesKey);
  if (*version == kModernVersion) return std::nullopt;
  return RpcError{
      ErrorCode::unsupported_version,
      "this server does not speak version " + *version,
      {{"supported", json::array{json::value(kModernVersion)}}, {"requested", *version}}};
}

std::optional<RpcError> check_headers(const Message& request, const RoutingHeaders& headers) {
  // A body without a version is for check_envelope to refuse.
  if (const auto version = version_of(request)) {
    if (!headers.version) return mismatch("MCP-Protocol-Version", "is missing");
    if (trimmed(*headers.version) != *version)
      return mismatch("MCP-Protocol-Version", "differs from the version in params._meta");
    if (*version != kModernVersion) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!headers.method) return mismatch("Mcp-Method", "is missing");
  if (trimmed(*headers.method) != request.method)
    return mismatch("Mcp-Method", "differs from the method of the body");
  const auto name = routed_name(request);
  if (!name) return std::nullopt;
  if (!headers.name) return mismatch("Mcp-Name", "is missing");
  const auto decoded = decode_header(*headers.name);
  if (!decoded) return mismatch("Mcp-Name", "holds base64 that cannot be decoded");
  if (*decoded != *name) return mismatch("Mcp-Name", "differs from the name in the body");
  return std::nullopt;
}

std::optional<std::string> decode_header(std::string_view value) {
  value = trimmed(value);
  if (!is_sentinel(value)) return std::string(value);
  value.remove_prefix(kPrefix.size());
  value.remove_suffix(kSuffix.size());
  return from_base64(value);
}

std::string encode_header(std::string_view value) {
  if (is_plain(value)) return std::string(value);
  return std::string(kPrefix) + base64(value) + std::string(kSuffix);
}

}  // namespace firebreak::wire::mcp
