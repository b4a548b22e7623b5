#include "api/mcp/tool_support.h"

#include <algorithm>
#include <array>

#include "api/native/output_json.h"
#include "base/text.h"

namespace firebreak::api::mcp {
namespace {

struct Kind {
  std::string_view ending;
  std::string_view mime;
};
constexpr std::array<Kind, 22> kKinds{
    {{".png", "image/png"},       {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
     {".gif", "image/gif"},       {".webp", "image/webp"},       {".svg", "image/svg+xml"},
     {".pdf", "application/pdf"}, {".json", "application/json"}, {".html", "text/html"},
     {".css", "text/css"},        {".csv", "text/csv"},          {".md", "text/markdown"},
     {".py", "text/x-python"},    {".js", "text/javascript"},    {".ts", "text/x-typescript"},
     {".xml", "application/xml"}, {".yaml", "application/yaml"}, {".yml", "application/yaml"},
     {".zip", "application/zip"}, {".gz", "application/gzip"},   {".mp3", "audio/mpeg"},
     {".wav", "audio/wav"}}};

net::Task<Result<core::MicrovmId>> named_sandbox(ToolCall& call, std::string word) {
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await call.parts.sandboxes.resolve(call.owner, std::move(word)));
  co_return microvm.id;
}

}  // namespace

net::Task<Result<core::MicrovmId>> sandbox_of(ToolCall& call) {
  JsonReader reader(call.arguments);
  std::string word = reader.string_or("sandbox_id", "");
  FB_CO_TRY(reader.result());
  if (!word.empty()) co_return co_await named_sandbox(call, std::move(word));
  co_return co_await call.parts.sandboxes.take(call.owner, Deadline::in(kSoon));
}

net::Task<Result<core::MicrovmId>> existing_sandbox(ToolCall& call) {
  JsonReader reader(call.arguments);
  std::string word = reader.string_or("sandbox_id", "");
  FB_CO_TRY(reader.result());
  if (!word.empty()) co_return co_await named_sandbox(call, std::move(word));
  co_return co_await call.parts.sandboxes.find(call.owner);
}

net::Task<Result<session::Guest>> enter(ToolCall& call) {
  if (call.carries == Carries::nothing)
    co_return fail(Code::internal, "a tool that says it carries nothing of guests enters one");
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await sandbox_of(call));
  co_return co_await call.parts.guests.enter(call.owner.tenant.id, id, Deadline::in(kSoon));
}

std::uint64_t bounded(JsonReader& reader, std::string_view name, std::uint64_t fallback,
                      std::uint64_t least, std::uint64_t most) {
  const std::uint64_t value = reader.u64_or(name, fallback);
  if (value < least || value > most)
    reader.reject(name, "must be " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

session::Patience patience_of(ToolCall& call, std::uint64_t seconds) {
  session::Patience patience{.until = Deadline::in(std::chrono::seconds(seconds)), .seen = {}};
  patience.seen = [&call](const session::Chunk& chunk) -> net::Task<Result<>> {
    co_return co_await call.progress.say(as_text(chunk.bytes));
  };
  return patience;
}

std::string as_text(const std::string& bytes) {
  std::size_t tail = 0;
  return is_utf8(bytes, tail) && tail == 0 ? bytes : replace_invalid_utf8(bytes);
}

bool is_readable(std::string_view bytes) {
  std::size_t tail = 0;
  if (!is_utf8(bytes, tail) || tail != 0) return false;
  return std::ranges::all_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\x1b';
  });
}

std::string mime_of(std::string_view path, bool readable) {
  for (const Kind& kind : kKinds) {
    if (path.ends_with(kind.ending)) return std::string(kind.mime);
  }
  return readable ? "text/plain" : "application/octet-stream";
}

std::string uri_of(const core::MicrovmId& id, std::string_view path) {
  return "sandbox://" + id.str() + percent_encode(path, "/");
}

std::string absolute(std::string path) {
  return path.starts_with('/') ? path : "/" + path;
}

json::object text_block(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

json::object image_block(std::string base64, std::string mime) {
  return {{"type", "image"}, {"data", std::move(base64)}, {"mimeType", std::move(mime)}};
}

json::object text_resource(std::string uri, std::string mime, std::string text) {
  return {{"type", "resource"},
          {"resource",
           json::object{
               {"uri", std::move(uri)}, {"mimeType", std::move(mime)}, {"text", std::move(text)}}}};
}

json::object blob_resource(std::string uri, std::string mime, std::string base64) {
  return {{"type", "resource"},
          {"resource", json::object{{"uri", std::move(uri)},
                                    {"mimeType", std::move(mime)},
                                    {"blob", std::move(base64)}}}};
}

}  // namespace firebreak::api::mcp
