#include "redact/matcher.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::redact {
namespace {

using Found = std::pair<std::size_t, std::size_t>;  // end, length

std::shared_ptr<const Matcher> matcher_of(const std::vector<std::string>& words) {
  PatternSet set;
  for (const std::string& word : words) {
    set.patterns.push_back({word, static_cast<std::uint32_t>(set.names.size())});
    set.names.push_back(word);
  }
  return Matcher::compile(std::move(set));
}

std::vector<Found> scan(const Matcher& matcher, std::string_view text, std::size_t piece) {
  std::vector<Found> found;
  Matcher::State state = Matcher::kRoot;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    matcher.scan(state, text.substr(at, piece), [&](const Matcher::Match& match) {
      found.emplace_back(at + match.end, match.length);
    });
  }
  return found;
}

// Every place, by looking at every place.
std::vector<Found> look(const std::vector<std::string>& words, std::string_view text) {
  std::vector<Found> found;
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& word : words)
      if (text.substr(0, end).ends_with(word)) longest = std::max(longest, word.size());
    if (longest > 0) found.emplace_back(end, longest);
  }
  return found;
}

TEST(Matcher, FindsTheLongestThatEndsAtEachPlace) {
  const auto matcher = matcher_of({"hers", "sher", "ushe", "hist"});
  EXPECT_THAT(scan(*matcher, "xushers hist", 99),
              testing::ElementsAre(Found{5, 4}, Found{6, 4}, Found{7, 4}, Found{12, 4}));
}

TEST(Matcher, AgreesWithLookingAtEveryPlaceForAnySplit) {
  std::mt19937 random(42);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> words;
    const auto letters = [&random](std::size_t count) {
      std::string text;
      while (text.size() < count) text.push_back(static_cast<char>('a' + random() % 3));
      return text;
    };
    for (unsigned i = 0, n = 1 + random() % 8; i < n; ++i)
      words.push_back(letters(4 + random() % 5));
    const std::string text = letters(200);
    const auto matcher = matcher_of(words);
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, text.size()})
      ASSERT_EQ(scan(*matcher, text, piece), look(words, text)) << round << " " << piece;
  }
}

TEST(Matcher, HoldsWhatMayBecomeAMatch) {
  const auto matcher = matcher_of({"secret"});
  Matcher::State state = Matcher::kRoot;
  matcher->scan(state, "a secre", [](const Matcher::Match&) { FAIL(); });
  EXPECT_EQ(matcher->held(state), 5U);
  matcher->scan(state, "x", [](const Matcher::Match&) { FAIL(); });
  EXPECT_EQ(matcher->held(state), 0U);
}

TEST(Matcher, WithoutPatternsFindsNothing) {
  EXPECT_TRUE(scan(*matcher_of({}), "anything at all", 4).empty());
}

}  // namespace
}  // namespace firebreak::redact
