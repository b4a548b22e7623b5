#include "redact/patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/crypto.h"

namespace firebreak::redact {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

bool has_form_in(const std::string& secret, const std::string& text) {
  for (const std::string& form : forms_of(secret))
    if (text.contains(form)) return true;
  return false;
}

TEST(Patterns, KnowTheEncodingsOfASecret) {
  const std::vector<std::string> forms = forms_of("p@ss/w+rd!");
  EXPECT_THAT(forms, AllOf(Contains("p@ss/w+rd!"), Contains("704073732f772b726421"),
                           Contains("704073732F772B726421"), Contains("p%40ss%2Fw%2Brd%21"),
                           Contains("p%40ss/w%2Brd%21")));
  EXPECT_THAT(forms_of("two\n\"lines\""), Contains("two\\n\\\"lines\\\""));
}

// Whatever stands before and behind it, in any number of bytes.
TEST(Patterns, FindASecretInsideLongerBase64) {
  const std::string secret = "\xfb\xef\xbe-tops3cret\xff\xfe";
  for (std::size_t before = 0; before < 7; ++before) {
    for (std::size_t behind = 0; behind < 7; ++behind) {
      const std::string text = std::string(before, 'x') + secret + std::string(behind, 'y');
      EXPECT_TRUE(has_form_in(secret, wire::base64(text))) << before << " " << behind;
      EXPECT_TRUE(has_form_in(secret, wire::base64url(text))) << before << " " << behind;
    }
  }
}

TEST(Patterns, EachFormIsThereOnce) {
  const std::vector<std::string> forms = forms_of("plainletters");
  EXPECT_EQ(std::set<std::string>(forms.begin(), forms.end()).size(), forms.size());
}

TEST(Patterns, RefuseWhatCannotBeASecret) {
  const auto refused = [](const std::string& name, const std::string& value) {
    auto set = patterns_of({{name, value}}, false);
    return set ? std::string() : set.error().reason;
  };
  EXPECT_EQ(refused("db", "12345"), "secret_size");
  EXPECT_EQ(refused("db", std::string(kLongestSecret + 1, 'x')), "secret_size");
  EXPECT_EQ(refused("", "123456"), "secret_name");
  EXPECT_EQ(refused("a b", "123456"), "secret_name");
  EXPECT_EQ(refused("a\nb", "123456"), "secret_name");
  EXPECT_EQ(refused("db", "123456"), "");
  const auto error = patterns_of({{"db", "hunter"}, {"short", "12345"}}, false).error();
  EXPECT_THAT(error.message, AllOf(HasSubstr("short"), Not(HasSubstr("12345"))));
}

TEST(Patterns, AreBoundedTogether) {
  std::vector<Secret> many;
  for (int i = 0; i < 200; ++i)
    many.push_back({"s" + std::to_string(i), std::string(kLongestSecret, static_cast<char>(i))});
  EXPECT_EQ(patterns_of(many, false).error().reason, "secret_bytes");
}

}  // namespace
}  // namespace firebreak::redact
