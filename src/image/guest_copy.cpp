#include "image/guest_copy.h"

#include <algorithm>

#include "base/text.h"
#include "image/tar_repacker.h"
#include "wire/path_pattern.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kPiece = std::size_t{64} * 1024;
constexpr std::size_t kMaxListing = std::size_t{16} << 20;

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

wire::TarEntry to_tar(const ContextEntry& entry, std::string path, const ModeAndTime& as) {
  using Type = ContextEntry::Type;
  wire::TarEntry out{.path = std::move(path), .mode = entry.mode, .mtime_ns = as.mtime_ns};
  out.type = entry.type == Type::dir    ? wire::TarType::dir
             : entry.type == Type::file ? wire::TarType::file
                                        : wire::TarType::symlink;
  if (entry.type == Type::file) out.size = entry.size;
  out.link_target = entry.target;
  if (as.mode && entry.type != Type::symlink)
    out.mode = as.mode->apply(out.mode, entry.type == Type::dir);
  return out;
}

// What a guest packed, under other names.
class Repacker final : public TarRepacker {
 public:
  Repacker(std::string rename, std::optional<FileMode> mode, wire::IgnoreRules excludes)
      : rename_(std::move(rename)), mode_(std::move(mode)), excludes_(std::move(excludes)) {}

 private:
  std::optional<wire::TarEntry> entry_for(const wire::TarEntry& entry) override {
    if (excludes_.excludes(wire::clean_path(entry.path))) return std::nullopt;
    wire::TarEntry as = entry;
    if (!rename_.empty()) as.path = rename_;
    if (mode_ && entry.type != wire::TarType::symlink && entry.type != wire::TarType::hardlink)
      as.mode = mode_->apply(as.mode, entry.type == wire::TarType::dir);
    return as;
  }

  std::string rename_;
  std::optional<FileMode> mode_;
  wire::IgnoreRules excludes_;
};

// Names in a directory of the guest.
net::Task<Result<std::vector<std::string>>> list_names(machine::AgentClient& agent,
                                                       const std::string& path, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream,
                   agent.data_stream("GET", "/files/list?path=" + percent_encode(path), true));
  FB_CO_TRY(co_await machine::expect_ok(*stream, deadline));
  std::string text;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(deadline));
    if (bytes.empty()) break;
    text += bytes;
    if (text.size() > kMaxListing)
      co_return fail(Code::exhausted, quoted_path(path) + " has too many entries for a pattern");
  }
  std::vector<std::string> names;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    FB_CO_TRY_ASSIGN(const json::object entry, parse_json_object(line));
    auto name = percent_decode(JsonReader(entry).string_or("name", ""));
    if (name && !name->empty() && !name->contains('/')) names.push_back(*std::move(name));
  }
  co_return names;
}

// What of the guest's tree matches, component by component.
net::Task<Result<std::vector<std::string>>> match_paths(machine::AgentClient& agent,
                                                        const std::string& pattern,
                                                        Deadline deadline) {
  std::vector<std::string> found{""};
  for (const std::string_view part : split(pattern, '/')) {
    if (part.empty()) continue;
    std::vector<std::string> next;
    if (!wire::PathPattern::is_pattern(part)) {
      for (const std::string& directory : found)
        next.push_back(directory + "/" + std::string(part));
    } else {
      FB_CO_TRY_ASSIGN(const wire::PathPattern name,
                       wire::PathPattern::parse(part, wire::PathPattern::Stars::within_name));
      for (const std::string& directory : found) {
        auto names = co_await list_names(agent, directory.empty() ? "/" : directory, deadline);
        if (!names && names.error().code != Code::not_found && names.error().code != Code::conflict)
          co_return std::unexpected(names.error());
        if (!names) continue;
        std::ranges::sort(*names);
        for (const std::string& other : *names)
          if (name.matches(other)) next.push_back(directory + "/" + other);
      }
    }
    found = std::move(next);
  }
  co_return found;
}

}  // namespace

// ---------------------------------------------------------------------------------- GuestArchive

Result<GuestArchive> GuestArchive::open(machine::AgentClient& agent, const CopyPlace& place) {
  std::string path = "/build/tar?path=" + percent_encode(place.directory);
  if (!place.staging.empty()) path += "&staging=" + percent_encode(place.staging);
  if (!place.user.empty()) path += "&user=" + percent_encode(place.user);
  FB_TRY_ASSIGN(auto stream, agent.data_stream("PUT", path, false));
  return GuestArchive(std::move(stream));
}

Result<GuestArchive> GuestArchive::open_layer(machine::AgentClient& agent) {
  FB_TRY_ASSIGN(auto stream, agent.data_stream("PUT", "/build/layer", false));
  return GuestArchive(std::move(stream));
}

