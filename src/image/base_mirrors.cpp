#include "image/base_mirrors.h"

#include <algorithm>
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
constexpr const char* kDebugfs = "/sbin/debugfs";
constexpr auto kCopyTime = std::chrono::seconds(300);
constexpr auto kEditTime = std::chrono::seconds(60);
constexpr std::size_t kMaxAddress = 1000;

Result<> check_address(const std::string& option, const std::string& address) {
  if (address.empty()) return {};
  const bool plain = std::ranges::all_of(address, [](char c) { return c > ' ' && c < 0x7f; });
  if ((address.starts_with("http://") || address.starts_with("https://")) && plain &&
      address.size() <= kMaxAddress)
    return {};
  return fail(Code::invalid, option + " must be an http:// or https:// address");
}

std::string pip_config(const std::string& index) {
  std::string text = "[global]\nindex-url = " + index + "\n";
  if (index.starts_with("http://")) {
    const std::string rest = index.substr(7);
    text += "trusted-host = " + rest.substr(0, rest.find('/')) + "\n";
  }
  return text;
}

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

Result<> edit(const std::string& disk, const Mirrors& mirrors) {
  if (!mirrors.apt.empty() || !mirrors.apt_security.empty()) {
    FB_TRY_ASSIGN(const std::string sources, read_in(disk, kSources));
    FB_TRY(write_in(disk, kSources, with_mirrors(sources, mirrors)));
  }
  if (!mirrors.pip.empty()) FB_TRY(write_in(disk, kPipConfig, pip_config(mirrors.pip)));
  return {};
}

}  // namespace

Result<> check_mirrors(const Mirrors& mirrors) {
  FB_TRY(check_address("--apt-mirror", mirrors.apt));
  FB_TRY(check_address("--apt-security-mirror", mirrors.apt_security));
  return check_address("--pip-index", mirrors.pip);
}

std::string with_mirrors(const std::string& sources, const Mirrors& mirrors) {
  std::string out;
  for (const std::string_view line : split(sources, '\n')) {
    if (line.empty()) continue;
    std::vector<std::string> words;
    for (const std::string_view word : split(line, ' ')) words.emplace_back(word);
    for (std::size_t i = 0; words[0] == "deb" && i + 1 < words.size(); ++i) {
      if (!words[i].contains("://")) continue;
      const std::string& other =
          words[i + 1].ends_with("-security") ? mirrors.apt_security : mirrors.apt;
      if (!other.empty()) words[i] = other;
      break;
    }
    for (std::size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : " ") + words[i];
    out += '\n';
  }
  return out;
}

Result<std::string> disk_with_mirrors(const std::string& disk, const Mirrors& mirrors,
                                      const std::string& directory) {
  if (mirrors.apt.empty() && mirrors.apt_security.empty() && mirrors.pip.empty()) return disk;
  FB_TRY(sys::mkdirs(directory, 0755));
  std::error_code ec;
  // The link leads to a directory that is named by content.
  const std::string real = std::filesystem::canonical(disk, ec).string();
  if (ec) return fail(Code::not_found, "there is no base disk " + disk);
  const std::string key = wire::sha256_hex(real + '\0' + mirrors.apt + '\0' + mirrors.apt_security +
                                           '\0' + mirrors.pip);
  std::string copy = directory + "/" + key.substr(0, 16) + ".ext4";
  if (std::filesystem::exists(copy)) return copy;
  const std::string making = copy + ".making";
  FB_TRY(machine::run_tool({"/bin/cp", "--sparse=always", "--reflink=auto", real, making},
                           Deadline::in(kCopyTime)));
  if (auto edited = edit(making, mirrors); !edited) {
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
    if (!used.contains(path) && ::unlink(path.c_str()) != 0) return fail_errno("remove " + path);
  }
  return {};
}

}  // namespace firebreak::image
