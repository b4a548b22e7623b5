#include "image/base_copy.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/tool.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

constexpr const char* kSources = "/etc/apt/sources.list";
constexpr const char* kPipConfig = "/etc/pip.conf";
// What update-ca-certificates takes certificates from, and where programs find them one by one.
constexpr const char* kLocalCertificates = "/usr/local/share/ca-certificates";
constexpr const char* kCertificates = "/etc/ssl/certs";
constexpr const char* kDebugfs = "/sbin/debugfs";
constexpr auto kCopyTime = std::chrono::seconds(300);
constexpr auto kEditTime = std::chrono::seconds(60);

Result<std::string> read_in(const std::string& disk, const std::string& path) {
  return machine::run_tool({kDebugfs, "-R", "cat " + path, disk}, Deadline::in(kEditTime));
}

// debugfs says nothing of what went wrong, so what was written is read again.
Result<> write_in(const std::string& disk, const std::string& path, const std::string& content) {
  const std::string file = disk + ".file";
  FB_TRY(sys::replace_file(file, content, 0644));
  (void)machine::run_tool({kDebugfs, "-w", "-R", "rm " + path, disk}, Deadline::in(kEditTime));
  auto written = machine::run_tool({kDebugfs, "-w", "-R", "write " + file + " " + path, disk},
                                   Deadline::in(kEditTime));
  (void)::unlink(file.c_str());
  FB_TRY(std::move(written));
  FB_TRY_ASSIGN(const std::string got, read_in(disk, path));
  if (got != content) return fail(Code::unavailable, "cannot write " + path + " into " + disk);
  return {};
}

Result<std::set<std::string>> names_in(const std::string& disk, const std::string& directory) {
  FB_TRY_ASSIGN(
      const std::string listed,
      machine::run_tool({kDebugfs, "-R", "ls -p " + directory, disk}, Deadline::in(kEditTime)));
  std::set<std::string> names;
  for (const std::string_view line : split(listed, '\n')) {
    const auto fields = split(line, '/');  // "/INODE/MODE/UID/GID/NAME/SIZE/"
    if (fields.size() > 5) names.emplace(fields[5]);
  }
  return names;
}

// As update-ca-certificates in the guest would do it, which finds them again and keeps them.
Result<> add_one_by_one(const std::string& disk, const std::string& staging,
                        const std::vector<GuestCa::Certificate>& certificates) {
  FB_TRY_ASSIGN(std::set<std::string> taken, names_in(disk, kCertificates));
  std::string commands;
  std::set<std::string> files;
  std::size_t number = 0;
  for (const GuestCa::Certificate& certificate : certificates) {
    const std::string name = "firebreak-" + std::to_string(++number);
    FB_TRY(sys::replace_file(staging + "/" + name, certificate.pem, 0644));
    const std::string file = std::string(kLocalCertificates) + "/" + name + ".crt";
    std::size_t same = 0;
    while (taken.contains(certificate.subject + "." + std::to_string(same))) ++same;
    const std::string hash = certificate.subject + "." + std::to_string(same);
    taken.insert(hash);
    commands += "write " + staging + "/" + name + " " + file + "\n";
    commands += "symlink " + std::string(kCertificates) + "/" + name + ".pem " + file + "\n";
    commands += "symlink " + std::string(kCertificates) + "/" + hash + " " + name + ".pem\n";
    files.insert({name + ".pem", hash});
  }
  const std::string script = staging + "/commands";
  FB_TRY(sys::replace_file(script, commands, 0600));
  FB_TRY(machine::run_tool({kDebugfs, "-w", "-f", script, disk}, Deadline::in(kEditTime)));
  FB_TRY_ASSIGN(const std::set<std::string> links, names_in(disk, kCertificates));
  FB_TRY_ASSIGN(const std::set<std::string> written, names_in(disk, kLocalCertificates));
  const bool all = std::ranges::includes(links, files) &&
                   written.contains("firebreak-" + std::to_string(number) + ".crt");
  if (!all) return fail(Code::unavailable, "cannot write certificates into " + disk);
  return {};
}