net::Task<Result<>> GuestArchive::begin(const wire::TarEntry& entry, Deadline deadline) {
  FB_CO_TRY(writer_.begin_entry(entry, out_));
  co_return co_await flush(deadline);
}

net::Task<Result<>> GuestArchive::write(std::string_view bytes, Deadline deadline) {
  out_ += bytes;
  co_return co_await flush(deadline);
}

net::Task<Result<>> GuestArchive::end(Deadline deadline) {
  writer_.end_entry(out_);
  co_return co_await flush(deadline);
}

net::Task<Result<>> GuestArchive::flush(Deadline deadline) {
  if (out_.size() < kPiece) co_return Result<>();
  const std::string bytes = std::exchange(out_, {});
  auto written = co_await stream_->write(bytes, deadline);
  if (written) co_return Result<>();
  // The agent has answered already, and says why it reads no more.
  FB_CO_TRY(co_await machine::expect_ok(*stream_, deadline));
  co_return written;
}

net::Task<Result<>> GuestArchive::finish(Deadline deadline) {
  wire::TarWriter::finish(out_);
  co_return co_await finish_packed(deadline);
}

net::Task<Result<>> GuestArchive::finish_packed(Deadline deadline) {
  const std::string bytes = std::exchange(out_, {});
  if (!bytes.empty()) (void)co_await stream_->write(bytes, deadline);
  stream_->finish();
  co_return co_await machine::expect_ok(*stream_, deadline);
}

wire::TarEntry top_of(const wire::Mount& mount, std::uint32_t mode) {
  return {.path = "top",
          .type = wire::TarType::dir,
          .mode = mount.mode.value_or(mode),
          .uid = mount.uid.value_or(0),
          .gid = mount.gid.value_or(0)};
}

net::Task<Result<>> put_entry(machine::AgentClient& agent, std::string staging,
                              wire::TarEntry entry, std::string content, Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      GuestArchive archive,
      GuestArchive::open(agent, {.directory = ".", .staging = std::move(staging), .user = {}}));
  FB_CO_TRY(co_await archive.begin(entry, deadline));
  FB_CO_TRY(co_await archive.write(content, deadline));
  FB_CO_TRY(co_await archive.end(deadline));
  co_return co_await archive.finish(deadline);
}

// ----------------------------------------------------------------------------------- the context

net::Task<Result<>> copy_context(machine::AgentClient& agent, const BuildContext& context,
                                 const CopySelection& selection, CopyPlace place,
                                 std::string rename, ModeAndTime as, Deadline deadline) {
  FB_CO_TRY_ASSIGN(GuestArchive archive, GuestArchive::open(agent, place));
  for (const CopyItem& item : selection.items) {
    const ContextEntry* entry = context.find(item.path);
    if (entry == nullptr) continue;  // the destination itself
    FB_CO_TRY(
        co_await archive.begin(to_tar(*entry, rename.empty() ? item.to : rename, as), deadline));
    for (std::uint64_t at = 0; entry->type == ContextEntry::Type::file && at < entry->size;) {
      FB_CO_TRY_ASSIGN(const std::string bytes, context.read(*entry, at, kPiece));
      if (bytes.empty()) co_return fail(Code::corrupt, "a file of the context is cut");
      FB_CO_TRY(co_await archive.write(bytes, deadline));
      at += bytes.size();
    }
    FB_CO_TRY(co_await archive.end(deadline));
  }
  co_return co_await archive.finish(deadline);
}

net::Task<Result<>> copy_inline(machine::AgentClient& agent, const std::vector<InlineFile>& files,
                                CopyPlace place, std::string rename, ModeAndTime as,
                                Deadline deadline) {
  FB_CO_TRY_ASSIGN(GuestArchive archive, GuestArchive::open(agent, place));
  for (const InlineFile& file : files) {
    ContextEntry entry{.mode = 0644, .size = file.content.size()};
    FB_CO_TRY(
        co_await archive.begin(to_tar(entry, rename.empty() ? file.name : rename, as), deadline));
    FB_CO_TRY(co_await archive.write(file.content, deadline));
    FB_CO_TRY(co_await archive.end(deadline));
  }
  co_return co_await archive.finish(deadline);
}

net::Task<Result<bool>> is_archive(machine::AgentClient& agent, const BuildContext& context,
                                   const ContextEntry& file, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const std::string begin, context.read(file, 0, kPiece));
  FB_CO_TRY_ASSIGN(auto probe, agent.data_stream("PUT", "/build/probe", false));
  FB_CO_TRY(co_await probe->write(begin, deadline));
  probe->finish();
  auto is = co_await machine::expect_ok(*probe, deadline);
  if (is) co_return true;
  if (is.error().code == Code::invalid) co_return false;
  co_return std::unexpected(is.error());
}

