#include "wire/dockerfile_expand.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/shell_pattern.h"

namespace firebreak::wire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::optional<std::string> lookup(std::string_view name) {
  static const std::map<std::string, std::string, std::less<>> kVariables{
      {"A", "alpha"},
      {"EMPTY", ""},
      {"P", "/usr/local/lib/x.tar.gz"},
      {"S", "a b  c"},
      {"U", "\xc3\xa4\xc3\xb6\xc3\xbc"},
      {"N", "A"}};
  const auto found = kVariables.find(name);
  if (found == kVariables.end()) return std::nullopt;
  return found->second;
}

std::string expanded(std::string_view text, const ExpandRules& rules = {}) {
  const auto result = expand(text, lookup, rules);
  return result ? *result : "error: " + result.error().message;
}

struct Case {
  std::string text;
  std::string value;
};

void check(const std::vector<Case>& cases) {
  for (const Case& each : cases) EXPECT_EQ(expanded(each.text), each.value) << each.text;
}

TEST(Expand, Variables) {
  check({{"", ""},
         {"x", "x"},
         {"$A", "alpha"},
         {"${A}", "alpha"},
         {"x$A.y", "xalpha.y"},
         {"$Ax", ""},
         {"${A}x", "alphax"},
         {"$A$A", "alphaalpha"},
         {"$NOT", ""},
         {"$", "$"},
         {"a$", "a$"},
         {"$.", "$."},
         {"$ A", "$ A"},
         {"$1A", "A"},
         {"$$A", "A"},
         {"$12x", "x"},
         {"$@x", "x"},
         {"${1}", ""},
         {"${#}", ""},
         {"%A%", "%A%"},
         {"$(date)", "$(date)"},
         {"`date`", "`date`"}});
}

TEST(Expand, QuotesAndEscapes) {
  check({{"\"$A\"", "alpha"},
         {"'$A'", "$A"},
         {"\\$A", "$A"},
         {"\\\\$A", "\\alpha"},
         {"\"\\$A\"", "$A"},
         {"\"\\x\"", "\\x"},
         {"\"\\\\\"", "\\"},
         {"\"\\\"\"", "\""},
         {"'\\'", "\\"},
         {"a\\ b", "a b"},
         {"a\\", "a"},
         {"\"a'b\"", "a'b"},
         {"'a\"b'", "a\"b"},
         {"a'b'\"c\"d", "abcd"},
         {"\"\"", ""},
         {"a  b", "a  b"},
         {"\\\"", "\""}});
  EXPECT_THAT(expanded("'a"), HasSubstr("single quote"));
  EXPECT_THAT(expanded("\"a"), HasSubstr("double quote"));
  EXPECT_THAT(expanded("\"a\\\""), HasSubstr("double quote"));
  EXPECT_EQ(expanded("C:\\x`$A`\\", {.escape = '`'}), "C:\\x$A\\");
  EXPECT_EQ(expanded("it's $A \"$A\" \\$A", {.quotes = false}), "it's alpha \"alpha\" $A");
}

TEST(Expand, Defaults) {
  check({{"${A:-d}", "alpha"},
         {"${EMPTY:-d}", "d"},
         {"${NOT:-d}", "d"},
         {"${A-d}", "alpha"},
         {"${EMPTY-d}", ""},
         {"${NOT-d}", "d"},
         {"${A:+d}", "d"},
         {"${EMPTY:+d}", ""},
         {"${NOT:+d}", ""},
         {"${A+d}", "d"},
         {"${EMPTY+d}", "d"},
         {"${NOT+d}", ""},
         {"${NOT:-$A}", "alpha"},
         {"${NOT:-${NOT2:-${A}}}", "alpha"},
         {"${NOT:-a b}", "a b"},
         {"${NOT:-'$A'}", "$A"},
         {"${NOT:-\\}}", "}"},
         {"${NOT:-}", ""},
         {"${A:?}", "alpha"},
         {"${EMPTY?}", ""},
         {"x${NOT:-y}z", "xyz"},
         {"\"${NOT:-a b}\"", "a b"},
         {"${NOT:?is needed}", "error: NOT: is needed"},
         {"${NOT?}", "error: NOT: must be set"},
         {"${EMPTY:?}", "error: EMPTY: may not be empty"}});
}

