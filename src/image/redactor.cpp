#include "image/redactor.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

constexpr std::string_view kShown = "***";
// Less than this is in every text.
constexpr std::size_t kShortest = 3;

void add_credentials(std::string_view word, std::set<std::string>& out) {
  const std::size_t scheme = word.find("://");
  if (scheme != std::string_view::npos) word.remove_prefix(scheme + 3);
  const std::size_t at = word.rfind('@');
  if (at == std::string_view::npos) return;
  const std::string both(word.substr(0, at));
  const std::string decoded = percent_decode(both).value_or(both);
  for (const std::string& text : {both, decoded}) {
    out.insert({text, wire::base64(text)});
    if (const std::size_t colon = text.find(':'); colon != std::string::npos)
      out.insert(text.substr(colon + 1));
  }
}

}  // namespace

std::vector<std::string> credentials_in(const EnvList& variables) {
  std::set<std::string> found;
  for (const auto& [name, value] : variables)
    for (const std::string_view word : split(value, ' ')) add_credentials(word, found);
  std::erase_if(found, [](const std::string& text) { return text.size() < kShortest; });
  return {found.begin(), found.end()};
}

Redactor::Redactor(std::vector<std::string> hidden) : hidden_(std::move(hidden)) {
  std::ranges::sort(hidden_, std::ranges::greater(), &std::string::size);
}

std::string Redactor::feed(std::string_view text) {
  waiting_ += text;
  std::string out;
  std::size_t shown = 0;
  for (;;) {
    std::size_t first = std::string::npos;
    std::size_t size = 0;
    for (const std::string& each : hidden_) {
      const std::size_t at = waiting_.find(each, shown);
      if (at >= first) continue;
      first = at;
      size = each.size();
    }
    if (first == std::string::npos) break;
    out.append(waiting_, shown, first - shown).append(kShown);
    shown = first + size;
  }
  std::size_t keep = 0;
  for (const std::string& each : hidden_) {
    std::size_t part = std::min(each.size() - 1, waiting_.size() - shown);
    while (part > keep && !waiting_.ends_with(std::string_view(each).substr(0, part))) --part;
    keep = std::max(keep, part);
  }
  out.append(waiting_, shown, waiting_.size() - shown - keep);
  waiting_.erase(0, waiting_.size() - keep);
  return out;
}

}  // namespace firebreak::image