net::Task<Result<>> unpack_archive(machine::AgentClient& agent, const BuildContext& context,
                                   const ContextEntry& file, CopyPlace place, Deadline deadline) {
  FB_CO_TRY_ASSIGN(GuestArchive archive, GuestArchive::open(agent, place));
  for (std::uint64_t at = 0; at < file.size;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, context.read(file, at, kPiece));
    if (bytes.empty()) co_return fail(Code::corrupt, "a file of the context is cut");
    FB_CO_TRY(co_await archive.write(bytes, deadline));
    at += bytes.size();
  }
  co_return co_await archive.finish_packed(deadline);
}

// --------------------------------------------------------------------------------- another guest

net::Task<Result<std::string>> type_of(machine::AgentClient& agent, std::string path,
                                       Deadline deadline) {
  auto stat = co_await agent.data_call("GET", "/files/stat?follow=1&path=" + percent_encode(path),
                                       {}, deadline);
  if (stat) co_return JsonReader(*stat).string_or("type", "");
  if (stat.error().code == Code::not_found) co_return std::string();
  co_return std::unexpected(stat.error());
}

net::Task<Result<std::string>> link_end(machine::AgentClient& agent, std::string path,
                                        Deadline deadline) {
  constexpr int kMaxLinks = 40;
  for (int links = 0; links <= kMaxLinks; ++links) {
    auto stat =
        co_await agent.data_call("GET", "/files/stat?path=" + percent_encode(path), {}, deadline);
    if (!stat && stat.error().code == Code::not_found) co_return path;
    if (!stat) co_return std::unexpected(stat.error());
    if (JsonReader(*stat).string_or("type", "") != "symlink") co_return path;
    auto target = percent_decode(JsonReader(*stat).string_or("target", ""));
    if (!target || target->empty()) co_return fail(Code::guest, "a link without a target");
    // Not cleaned: what .. means behind another link is for the guest's kernel to say.
    path = target->starts_with('/') ? *target : path.substr(0, path.rfind('/') + 1) + *target;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  }
  co_return fail(Code::invalid, quoted_path(path) + " leads through too many symbolic links");
}

net::Task<Result<std::vector<GuestSource>>> find_guest_sources(machine::AgentClient& agent,
                                                               std::vector<std::string> sources,
                                                               Deadline deadline) {
  std::vector<GuestSource> found;
  for (const std::string& source : sources) {
    const std::string clean = wire::clean_path("/" + source);
    FB_CO_TRY_ASSIGN(const auto paths, co_await match_paths(agent, clean, deadline));
    bool any = false;
    for (const std::string& path : paths) {
      const std::string full = path.empty() ? "/" : path;
      FB_CO_TRY_ASSIGN(const std::string type, co_await type_of(agent, full, deadline));
      if (type.empty()) continue;
      any = true;
      found.push_back({.path = full, .directory = type == "dir"});
    }
    if (!any && !wire::PathPattern::is_pattern(clean))
      co_return fail(Code::not_found, quoted_path(source) + " is not there");
  }
  if (found.empty())
    co_return fail(Code::not_found, "nothing matches " + quoted_path(sources.front()));
  co_return found;
}

net::Task<Result<>> copy_guest(machine::AgentClient& from, GuestSource source,
                               machine::AgentClient& to, CopyPlace place, std::string rename,
                               std::optional<FileMode> mode, std::vector<std::string> excludes,
                               Deadline deadline) {
  FB_CO_TRY_ASSIGN(wire::IgnoreRules rules, wire::IgnoreRules::of(excludes));
  FB_CO_TRY_ASSIGN(auto packed,
                   from.data_stream("GET", "/tar?path=" + percent_encode(source.path), true));
  FB_CO_TRY(co_await machine::expect_ok(*packed, deadline));
  FB_CO_TRY_ASSIGN(GuestArchive archive, GuestArchive::open(to, place));
  if (!source.directory && rename.empty()) rename = name_of(source.path);
  Repacker repacker(source.directory ? "" : std::move(rename), std::move(mode), std::move(rules));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await packed->read(deadline));
    if (bytes.empty()) break;
    FB_CO_TRY(repacker.feed(bytes));
    FB_CO_TRY(co_await archive.write(repacker.take(), deadline));
  }
  FB_CO_TRY(repacker.finish());
  FB_CO_TRY(co_await archive.write(repacker.take(), deadline));
  co_return co_await archive.finish_packed(deadline);
}

}  // namespace firebreak::image
