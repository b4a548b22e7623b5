// What handlers of tools share: which sandbox a call means, how long it waits, output as text. One
// executor.
#pragma once

#include <string>

#include "api/mcp/tool.h"
#include "session/background.h"

namespace firebreak::api::mcp {

// Calls answer before clients give them up.
inline constexpr std::uint64_t kUsualWait = 45;  // seconds
inline constexpr auto kSoon = std::chrono::seconds(50);

// The sandbox that `sandbox_id` names, else the caller's own, which is made.
net::Task<Result<core::MicrovmId>> sandbox_of(ToolCall& call);
// The same, but a default sandbox is not made.
net::Task<Result<core::MicrovmId>> existing_sandbox(ToolCall& call);
// Awake, and held.
net::Task<Result<session::Guest>> enter(ToolCall& call);

// A number of the arguments, between the least and the most.
std::uint64_t bounded(JsonReader& reader, std::string_view name, std::uint64_t fallback,
                      std::uint64_t least, std::uint64_t most);
// Output is told as it comes.
session::Patience patience_of(ToolCall& call, std::uint64_t seconds);

// As JSON can hold it: bytes that are no text become replacement characters.
std::string as_text(const std::string& bytes);
// Text that a person could have written: UTF-8 without control characters but those of layout.
bool is_readable(std::string_view bytes);
std::string mime_of(std::string_view path, bool readable);

// Sandboxes work in "/": a relative path is taken from there.
std::string absolute(std::string path);
// "sandbox://ID/path", encoded.
std::string uri_of(const core::MicrovmId& id, std::string_view path);
json::object text_block(std::string text);
json::object image_block(std::string base64, std::string mime);
// A file: as text, or else as base64.
json::object text_resource(std::string uri, std::string mime, std::string text);
json::object blob_resource(std::string uri, std::string mime, std::string base64);

}  // namespace firebreak::api::mcp
