#include "machine/runtime_root.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include <sys/file.h>

#include "base/deadline.h"
#include "base/sys.h"
#include "base/text.h"
#include "machine/hash.h"
#include "machine/tool.h"

namespace firebreak::machine {
namespace {

constexpr const char* kQemu = "/usr/bin/qemu-system-x86_64";
constexpr const char* kInterpreter = "/lib64/ld-linux-x86-64.so.2";
// The emulator is a module in Debian's QEMU; a build that has it inside lacks the file.
constexpr const char* kTcgModule = "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so";
// All that a `microvm` without option ROMs opens; a PVH kernel is started by it as well.
constexpr const char* kFirmware = "/usr/share/qemu/bios-microvm.bin";
// Decides which library a name means, so a change of it can change the set of files.
constexpr const char* kLinkerCache = "/etc/ld.so.cache";
constexpr const char* kMountPoints[] = {"proc", "dev"};
constexpr std::chrono::seconds kToolTime{20};
constexpr std::chrono::seconds kLockTime{60};

// What the dynamic linker would load for the program, with the linker itself.
Result<> add_libraries(const std::string& program, std::set<std::string>& files) {
  FB_TRY_ASSIGN(const std::string listing,
                run_tool({kInterpreter, "--list", program}, Deadline::in(kToolTime)));
  for (std::string_view line : split(listing, '\n')) {
    if (line.find("not found") != std::string_view::npos)
      return fail(Code::unavailable,
                  program + " needs a library that is not installed:" + std::string(line));
    const auto path_at = line.find('/');
    if (path_at == std::string_view::npos) continue;
    std::string_view path = line.substr(path_at);
    path = path.substr(0, path.find(" ("));
    // "libX => /path (address)"; of the linker's own line, "/lib64/ld => /lib/ld (address)", the
    // first path counts.
    files.emplace(path.substr(0, path.find(" => ")));
  }
  return {};
}

Result<std::set<std::string>> list_inputs() {
  if (!sys::exists(kQemu))
    return fail(Code::unavailable, std::string(kQemu) + " is not installed",
                Repair{"install the package qemu-system-x86"});
  std::set<std::string> files{kQemu, kInterpreter, kFirmware};
  FB_TRY(add_libraries(kQemu, files));
  if (sys::exists(kTcgModule)) {
    files.insert(kTcgModule);
    FB_TRY(add_libraries(kTcgModule, files));
  }
  return files;
}

// Identity of an input that is cheap to compare; follows links, as opening does.
Result<std::string> fingerprint_line(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return fail_errno("stat " + path);
  return std::to_string(st.st_dev) + " " + std::to_string(st.st_ino) + " " +
         std::to_string(st.st_size) + " " + std::to_string(st.st_mtim.tv_sec) + "." +
         std::to_string(st.st_mtim.tv_nsec) + " " + path + "\n";
}

Result<std::string> fingerprint_of(const std::set<std::string>& inputs) {
  std::string text;
  for (const std::string& path : inputs) {
    FB_TRY_ASSIGN(const std::string line, fingerprint_line(path));
    text += line;
  }
  if (const auto cache = fingerprint_line(kLinkerCache)) text += *cache;
  return text;
}

// The hash that belongs to this fingerprint file, if every input is still what it was.
std::string unchanged_hash(const std::string& text) {
  auto lines = split(text, '\n');
  if (lines.size() < 3) return {};
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    const auto path_at = lines[i].find('/');
    if (path_at == std::string_view::npos) return {};
    const auto now = fingerprint_line(std::string(lines[i].substr(path_at)));
    if (!now || now->substr(0, now->size() - 1) != lines[i]) return {};
  }
  return std::string(lines[0]);
}

Result<RuntimeFile> copy_file(const std::string& root, const std::string& path) {
  const std::string target = root + path;
  FB_TRY(sys::mkdirs(std::filesystem::path(target).parent_path().string(), 0755));
  FB_TRY_ASSIGN(const UniqueFd from, sys::open(path, O_RDONLY));
  FB_TRY_ASSIGN(const UniqueFd to, sys::open(target, O_WRONLY | O_CREAT | O_EXCL, 0600));
  RuntimeFile file{.path = path};
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (;;) {
    const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) break;
    const auto part = std::span(buffer).first(static_cast<std::size_t>(n));
    hash.update(part);
    file.size += part.size();
    FB_TRY(sys::write_all(to.get(), part));
  }
  file.sha256 = hash.hex();
  // QEMU may be executed but not read: the kernel then never makes a core dump of it, nor lets an
  // equal uid trace it.
  mode_t mode = 0444;
  if (path == kQemu) mode = 0111;
  if (path == kInterpreter) mode = 0555;
  if (::fchmod(to.get(), mode) != 0 || ::fsync(to.get()) != 0)
    return fail_errno("finish " + target);
  return file;
}