TEST(Expand, Patterns) {
  check({{"${P#/usr}", "/local/lib/x.tar.gz"},
         {"${P#*/}", "usr/local/lib/x.tar.gz"},
         {"${P##*/}", "x.tar.gz"},
         {"${P%.*}", "/usr/local/lib/x.tar"},
         {"${P%%.*}", "/usr/local/lib/x"},
         {"${P%/*}", "/usr/local/lib"},
         {"${P%%/*}", ""},
         {"${P#*}", "/usr/local/lib/x.tar.gz"},
         {"${P##*}", ""},
         {"${P%*}", "/usr/local/lib/x.tar.gz"},
         {"${P%%*}", ""},
         {"${P#nothing}", "/usr/local/lib/x.tar.gz"},
         {"${P#/?s?/}", "local/lib/x.tar.gz"},
         {"${P##/*l*l}", "ib/x.tar.gz"},
         {"${P#/*l*l}", "/lib/x.tar.gz"},
         {"${A%?}", "alph"},
         {"${A#a*p}", "ha"},
         {"${A%${N}}", "alpha"},
         {"${A%a}", "alph"},
         {"${U#?}", "\xc3\xb6\xc3\xbc"},
         {"${U%\xc3\xbc}", "\xc3\xa4\xc3\xb6"},
         {"${NOT#x}", ""},
         {"${A/a/b}", "blpha"},
         {"${A//a/b}", "blphb"},
         {"${A/p/}", "alha"},
         {"${A/l*h/-}", "a-a"},
         {"${P//\\//:}", ":usr:local:lib:x.tar.gz"},
         {"${P/l*l/_}", "/usr/_ib/x.tar.gz"},
         {"${A//?/x}", "xxxxx"},
         {"${A//\\?/x}", "alpha"},
         {"${A/*/x}", "x"},
         {"${A///x}", "alpha"},
         {"${A/a/$P}", "/usr/local/lib/x.tar.gzlpha"},
         {"${A/a/\\}}", "}lpha"}});
  EXPECT_THAT(expanded("${A/a}"), HasSubstr("'/' is missing"));
  EXPECT_THAT(expanded("${A#\\x}"), HasSubstr("escaped"));
  EXPECT_THAT(expanded("${A:#x}"), HasSubstr("unknown modifier"));
}

TEST(Expand, Words) {
  const auto words = [](std::string_view text) {
    return expand_words(text, lookup).value_or(std::vector<std::string>{"error"});
  };
  EXPECT_THAT(words("a b"), ElementsAre("a", "b"));
  EXPECT_THAT(words("$S"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(words("\"$S\""), ElementsAre("a b  c"));
  EXPECT_THAT(words("x$S.y"), ElementsAre("xa", "b", "c.y"));
  EXPECT_THAT(words("a\\ b"), ElementsAre("a b"));
  EXPECT_THAT(words("$NOT"), ElementsAre());
  EXPECT_THAT(words("a'"), ElementsAre("error"));
}

TEST(Expand, IsBounded) {
  const auto big = [](std::string_view) { return std::optional(std::string(1000, 'x')); };
  EXPECT_TRUE(expand("$A$A", big, {.max_bytes = 2000}));
  EXPECT_EQ(expand("$A$A$A", big, {.max_bytes = 2000}).error().code, Code::exhausted);
  EXPECT_EQ(expand("\"$A$A$A\"", big, {.max_bytes = 2000}).error().code, Code::exhausted);
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "${NOT:-";
  deep += std::string(100, '}');
  EXPECT_EQ(expand(deep, lookup).error().code, Code::exhausted);
  const auto huge = [](std::string_view) { return std::optional(std::string(5000, 'x')); };
  EXPECT_EQ(expand("${A#x}", huge).error().code, Code::exhausted);
  EXPECT_EQ(expand("${A#" + std::string(300, 'x') + "}", lookup).error().code, Code::exhausted);
  const auto many = [](std::string_view name) {
    return std::optional(std::string(name == "A" ? 4000 : 100000, 'x'));
  };
  EXPECT_EQ(expand("${A//x/$B}", many).error().code, Code::exhausted);
}

TEST(Expand, ChecksWithoutValues) {
  for (const char* good : {"$A", "${NOT:?x}", "${NOT?}", "'x'", "${A#*}"})
    EXPECT_TRUE(check_expansion(good)) << good;
  for (const char* bad : {"${", "${}", "'", "\"", "${A:=b}", "${A", "${A:", "${A/b}"})
    EXPECT_FALSE(check_expansion(bad)) << bad;
}

TEST(ShellPattern, KeepsBytesThatAreNotUtf8) {
  const auto pattern = ShellPattern::parse("?", '\\');
  ASSERT_TRUE(pattern);
  using Match = ShellPattern::Match;
  EXPECT_EQ(pattern->without_prefix("\xff\xfe\xc3", Match::shortest), "\xfe\xc3");
  EXPECT_EQ(pattern->without_suffix("\xed\xa0\x80", Match::shortest), "\xed\xa0");
  EXPECT_EQ(pattern->without_prefix("\xf0\x9f\x98\x80!", Match::shortest), "!");
  EXPECT_EQ(pattern->without_prefix("\xc0\x80!", Match::shortest), "\x80!");
}

}  // namespace
}  // namespace firebreak::wire
