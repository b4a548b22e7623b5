// read_file, write_file and list_files.
#include <algorithm>

#include "api/mcp/files.h"
#include "api/mcp/tool_support.h"
#include "base/text.h"
#include "session/files.h"
#include "wire/crypto.h"

namespace firebreak::api::mcp {
namespace {

constexpr std::uint64_t kUsualLength = 256UL << 10;
constexpr std::size_t kMostText = 1UL << 20;
constexpr std::size_t kMostEntries = 1000;

bool is_picture(std::string_view mime) {
  return mime == "image/png" || mime == "image/jpeg" || mime == "image/gif" || mime == "image/webp";
}

// A whole text as a body of bytes.
session::Source source_of(std::string bytes) {
  return [bytes = std::move(bytes), given = false]() mutable -> net::Task<Result<std::string>> {
    if (std::exchange(given, true)) co_return std::string();
    co_return std::move(bytes);
  };
}

Result<std::string> content_of(JsonReader& reader) {
  const bool text = reader.has("text");
  if (text == reader.has("blob"))
    return fail(Code::invalid, "give either text or blob, and not both");
  std::string content = reader.string(text ? "text" : "blob");
  FB_TRY(reader.result());
  if (text) return content;
  auto bytes = wire::from_base64(content);
  if (!bytes) return fail(Code::invalid, "blob is no base64");
  return *std::move(bytes);
}

Result<std::optional<std::uint32_t>> mode_of(JsonReader& reader) {
  const std::string text = reader.string_or("mode", "");
  FB_TRY(reader.result());
  if (text.empty()) return std::optional<std::uint32_t>();
  std::uint32_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7' || text.size() > 4)
      return fail(Code::invalid, "mode must be three or four octal digits, as 755");
    mode = mode * 8 + static_cast<std::uint32_t>(c - '0');
  }
  return std::optional(mode);
}

}  // namespace

net::Task<Result<FileContent>> fetch_file(const session::Guest& guest, std::string path,
                                          std::uint64_t offset, std::uint64_t length) {
  const Deadline deadline = Deadline::in(kSoon);
  FB_CO_TRY_ASSIGN(session::Download download,
                   co_await session::read_file(guest, path, offset, length, deadline));
  FileContent file{.path = std::move(path)};
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string piece, co_await download.next(deadline));
    if (piece.empty()) break;
    file.bytes += piece;
    // The guest was asked for no more; a hostile one sends more.
    if (file.bytes.size() > length)
      co_return fail(Code::guest, "the file is longer than asked for");
  }
  file.size = download.size().value_or(offset + file.bytes.size());
  file.readable = is_readable(file.bytes);
  file.mime = mime_of(file.path, file.readable);
  co_return file;
}

net::Task<Result<ToolResult>> read_file(ToolCall& call) {
  JsonReader reader(call.arguments);
  std::string path = absolute(reader.string("path"));
  const bool picture = is_picture(mime_of(path, false));
  const std::uint64_t offset = reader.u64_or("offset", 0);
  const std::uint64_t length =
      bounded(reader, "length", picture ? kMostFile : kUsualLength, 1, kMostFile);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  FB_CO_TRY_ASSIGN(FileContent file, co_await fetch_file(guest, std::move(path), offset, length));
  // A text is told twice, as text and as a member.
  if (file.readable && file.bytes.size() > kMostText) {
    file.bytes.resize(kMostText);
    file.bytes = as_text(file.bytes);
  }
  ToolResult result;
  const std::uint64_t end = offset + file.bytes.size();
  result.structured = {{"sandbox_id", guest.microvm().id.str()},
                       {"path", file.path},
                       {"size", file.size},
                       {"mime_type", file.mime},
                       {"encoding", file.readable ? "utf-8" : "base64"},
                       {"truncated", end < file.size}};
  if (end < file.size) result.structured["next_offset"] = end;
  if (file.readable) result.structured["text"] = file.bytes;
  const std::string uri = uri_of(guest.microvm().id, file.path);
  if (file.readable)
    result.blocks.push_back(text_resource(uri, file.mime, file.bytes));
  else if (is_picture(file.mime))
    result.blocks.push_back(image_block(wire::base64(file.bytes), file.mime));
  else
    result.blocks.push_back(blob_resource(uri, file.mime, wire::base64(file.bytes)));
  co_return result;
}

net::Task<Result<ToolResult>> write_file(ToolCall& call) {
  JsonReader reader(call.arguments);
  const std::string path = absolute(reader.string("path"));
  session::WriteOptions options;
  options.append = reader.boolean_or("append", false);
  options.parents = true;
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(options.mode, mode_of(reader));
  FB_CO_TRY_ASSIGN(std::string content, content_of(reader));
  const std::size_t written = content.size();
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  FB_CO_TRY(co_await session::write_file(guest, path, options, source_of(std::move(content)),
                                         Deadline::in(kSoon)));
  ToolResult result;
  result.structured = {{"sandbox_id", guest.microvm().id.str()},
                       {"path", path},
                       {"written", written},
                       {"uri", uri_of(guest.microvm().id, path)}};
  co_return result;
}

net::Task<Result<ToolResult>> list_files(ToolCall& call) {
  JsonReader reader(call.arguments);
  const std::string path = absolute(reader.string_or("path", "/"));
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(call));
  FB_CO_TRY_ASSIGN(const Listing listing, co_await list_sorted(guest, path, kMostEntries));
  json::array entries;
  for (const session::FileInfo& info : listing.entries) {
    json::object entry{{"name", info.name},
                       {"type", info.type},
                       {"size", info.size},
                       {"modified_ms", info.mtime_ns / 1'000'000}};
    if (info.target) entry["target"] = *info.target;
    entries.push_back(std::move(entry));
  }
  ToolResult result;
  result.structured = {{"sandbox_id", guest.microvm().id.str()},
                       {"path", path},
                       {"entries", std::move(entries)},
                       {"truncated", listing.more}};
  co_return result;
}

net::Task<Result<Listing>> list_sorted(const session::Guest& guest, std::string path,
                                       std::size_t most) {
  Listing listing;
  auto keep = [&](session::FileInfo info) -> net::Task<Result<>> {
    if (listing.entries.size() < most)
      listing.entries.push_back(std::move(info));
    else
      listing.more = true;
    co_return Result<>();
  };
  FB_CO_TRY(co_await session::list_directory(guest, std::move(path), keep, Deadline::in(kSoon)));
  std::ranges::sort(listing.entries, {}, &session::FileInfo::name);
  co_return listing;
}

}  // namespace firebreak::api::mcp