// Makes the directories durable and unwritable.
Result<> seal_directories(const std::string& root, const std::set<std::string>& inputs) {
  std::set<std::string> directories{"/"};
  for (const char* name : kMountPoints) directories.insert(std::string("/") + name);
  for (const std::string& input : inputs) {
    for (auto parent = std::filesystem::path(input).parent_path(); parent != "/";
         parent = parent.parent_path())
      directories.insert(parent.string());
  }
  for (const std::string& directory : directories) {
    const std::string path = root + directory;
    FB_TRY(sys::fsync_dir(path));
    if (::chmod(path.c_str(), 0555) != 0) return fail_errno("chmod " + path);
  }
  return {};
}

// Held while a root is made, so that two starters do not do it twice.
Result<UniqueFd> lock_directory(const std::string& directory) {
  FB_TRY_ASSIGN(UniqueFd lock, sys::open(directory + "/.lock", O_RDWR | O_CREAT, 0600));
  const Deadline deadline = Deadline::in(kLockTime);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("lock " + directory);
    if (deadline.passed())
      return fail(Code::timeout, "another process has " + directory + " locked");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return lock;
}

Result<std::string> qemu_version() {
  FB_TRY_ASSIGN(const std::string output, run_tool({kQemu, "--version"}, Deadline::in(kToolTime)));
  constexpr std::string_view kIntro = "QEMU emulator version ";
  if (!output.starts_with(kIntro)) return fail(Code::unavailable, "QEMU does not tell its version");
  return output.substr(kIntro.size(), output.find('\n') - kIntro.size());
}

// Fills `directory` and returns the content hash.
Result<std::string> build(const std::string& directory, const std::set<std::string>& inputs) {
  const std::string root = directory + "/root";
  FB_TRY(sys::mkdirs(root, 0755));
  for (const char* name : kMountPoints) FB_TRY(sys::mkdir(root + "/" + name, 0755));
  Sha256 hash;
  std::string manifest;
  for (const std::string& path : inputs) {
    FB_TRY_ASSIGN(const RuntimeFile file, copy_file(root, path));
    hash.update(file.path + " " + file.sha256 + "\n");
    manifest += file.sha256 + " " + std::to_string(file.size) + " " + file.path + "\n";
  }
  FB_TRY(seal_directories(root, inputs));
  FB_TRY_ASSIGN(const std::string version, qemu_version());
  FB_TRY(sys::replace_file(directory + "/version", version, 0444));
  FB_TRY(sys::replace_file(directory + "/manifest", manifest, 0444));
  return hash.hex();
}

// One that a crash has left; nobody else works here while the lock is held.
Result<> remove_unfinished(const std::string& runtime_dir) {
  FB_TRY_ASSIGN(const std::vector<std::string> names, sys::list_dir(runtime_dir));
  for (const std::string& name : names) {
    if (!name.starts_with(".new-")) continue;
    FB_TRY(sys::remove_tree(std::string(runtime_dir).append("/").append(name)));
  }
  return {};
}

bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<RuntimeRoot> open_runtime_root(const std::string& data_dir, const std::string& hash) {
  if (!is_hash(hash))
    return fail(Code::invalid, "'" + hash + "' is not the hash of a QEMU runtime");
  const std::string directory = data_dir + "/runtime/" + hash;
  if (!sys::exists(directory))
    return fail(Code::not_found, "the QEMU runtime " + hash + " is not kept in " + data_dir);
  FB_TRY_ASSIGN(std::string version, sys::read_file(directory + "/version"));
  RuntimeRoot root{.path = directory + "/root",
                   .hash = hash,
                   .qemu_version = std::move(version),
                   .qemu_path = kQemu};
  FB_TRY_ASSIGN(const std::vector<RuntimeFile> files, read_manifest(root));
  for (const RuntimeFile& file : files) {
    struct stat st{};
    if (::lstat((root.path + file.path).c_str(), &st) != 0 || !S_ISREG(st.st_mode) ||
        static_cast<std::uint64_t>(st.st_size) != file.size)
      return fail(Code::corrupt, root.path + file.path + " is missing or damaged");
  }
  return root;
}

Result<RuntimeRoot> prepare_runtime_root(const std::string& data_dir) {
  const std::string runtime_dir = data_dir + "/runtime";
  const std::string fingerprint_file = runtime_dir + "/current";
  if (const auto recorded = sys::read_file(fingerprint_file)) {
    const std::string hash = unchanged_hash(*recorded);
    if (!hash.empty()) {
      if (auto root = open_runtime_root(data_dir, hash)) return root;
    }
  }

  FB_TRY(sys::mkdirs(runtime_dir, 0755));
  FB_TRY_ASSIGN(const UniqueFd lock, lock_directory(runtime_dir));
  FB_TRY(remove_unfinished(runtime_dir));
  FB_TRY_ASSIGN(const std::set<std::string> inputs, list_inputs());
  FB_TRY_ASSIGN(const std::string before, fingerprint_of(inputs));
  const std::string staging = runtime_dir + "/.new-" + sys::random_hex(4);
  auto hash = build(staging, inputs);
  auto after = fingerprint_of(inputs);
  if (hash && after && *after != before)
    hash =
        fail(Code::unavailable, "QEMU's files changed while they were copied", Repair{"try again"});
  if (!hash) {
    FB_TRY(sys::remove_tree(staging));
    return std::unexpected(std::move(hash).error());
  }

  const std::string directory = runtime_dir + "/" + *hash;
  // One that is damaged is replaced: its content is known, and running machines keep the files they
  // have open.
  if (sys::exists(directory) && !open_runtime_root(data_dir, *hash))
    FB_TRY(sys::remove_tree(directory));
  if (sys::exists(directory)) {
    FB_TRY(sys::remove_tree(staging));
  } else if (::rename(staging.c_str(), directory.c_str()) != 0) {
    return fail_errno("rename to " + directory);
  }
  FB_TRY(sys::replace_file(fingerprint_file, *hash + "\n" + before));
  return open_runtime_root(data_dir, *hash);
}

Result<std::vector<RuntimeFile>> read_manifest(const RuntimeRoot& root) {
  const std::string path = std::filesystem::path(root.path).parent_path().string() + "/manifest";
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  std::vector<RuntimeFile> files;
  for (std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const auto words = split(line, ' ');
    const auto size = words.size() == 3 ? parse_u64(words[1]) : std::nullopt;
    if (!size || !is_hash(words[0]) || !words[2].starts_with('/'))
      return fail(Code::corrupt, path + " is damaged");
    files.push_back(
        {.path = std::string(words[2]), .size = *size, .sha256 = std::string(words[0])});
  }
  if (files.empty()) return fail(Code::corrupt, path + " is empty");
  return files;
}

Result<> verify_runtime_root(const RuntimeRoot& root) {
  FB_TRY_ASSIGN(const std::vector<RuntimeFile> files, read_manifest(root));
  Sha256 hash;
  for (const RuntimeFile& file : files) {
    FB_TRY_ASSIGN(const std::string sha256, sha256_file(root.path + file.path));
    if (sha256 != file.sha256) return fail(Code::corrupt, root.path + file.path + " is damaged");
    hash.update(file.path + " " + sha256 + "\n");
  }
  if (hash.hex() != root.hash)
    return fail(Code::corrupt, "the manifest of " + root.path + " is damaged");
  return {};
}

}  // namespace firebreak::machine
