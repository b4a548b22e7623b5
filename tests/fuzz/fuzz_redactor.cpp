// The redactor: secrets, text and split taken from any bytes. The masked text is what a search for
// every pattern at every place masks, has the size of the text, and does not depend on the split.
#include <cstdlib>

#include "redact/redactor.h"

namespace {
std::string mask(std::string_view text, const std::vector<std::string>& words) {
  std::string out(text);
  for (const std::string& word : words)
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      out.replace(at, word.size(), word.size(), '*');
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::redact;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto take = [&input](std::size_t count) {
    const std::string_view taken = input.substr(0, count);
    input.remove_prefix(taken.size());
    return taken;
  };
  const auto number = [&take]() -> std::size_t {
    const std::string_view byte = take(1);
    return byte.empty() ? 0 : static_cast<unsigned char>(byte[0]);
  };
  PatternSet set;
  set.names = {"x"};
  std::vector<std::string> words;
  for (std::size_t i = 0, n = number() % 6; i < n; ++i) {
    const std::string_view word = take(kShortestPattern + number() % 12);
    if (word.size() < kShortestPattern) break;
    words.emplace_back(word);
    set.patterns.push_back({words.back(), 0});
  }
  const std::size_t piece = 1 + number();
  const auto matcher = Matcher::compile(std::move(set));
  Redactor equal(matcher, Style::equal);
  Redactor named(matcher, Style::named);
  std::string masked;
  std::string text;
  for (std::size_t at = 0; at < input.size(); at += piece) {
    masked += equal.pass(std::string(input.substr(at, piece)));
    text += named.pass(std::string(input.substr(at, piece)));
  }
  masked += equal.end();
  text += named.end();
  if (masked != mask(input, words)) std::abort();
  if (equal.count() != named.count()) std::abort();
  if (equal.count() == 0 && text != input) std::abort();
  return 0;
}
