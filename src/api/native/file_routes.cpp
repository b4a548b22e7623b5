// Routes of files: bytes, listings and tar archives, streamed between the client and the guest.
#include "api/native/guest_call.h"
#include "api/native/native_api.h"
#include "base/text.h"
#include "session/files.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(6);

Result<std::optional<std::uint32_t>> mode_of(const Call& call) {
  if (!call.target.has_query("mode")) return std::nullopt;
  const std::string text = call.query("mode");
  std::uint32_t mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || mode > 0777)
      return fail(Code::invalid, "mode must be up to four octal digits, as 0644");
    mode = mode * 8 + static_cast<std::uint32_t>(digit - '0');
  }
  return mode;
}

json::object info_json(const session::FileInfo& info) {
  json::object object{{"name", info.name},       {"type", info.type}, {"size", info.size},
                      {"mode", info.mode},       {"uid", info.uid},   {"gid", info.gid},
                      {"mtimeNs", info.mtime_ns}};
  if (info.target) object["target"] = *info.target;
  return object;
}

// The client's body, piece by piece.
session::Source body_of(Call& call) {
  return [&call]() -> net::Task<Result<std::string>> {
    return call.exchange.read(Deadline::in(kStreamDeadline));
  };
}

net::Task<Result<>> send(Call& call, session::Download download, std::string content_type) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  wire::Headers headers{{"content-type", std::move(content_type)}};
  if (download.size()) headers.push_back({"x-size", std::to_string(*download.size())});
  FB_CO_TRY(co_await call.exchange.start(200, std::move(headers), deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await download.next(deadline));
    if (bytes.empty()) break;
    FB_CO_TRY(co_await call.exchange.write(bytes, deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

net::Task<Result<>> read(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(auto download, co_await session::read_file(
                                      guest, call.query("path"), call.number("offset").value_or(0),
                                      call.number("length"), call.deadline));
  co_return co_await send(call, std::move(download), "application/octet-stream");
}

net::Task<Result<>> write(session::Guests& guests, Call& call) {
  session::WriteOptions options;
  FB_CO_TRY_ASSIGN(options.mode, mode_of(call));
  options.offset = call.number("offset");
  options.append = call.flag("append");
  options.parents = call.flag("parents");
  options.user = call.query("user");
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::write_file(guest, call.query("path"), std::move(options),
                                         body_of(call), Deadline::in(kStreamDeadline)));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> stat(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(
      const session::FileInfo info,
      co_await session::stat_file(guest, call.query("path"), call.flag("follow"), call.deadline));
  co_return co_await call.reply_json(200, info_json(info));
}

net::Task<Result<>> list(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  const Deadline deadline = Deadline::in(kStreamDeadline);
  auto sink = [&](session::FileInfo info) -> net::Task<Result<>> {
    FB_CO_TRY(co_await start_lines(call));
    co_return co_await call.exchange.write(json::serialize(info_json(info)) + "\n", deadline);
  };
  auto listed = co_await session::list_directory(guest, call.query("path"), sink, deadline);
  if (listed) FB_CO_TRY(co_await start_lines(call));
  co_return co_await finish_lines(call, std::move(listed), "error");
}

net::Task<Result<>> mkdir(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const auto mode, mode_of(call));
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::make_directory(guest, call.query("path"), mode, call.flag("parents"),
                                             call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> remove(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::remove_file(guest, call.query("path"), call.flag("recursive"),
                                          call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> rename(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(
      co_await session::rename_file(guest, call.query("from"), call.query("to"), call.deadline));
  co_return co_await call.reply_json(200, json::object());
}

net::Task<Result<>> read_tar(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY_ASSIGN(auto download,
                   co_await session::read_archive(guest, call.query("path"), call.deadline));
  co_return co_await send(call, std::move(download), "application/x-tar");
}

net::Task<Result<>> write_tar(session::Guests& guests, Call& call) {
  FB_CO_TRY_ASSIGN(const session::Guest guest, co_await enter(guests, call));
  FB_CO_TRY(co_await session::write_archive(guest, call.query("path"), body_of(call),
                                            Deadline::in(kStreamDeadline)));
  co_return co_await call.reply_json(200, json::object());
}

struct FileRoute {
  const char* method;
  const char* pattern;  // below /v1/microvms/{id}
  const char* summary;
  net::Task<Result<>> (*handler)(session::Guests&, Call&);
};

const FileRoute kFileRoutes[] = {
    {"GET", "/files", "Read a file", read},
    {"PUT", "/files", "Write a file: replaced whole or not at all", write},
    {"GET", "/files/stat", "What a path is", stat},
    {"GET", "/files/list", "Entries of a directory, one JSON object a line", list},
    {"POST", "/files/mkdir", "Make a directory", mkdir},
    {"DELETE", "/files", "Remove a file or a directory", remove},
    {"POST", "/files/rename", "Rename", rename},
    {"GET", "/tar", "A directory's content or a file as a tar archive", read_tar},
    {"PUT", "/tar", "Unpack a tar archive below a directory", write_tar},
};

}  // namespace

void NativeApi::add_file_routes() {
  for (const FileRoute& file : kFileRoutes) {
    router_.add({file.method, "/v1/microvms/{id}" + std::string(file.pattern), file.summary, false,
                 Carries::guest_bytes,
                 [this, &file](Call& call) { return file.handler(guests_, call); }});
  }
}

}  // namespace firebreak::api
