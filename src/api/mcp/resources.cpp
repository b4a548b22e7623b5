#include "api/mcp/resources.h"

#include <array>

#include "api/mcp/files.h"
#include "api/mcp/tool_support.h"
#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::api::mcp {
namespace {

constexpr std::array<std::string_view, 4> kDirectories{"/", "/root", "/srv", "/tmp"};
constexpr std::size_t kMostListed = 500;
constexpr std::size_t kMostSandboxes = 32;
constexpr std::string_view kScheme = "sandbox://";

// Adds the regular files of one directory; one that is not there has none.
net::Task<void> add_files(const session::Guest& guest, std::string directory, json::array& to) {
  const auto listing = co_await list_sorted(guest, directory, kMostListed);
  if (!listing) co_return;
  if (directory != "/") directory += "/";
  for (const session::FileInfo& info : listing->entries) {
    if (info.type != "file" || to.size() >= kMostListed) continue;
    // Names in listings are percent-encoded already.
    to.push_back(json::object{
        {"uri", std::string(kScheme) + guest.microvm().id.str() + directory + info.name},
        {"name", info.name},
        {"description", directory + info.name + " in the sandbox " + guest.microvm().id.str()},
        {"mimeType", mime_of(info.name, false)},
        {"size", info.size}});
  }
}

struct Place {
  std::string sandbox;
  std::string path;
};
std::optional<Place> place_of(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const auto slash = uri.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  auto path = percent_decode(uri.substr(slash));
  if (!path) return std::nullopt;
  return Place{std::string(uri.substr(0, slash)), *std::move(path)};
}

}  // namespace

net::Task<Result<json::array>> list_resources(Parts& parts, session::SandboxOwner owner) {
  json::array all;
  FB_CO_TRY_ASSIGN(const auto listed, co_await parts.sandboxes.list(owner, ""));
  std::size_t entered = 0;
  for (const core::Microvm& microvm : listed.sandboxes) {
    if (microvm.state != core::MicrovmState::running || entered == kMostSandboxes) continue;
    auto guest = co_await parts.guests.enter(owner.tenant.id, microvm.id, Deadline::in(kSoon));
    if (!guest) continue;
    ++entered;
    for (const std::string_view directory : kDirectories)
      co_await add_files(*guest, std::string(directory), all);
  }
  co_return all;
}

json::array resource_templates() {
  return {
      json::object{{"uriTemplate", "sandbox://{sandbox_id}{+path}"},
                   {"name", "file"},
                   {"title", "File of a sandbox"},
                   {"description", "Any file of one of your sandboxes, by its absolute path."}}};
}

net::Task<Result<json::array>> read_resource(Parts& parts, session::SandboxOwner owner,
                                             std::string uri) {
  const auto place = place_of(uri);
  if (!place)
    co_return fail(Code::not_found, "there is no resource " + uri,
                   Repair{"URIs are sandbox://SANDBOX_ID/absolute/path"});
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await parts.sandboxes.resolve(owner, place->sandbox));
  FB_CO_TRY_ASSIGN(const session::Guest guest,
                   co_await parts.guests.enter(owner.tenant.id, microvm.id, Deadline::in(kSoon)));
  FB_CO_TRY_ASSIGN(const FileContent file, co_await fetch_file(guest, place->path, 0, kMostFile));
  if (file.size > file.bytes.size())
    co_return fail(Code::exhausted,
                   "the file has " + std::to_string(file.size) + " bytes; a resource may have " +
                       std::to_string(kMostFile),
                   Repair{"read a part of it with the tool read_file"});
  json::object content{{"uri", uri}, {"mimeType", file.mime}};
  if (file.readable)
    content["text"] = file.bytes;
  else
    content["blob"] = wire::base64(file.bytes);
  co_return json::array{std::move(content)};
}

}  // namespace firebreak::api::mcp
