// What RUN --mount=type=cache keeps from build to build: it comes into a stage's machine before the
// first step that names it, and leaves it when the stage ends, well or not. A cache may be empty at
// any time, so nothing that goes wrong here fails a build.
#include "base/text.h"
#include "image/builder.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr auto kKeepTime = std::chrono::seconds(300);

// One cache is another's if it is to begin with other files, or as somebody else's directory.
std::string key_of_cache(const wire::Mount& mount, const std::string& from) {
  json::array parts{mount.id, from, from.empty() ? "" : mount.source};
  for (const auto& number : {mount.mode, mount.uid, mount.gid})
    parts.push_back(number ? json::value(*number) : json::value());
  return wire::sha256_hex(json::serialize(parts));
}

std::string staging_of(const std::string& key) {
  return "cache-" + key.substr(0, 32);
}

}  // namespace

net::Task<Result<StagedTree>> Builder::stage_cache(BuildMachine& machine, const RunMount& run_mount,
                                                   Deadline deadline) {
  const wire::Mount& mount = run_mount.mount;
  FB_CO_TRY_ASSIGN(const std::string from, key_of(run_mount.source));
  const std::string key = key_of_cache(mount, from);
  const StagedTree tree{.staging = staging_of(key), .path = "top"};
  if (!caches_.contains(key)) {
    if (!co_await restore_cache(machine, run_mount, key, deadline)) {
      FB_CO_TRY(co_await machine.stage(tree.staging, 0, deadline));
      FB_CO_TRY(
          co_await put_entry(machine.agent(), tree.staging, top_of(mount, 0755), "", deadline));
      if (!from.empty()) {
        FB_CO_TRY_ASSIGN(BuildMachine * source, co_await source_on(run_mount.source, deadline));
        FB_CO_TRY(co_await copy_guest(
            source->agent(), {.path = "/" + mount.source, .directory = true}, machine.agent(),
            {.directory = "top", .staging = tree.staging, .user = {}}, "", std::nullopt, {},
            deadline));
      }
    }
    caches_[key] = false;
  }
  if (!mount.read_only) caches_[key] = true;
  co_return tree;
}

net::Task<bool> Builder::restore_cache(BuildMachine& machine, const RunMount& run_mount,
                                       std::string key, Deadline deadline) {
  const auto kept = mounts_.find(order_.owner, key);
  if (!kept) co_return false;
  auto restored = co_await fill_cache(machine, *kept, run_mount.mount, staging_of(key), deadline);
  if (restored) co_return true;
  say("    note: the cache for " + run_mount.mount.target +
      " begins empty; what an earlier build left cannot be taken: " + restored.error().message);
  co_return false;
}

net::Task<Result<>> Builder::fill_cache(BuildMachine& machine, const FileSpan& kept,
                                        const wire::Mount& mount, std::string staging,
                                        Deadline deadline) {
  FB_CO_TRY(co_await machine.stage(staging, 0, deadline));
  // There whatever the archive holds, which says again whose it is.
  FB_CO_TRY(co_await put_entry(machine.agent(), staging, top_of(mount, 0755), "", deadline));
  FB_CO_TRY_ASSIGN(
      GuestArchive archive,
      GuestArchive::open(machine.agent(), {.directory = ".", .staging = staging, .user = {}}));
  for (std::uint64_t at = 0; at < kept.size;) {
    auto read = [&] { return kept.read(at, kPiece); };
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await net::run_blocking(pool_, read));
    if (bytes.empty()) co_return fail(Code::corrupt, "its file is cut");
    FB_CO_TRY(co_await archive.write(bytes, deadline));
    at += bytes.size();
  }
  co_return co_await archive.finish_packed(deadline);
}

net::Task<void> Builder::keep_caches(BuildMachine& machine, Deadline deadline) {
  const Deadline until = deadline.earlier(Deadline::in(kKeepTime));
  const auto caches = std::exchange(caches_, {});
  for (const auto& [key, written] : caches) {
    if (!written || order_.cache_mount_bytes == 0) continue;
    if (auto kept = co_await keep_cache(machine, key, until); !kept)
      say("    note: a cache mount is not kept for other builds: " + kept.error().message);
  }
}

net::Task<Result<>> Builder::keep_cache(BuildMachine& machine, std::string key, Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      auto stream,
      machine.agent().data_stream(
          "GET", "/build/tar?path=.&staging=" + percent_encode(staging_of(key)), true));
  FB_CO_TRY(co_await machine::expect_ok(*stream, deadline));
  FB_CO_TRY_ASSIGN(const auto writer, mounts_.begin(order_.owner, key, order_.cache_mount_bytes));
  std::string piece;
  for (bool more = true; more;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(deadline));
    more = !bytes.empty();
    piece += bytes;
    if (more && piece.size() < kPiece) continue;
    auto write = [&] { return writer->write(std::exchange(piece, {})); };
    FB_CO_TRY(co_await net::run_blocking(pool_, write));
  }
  auto commit = [&] { return writer->commit(); };
  co_return co_await net::run_blocking(pool_, commit);
}

}  // namespace firebreak::image
