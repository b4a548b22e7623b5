#include "wire/dockerignore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

using testing::HasSubstr;
using Stars = PathPattern::Stars;

TEST(CleanPath, IsLexical) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "."},        {".", "."},      {"./a", "a"},          {"a/", "a"},      {"a//b", "a/b"},
      {"a/./b", "a/b"}, {"a/../b", "b"}, {"..", ".."},          {"../a", "../a"}, {"a/../..", ".."},
      {"/", "/"},       {"/..", "/"},    {"/a/../../b/", "/b"}, {"//a", "/a"},    {"a/..", "."}};
  for (const auto& [path, clean] : cases) EXPECT_EQ(clean_path(path), clean) << path;
}

bool matches(std::string_view pattern, std::string_view path, Stars stars = Stars::across_names) {
  const auto parsed = PathPattern::parse(pattern, stars);
  EXPECT_TRUE(parsed) << pattern;
  return parsed && parsed->matches(path);
}

TEST(PathPattern, Matches) {
  struct Case {
    const char* pattern;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const std::vector<Case> cases{
      {"a", {"a"}, {"b", "aa", "a/b", ""}},
      {"a/b", {"a/b"}, {"a", "b", "a/b/c"}},
      {"*", {"a", "abc", ".a", ""}, {"a/b"}},
      {"*.txt", {".txt", "a.txt"}, {"a.txt.x", "a/b.txt", "atxt"}},
      {"a*", {"a", "abc"}, {"ba", "ab/c"}},
      {"a*c*e", {"ace", "abcde", "aXcYcZe"}, {"ac", "aec"}},
      {"*/b", {"a/b", "/b"}, {"b", "a/c/b"}},
      {"?", {"a", "\xc3\xa4"}, {"", "ab", "/"}},
      {"a?c", {"abc"}, {"ac", "a/c"}},
      {"[a-c]x", {"ax", "cx"}, {"dx", "x"}},
      {"[^a-c]x", {"dx"}, {"ax", "/x"}},
      {"[ab]", {"a", "b"}, {"c"}},
      {"[\\]a]", {"]", "a"}, {"\\"}},
      {"[\xc3\xa4-\xc3\xbc]", {"\xc3\xb6"}, {"a"}},
      {"a\\*b", {"a*b"}, {"axb"}},
      {"\\a", {"a"}, {"\\a"}},
      {"a.b", {"a.b"}, {"axb"}},
      {"(a|b)+", {"(a|b)+"}, {"a"}},
      {"**", {"a", "a/b/c"}, {}},
      {"**/a", {"a", "b/a", "b/c/a"}, {"ba", "a/b"}},
      {"a/**", {"a/", "a/b", "a/b/c"}, {"a", "b/a"}},
      {"a/**/b", {"a/b", "a/x/b", "a/x/y/b"}, {"ab", "a/xb", "b"}},
      {"**/*.go", {"a.go", "x/a.go", "x/y/a.go"}, {"a.g"}},
      {"**/a/**", {"a/b", "x/a/b/c"}, {"a", "xa/b"}},
      {"a**", {"a", "ab", "a/b"}, {"ba"}},
      {"a**/b", {"ab", "a/b", "ax/y/b"}, {"axb"}},
      {"**.pyc", {"a.pyc", "x/a.pyc"}, {"a.pyo"}},
      {"**.p*", {".pyc", "x/.pyc"}, {"a.pyc"}},
      {"***/a", {"x/a", "y/x/a"}, {"a"}},
  };
  for (const Case& each : cases) {
    for (const auto& path : each.yes)
      EXPECT_TRUE(matches(each.pattern, path)) << each.pattern << " " << path;
    for (const auto& path : each.no)
      EXPECT_FALSE(matches(each.pattern, path)) << each.pattern << " " << path;
  }
  EXPECT_FALSE(matches("**/a", "b/c/a", Stars::within_name));
  EXPECT_TRUE(matches("**/a", "b/a", Stars::within_name));
}

TEST(PathPattern, Errors) {
  for (const char* bad :
       {"[", "[]", "[a", "[a-", "[a-]", "[-a]", "[]a]", "[^", "[^]", "a\\", "[\\"})
    EXPECT_FALSE(PathPattern::parse(bad, Stars::across_names)) << bad;
  EXPECT_EQ(PathPattern::parse(std::string(600, 'a'), Stars::across_names).error().code,
            Code::exhausted);
}

TEST(PathPattern, TakesNoTimeForHostilePatterns) {
  std::string pattern;
  for (int i = 0; i < 120; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(4000, 'a')));
  std::string deep;
  for (int i = 0; i < 120; ++i) deep += "**/";
  EXPECT_FALSE(matches(deep + "b", std::string(2000, '/')));
}

