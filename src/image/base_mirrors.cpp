#include "image/base_mirrors.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMaxAddress = 1000;

Result<> check_address(const std::string& option, const std::string& address) {
  if (address.empty()) return {};
  const bool plain = std::ranges::all_of(address, [](char c) { return c > ' ' && c < 0x7f; });
  if ((address.starts_with("http://") || address.starts_with("https://")) && plain &&
      address.size() <= kMaxAddress)
    return {};
  return fail(Code::invalid, option + " must be an http:// or https:// address");
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

std::string pip_config(const std::string& index, const std::string& bundle) {
  if (index.empty() && bundle.empty()) return "";
  std::string text = "[global]\n";
  if (!index.empty()) text += "index-url = " + index + "\n";
  if (index.starts_with("http://")) {
    const std::string rest = index.substr(7);
    text += "trusted-host = " + rest.substr(0, rest.find('/')) + "\n";
  }
  if (!bundle.empty()) text += "cert = " + bundle + "\n";
  return text;
}

}  // namespace firebreak::image