Result<> add_certificates(const std::string& disk, const GuestCa& ca) {
  FB_TRY_ASSIGN(const std::string own, bundle_in(disk));
  const std::vector<GuestCa::Certificate> more = beyond(own, ca);
  if (more.empty()) return {};
  FB_TRY(write_in(disk, kCaBundle, with_certificates(own, more)));
  const std::string staging = disk + ".certificates";
  FB_TRY(sys::mkdirs(staging, 0700));
  auto added = add_one_by_one(disk, staging, more);
  FB_TRY(sys::remove_tree(staging));
  return added;
}

Result<> edit(const std::string& disk, const BaseChanges& changes) {
  const Mirrors& mirrors = changes.mirrors;
  if (!mirrors.apt.empty() || !mirrors.apt_security.empty()) {
    FB_TRY_ASSIGN(const std::string sources, read_in(disk, kSources));
    FB_TRY(write_in(disk, kSources, with_mirrors(sources, mirrors)));
  }
  if (changes.ca) FB_TRY(add_certificates(disk, *changes.ca));
  // A pip that was upgraded in the guest has certificates of its own, unless it is told. What a
  // base of the operator's own says stays, as long as nothing else is asked for.
  const std::string config = pip_config(mirrors.pip, changes.ca ? kCaBundle : "");
  FB_TRY_ASSIGN(const std::string own, read_in(disk, kPipConfig));
  if (!config.empty() && (own.empty() || !mirrors.pip.empty()))
    FB_TRY(write_in(disk, kPipConfig, config));
  return {};
}

Result<bool> has_all(const std::string& disk, const BaseChanges& changes) {
  if (changes.mirrors != Mirrors()) return false;
  if (!changes.ca) return true;
  FB_TRY_ASSIGN(const std::string own, bundle_in(disk));
  return beyond(own, *changes.ca).empty();
}

}  // namespace

Result<std::string> bundle_in(const std::string& disk) {
  return read_in(disk, kCaBundle);
}

Result<std::string> changed_disk(const std::string& disk, const BaseChanges& changes,
                                 const std::string& directory) {
  FB_TRY_ASSIGN(const bool whole, has_all(disk, changes));
  if (whole) return disk;
  FB_TRY(sys::mkdirs(directory, 0755));
  std::error_code ec;
  // The link leads to a directory that is named by content.
  const std::string real = std::filesystem::canonical(disk, ec).string();
  if (ec) return fail(Code::not_found, "there is no base disk " + disk);
  const Mirrors& mirrors = changes.mirrors;
  std::string inputs = real + '\0' + mirrors.apt + '\0' + mirrors.apt_security + '\0' + mirrors.pip;
  if (changes.ca) inputs += '\0' + changes.ca->mark.sha256;
  std::string copy = directory + "/" + wire::sha256_hex(inputs).substr(0, 16) + ".ext4";
  if (std::filesystem::exists(copy)) return copy;
  const std::string making = copy + ".making";
  FB_TRY(machine::run_tool({"/bin/cp", "--sparse=always", "--reflink=auto", real, making},
                           Deadline::in(kCopyTime)));
  if (auto edited = edit(making, changes); !edited) {
    (void)::unlink(making.c_str());
    return std::unexpected(edited.error());
  }
  if (::rename(making.c_str(), copy.c_str()) != 0) return fail_errno("rename " + making);
  return copy;
}

Result<> prune_disks(const std::string& directory, const std::set<std::string>& used) {
  if (!std::filesystem::exists(directory)) return {};
  FB_TRY_ASSIGN(const std::vector<std::string> names, sys::list_dir(directory));
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    if (!used.contains(path)) FB_TRY(sys::remove_tree(path));
  }
  return {};
}

}  // namespace firebreak::image
