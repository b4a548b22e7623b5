#include "copy_streams.h"

#include <filesystem>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

// Gives pieces until an empty one.
using Source = std::function<net::Task<Result<std::string>>()>;

net::Task<Result<>> upload(Client& client, std::string path, const Source& source) {
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("PUT", std::move(path), true));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await source());
    if (bytes.empty()) break;
    // The answer to a refused upload comes while we still write.
    if (!co_await stream->write(bytes, far_away())) break;
  }
  (void)co_await stream->finish(far_away());
  co_return co_await Client::check(*stream);
}

net::Task<Result<std::unique_ptr<net::HttpClientStream>>> download(Client& client,
                                                                   std::string path) {
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("GET", std::move(path), false));
  FB_CO_TRY(co_await Client::check(*stream));
  co_return stream;
}

std::string name_in(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().filename().string();
}

net::Task<Result<std::string>> source_type(Client& client, const Place& from) {
  FB_CO_TRY_ASSIGN(std::string type, co_await type_in_guest(client, from));
  if (type.empty())
    co_return fail(Code::not_found, from.path + " does not exist in the microVM " + from.id);
  co_return type;
}

net::Task<Result<std::string>> mode_in_guest(Client& client, const Place& place) {
  FB_CO_TRY_ASSIGN(
      const json::object stat,
      co_await client.call(
          "GET", microvm_path(place.id, "/files/stat" + file_query(place.path) + "&follow=1")));
  const auto mode = parse_u64(text_of(stat, "mode"));
  char octal[8] = "0644";
  if (mode) (void)std::snprintf(octal, sizeof octal, "%04o", static_cast<unsigned>(*mode & 07777));
  co_return std::string(octal);
}

}  // namespace

Place parse_place(const std::string& text) {
  const auto colon = text.find(':');
  const auto slash = text.find('/');
  if (colon == std::string::npos || colon == 0 || (slash != std::string::npos && slash < colon))
    return {"", text};
  const std::string path = text.substr(colon + 1);
  return {text.substr(0, colon), path.empty() ? "/" : path};
}

Result<> check_places(const std::string& from, const std::string& to) {
  if (!parse_place(from).id.empty() || !parse_place(to).id.empty()) return {};
  return fail(Code::invalid, "neither '" + from + "' nor '" + to + "' is in a microVM",
              Repair{"write one of them as ID:PATH"});
}

std::string file_query(const std::string& path) {
  return "?path=" + percent_encode(path, "/");
}

std::string join_path(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

net::Task<Result<std::string>> type_in_guest(Client& client, const Place& place) {
  auto stat = co_await client.call(
      "GET", microvm_path(place.id, "/files/stat" + file_query(place.path) + "&follow=1"));
  if (stat) co_return text_of(*stat, "type");
  if (stat.error().code != Code::not_found) co_return std::unexpected(stat.error());
  // The file is missing, or the microVM is.
  FB_CO_TRY(co_await client.call("GET", microvm_path(place.id)));
  co_return std::string();
}

net::Task<Result<>> copy_between(Client& client, Place from, Place to) {
  FB_CO_TRY_ASSIGN(const std::string type, co_await source_type(client, from));
  FB_CO_TRY_ASSIGN(const std::string there, co_await type_in_guest(client, to));
  const std::string name = name_in(from.path);
  const bool keeps_name = !name.empty() && name != ".";
  if ((there == "dir" || to.path.ends_with('/')) && keeps_name) to.path = join_path(to.path, name);
  const bool directory = type == "dir";
  const std::string what = directory ? "/tar" : "/files";
  std::string target = microvm_path(to.id, what + file_query(to.path));
  if (directory) {
    FB_CO_TRY(co_await client.call(
        "POST", microvm_path(to.id, "/files/mkdir" + file_query(to.path) + "&parents=1")));
  } else {
    FB_CO_TRY_ASSIGN(const std::string mode, co_await mode_in_guest(client, from));
    target += "&parents=1&mode=" + mode;
  }
  FB_CO_TRY_ASSIGN(const auto stream,
                   co_await download(client, microvm_path(from.id, what + file_query(from.path))));
  const Source source = [&stream] { return stream->read(far_away()); };
  co_return co_await upload(client, target, source);
}

net::Task<Result<>> copy_to_stdout(Client& client, Place from) {
  FB_CO_TRY_ASSIGN(const std::string type, co_await source_type(client, from));
  const bool directory = type == "dir";
  if (directory && ::isatty(STDOUT_FILENO) == 1)
    co_return fail(Code::invalid,
                   from.path + " is a directory, and a tar archive is not for a terminal",
                   Repair{"add "
                          "'| tar x' or '>FILE'"});
  FB_CO_TRY_ASSIGN(const auto stream,
                   co_await download(client, microvm_path(from.id, (directory ? "/tar" : "/files") +
                                                                       file_query(from.path))));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(far_away()));
    if (bytes.empty()) co_return Result<>();
    FB_CO_TRY(sys::write_all(STDOUT_FILENO, bytes));
  }
}

net::Task<Result<>> copy_from_stdin(Client& client, Place to) {
  FB_CO_TRY_ASSIGN(const std::string there, co_await type_in_guest(client, to));
  const bool directory = there == "dir" || to.path.ends_with('/');
  if (directory && there.empty())
    FB_CO_TRY(co_await client.call(
        "POST", microvm_path(to.id, "/files/mkdir" + file_query(to.path) + "&parents=1")));
  const Source source = []() -> net::Task<Result<std::string>> {
    std::string piece(256UL * 1024, '\0');
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count < 0) co_return fail_errno("read standard input");
    piece.resize(static_cast<std::size_t>(count));
    co_return piece;
  };
  co_return co_await upload(
      client,
      microvm_path(to.id, (directory ? "/tar" : "/files") + file_query(to.path) +
                              (directory ? "" : "&parents=1")),
      source);
}

}  // namespace firebreak::cli