std::string kept(std::string_view rules, const std::vector<std::string>& paths) {
  const auto parsed = IgnoreRules::parse(rules);
  if (!parsed) return "error: " + parsed.error().message;
  std::string out;
  for (const std::string& path : paths)
    if (!parsed->excludes(path)) out += (out.empty() ? "" : " ") + path;
  return out;
}

TEST(Dockerignore, LastMatchDecides) {
  const std::vector<std::string> paths{"a", "a/b", "a/b/c", "README.md", "docs/x.md", "a.log"};
  EXPECT_EQ(kept("", paths), "a a/b a/b/c README.md docs/x.md a.log");
  EXPECT_EQ(kept("a", paths), "README.md docs/x.md a.log");
  EXPECT_EQ(kept("/a/", paths), "README.md docs/x.md a.log");
  EXPECT_EQ(kept("./a/b/", paths), "a README.md docs/x.md a.log");
  EXPECT_EQ(kept("a/*", paths), "a README.md docs/x.md a.log");
  EXPECT_EQ(kept("*.md", paths), "a a/b a/b/c docs/x.md a.log");
  EXPECT_EQ(kept("**/*.md", paths), "a a/b a/b/c a.log");
  EXPECT_EQ(kept("*.md\n!README.md", paths), "a a/b a/b/c README.md docs/x.md a.log");
  EXPECT_EQ(kept("!README.md\n*.md", paths), "a a/b a/b/c docs/x.md a.log");
  EXPECT_EQ(kept("a\n!a/b/c", paths), "a/b/c README.md docs/x.md a.log");
  EXPECT_EQ(kept("*\n!docs", paths), "docs/x.md");
  EXPECT_EQ(kept("**\n!a/b\na/b/c", paths), "a/b");
  EXPECT_EQ(kept("a\n!a\na", paths), "README.md docs/x.md a.log");
}

TEST(Dockerignore, LinesAndErrors) {
  const std::vector<std::string> paths{"a", "b", "#c", "d e"};
  EXPECT_EQ(kept("# comment\n\n  a  \r\n\t\n\\#c", paths), "b d e");
  EXPECT_EQ(kept("\xef\xbb\xbf"
                 "a",
                 paths),
            "b #c d e");
  EXPECT_EQ(kept(" #c", paths), "a b d e");
  EXPECT_EQ(kept("d e", paths), "a b #c");
  EXPECT_EQ(kept("! a\na", paths), "b #c d e");
  EXPECT_EQ(kept("x/../a", paths), "b #c d e");
  EXPECT_EQ(kept("../a\n.\n/", paths), "a b #c d e");
  EXPECT_THAT(kept("a\n!", paths), HasSubstr(".dockerignore:2: a '!' without"));
  EXPECT_THAT(kept("[", paths), HasSubstr(".dockerignore:1: a '[' is not closed"));
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "x\n";
  EXPECT_EQ(IgnoreRules::parse(many).error().code, Code::exhausted);
  EXPECT_EQ(IgnoreRules::parse(std::string(300000, '#')).error().code, Code::exhausted);
}

TEST(Dockerignore, Excludes) {
  const auto rules = IgnoreRules::of({"*.md", "!a.md"});
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->has_exceptions());
  EXPECT_TRUE(rules->excludes("b.md"));
  EXPECT_FALSE(rules->excludes("a.md"));
  EXPECT_FALSE(IgnoreRules::of({"["}));
  EXPECT_TRUE(IgnoreRules().empty());
}

}  // namespace
}  // namespace firebreak::wire
