#include "base/words.h"

#include <algorithm>

namespace firebreak {
namespace {

constexpr std::size_t kLongestWord = 64;

// Letters to change, add, leave out or swap with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1,
                                             std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.size() > kLongestWord) return {};
  std::string_view best;
  // A short word is another word after two changes.
  std::size_t least = word.size() <= 3 ? 2 : 3;
  for (const std::string_view one : known) {
    if (one.size() > kLongestWord) continue;
    const std::size_t away = distance(word, one);
    if (away >= least || away >= one.size()) continue;
    least = away;
    best = one;
  }
  // "susp" or "--no-auto".
  for (const std::string_view one : known)
    if (best.empty() && word.size() >= 3 && one.starts_with(word)) best = one;
  return best;
}

std::string join_words(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

std::optional<NameValue> split_pair(std::string_view text) {
  const auto at = text.find('=');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  return NameValue{std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

Result<NameValue> parse_pair(std::string_view text, std::string_view what) {
  auto pair = split_pair(text);
  if (!pair) return fail(Code::invalid, std::string(what) + " must be NAME=VALUE");
  return *std::move(pair);
}

}  // namespace firebreak
