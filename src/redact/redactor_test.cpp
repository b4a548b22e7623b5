#include "redact/redactor.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::redact {
namespace {

using testing::HasSubstr;
using testing::Not;

std::shared_ptr<const Matcher> matcher_of(const std::vector<Secret>& secrets,
                                          bool private_keys = false) {
  auto set = patterns_of(secrets, private_keys);
  EXPECT_TRUE(set);
  return Matcher::compile(*std::move(set));
}

std::string through(const std::shared_ptr<const Matcher>& matcher, std::string_view text,
                    std::size_t piece, Style style = Style::named, std::size_t context = 0) {
  Redactor redactor(matcher, style);
  for (; context > 0; context -= std::min(context, piece)) {
    redactor.context(std::string(text.substr(0, std::min(context, piece))));
    text.remove_prefix(std::min(context, piece));
  }
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece)
    out += redactor.pass(std::string(text.substr(at, piece)));
  return out + redactor.end();
}

const std::string kSecret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

TEST(Redactor, EverySplitOfASecretOf64Bytes) {
  ASSERT_EQ(kSecret.size(), 64U);
  const auto matcher = matcher_of({{"db", kSecret}});
  const std::string text = "before " + kSecret + " behind";
  for (std::size_t split = 0; split <= text.size(); ++split) {
    Redactor redactor(matcher, Style::named);
    std::string out = redactor.pass(text.substr(0, split));
    out += redactor.pass(text.substr(split));
    EXPECT_EQ(out + redactor.end(), "before [redacted:db] behind") << split;
  }
  for (const std::size_t piece : {1UL, 2UL, 3UL, 5UL, 63UL, 64UL, 65UL})
    EXPECT_EQ(through(matcher, text, piece), "before [redacted:db] behind") << piece;
}

TEST(Redactor, WhatCannotBeASecretLeavesAtOnce) {
  Redactor redactor(matcher_of({{"db", "hunter2!"}}), Style::named);
  EXPECT_EQ(redactor.pass("password: h"), "password: ");
  EXPECT_EQ(redactor.pass("un"), "");
  EXPECT_EQ(redactor.pass("gry"), "hungry");
  EXPECT_EQ(redactor.pass("hunter2"), "");
  EXPECT_EQ(redactor.pass("! ok"), "[redacted:db] ok");
  EXPECT_EQ(redactor.pass("hunt"), "");
  EXPECT_EQ(redactor.end(), "hunt");
  EXPECT_EQ(redactor.count(), 1U);
}

TEST(Redactor, OverlappingSecretsAreTakenOutAsOne) {
  const auto matcher =
      matcher_of({{"a", "abcdefgh"}, {"b", "efghijkl"}, {"c", "abcdefghijklmnop"}});
  for (const std::size_t piece : {1UL, 4UL, 99UL}) {
    EXPECT_EQ(through(matcher, "<abcdefghijkl>", piece), "<[redacted:a]>");
    EXPECT_EQ(through(matcher, "<abcdefghijklmnop>", piece), "<[redacted:a]>");
    EXPECT_EQ(through(matcher, "<abcdefghabcdefgh>", piece), "<[redacted:a][redacted:a]>");
  }
}

TEST(Redactor, AnEndlessChainOfOverlapsIsNotKept) {
  const auto matcher = matcher_of({{"a", "aaaaaaaa"}});
  Redactor redactor(matcher, Style::named);
  std::string out;
  for (int i = 0; i < 100; ++i) out += redactor.pass(std::string(10'000, 'a'));
  EXPECT_EQ(out + redactor.end(), "[redacted:a]");
  EXPECT_EQ(through(matcher, std::string(100'000, 'a'), 777, Style::equal),
            std::string(100'000, '*'));
}

TEST(Redactor, FilesKeepTheirSize) {
  const auto matcher = matcher_of({{"db", kSecret}});
  const std::string text = "x=" + kSecret + "\ny=" + kSecret.substr(0, 63) + "\n";
  for (const std::size_t piece : {1UL, 10UL, 999UL}) {
    EXPECT_EQ(through(matcher, text, piece, Style::equal),
              "x=" + std::string(64, '*') + "\ny=" + kSecret.substr(0, 63) + "\n");
  }
}

// A range of a file, read with context on both sides, is the range of the whole masked file.
TEST(Redactor, EveryRangeOverASecret) {
  const std::string secret = "s3cr3t-v4lue";
  const auto matcher = matcher_of({{"db", secret}});
  const std::string text = "aa" + secret + "bb" + secret + "c";
  const std::string masked = through(matcher, text, 99, Style::equal);
  const std::size_t reach = matcher->longest();
  for (std::size_t from = 0; from <= text.size(); ++from) {
    for (std::size_t to = from; to <= text.size(); ++to) {
      const std::size_t context = std::min(from, reach);
      const std::string read = text.substr(from - context, to - from + context + reach);
      const std::string out = through(matcher, read, 5, Style::equal, context).substr(0, to - from);
      ASSERT_EQ(out, masked.substr(from, to - from)) << from << " to " << to;
    }
  }
}

// Output that is read again from its middle shows nothing of a secret that began before.
TEST(Redactor, AStreamFromItsMiddleNamesWhatItCuts) {
  const auto matcher = matcher_of({{"db", kSecret}});
  const std::string text = "before " + kSecret + " behind";
  for (std::size_t begin = 0; begin <= text.size(); ++begin) {
    const std::string out = through(matcher, text, 9, Style::named, begin);
    std::string expected = "before [redacted:db] behind";
    if (begin < 7) {
      expected = expected.substr(begin);
    } else if (begin < 7 + 64) {
      expected = "[redacted:db] behind";
    } else {
      expected = text.substr(begin);
    }
    EXPECT_EQ(out, expected) << begin;
  }
}

TEST(Redactor, PrivateKeysGoWithAllTheirLines) {
  const auto matcher = matcher_of({{"db", "hunter2!"}}, true);
  for (const std::string kind : {"", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "}) {
    const std::string key = "-----BEGIN " + kind +
                            "PRIVATE KEY-----\nMIIEvQ+hunter2!+IBADAN\nBgkq\n-----END " + kind +
                            "PRIVATE KEY-----";
    const std::string text = "key:\n" + key + "\nand hunter2!\n" + key;
    for (const std::size_t piece : {1UL, 7UL, 40UL, 999UL}) {
      EXPECT_EQ(through(matcher, text, piece),
                "key:\n[redacted:private-key]\nand [redacted:db]\n[redacted:private-key]")
          << kind << piece;
      EXPECT_EQ(through(matcher, text, piece, Style::equal).size(), text.size());
    }
  }
  EXPECT_EQ(through(matcher, "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", 3),
            "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----");
}

TEST(Redactor, AKeyThatNeverEndsHidesOnlySoMuch) {
  const auto matcher = matcher_of({}, true);
  const std::string text =
      "-----BEGIN PRIVATE KEY-----" + std::string(kLongestBlock, 'x') + "the rest";
  for (const std::size_t piece : {1000UL, text.size()}) {
    const std::string out = through(matcher, text, piece);
    EXPECT_THAT(out, testing::StartsWith("[redacted:private-key]xx"));
    EXPECT_THAT(out, testing::EndsWith("the rest"));
  }
}

// By comparison with a masking that looks at the whole text.
TEST(Redactor, AnySecretsAnyTextAnySplit) {
  std::mt19937 random(7);
  const auto letters = [&random](std::size_t count) {
    std::string text;
    while (text.size() < count) text.push_back(static_cast<char>('a' + random() % 2));
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    PatternSet set;
    set.names = {"x"};
    std::vector<std::string> words;
    for (unsigned i = 0, n = 1 + random() % 5; i < n; ++i) {
      words.push_back(letters(4 + random() % 6));
      set.patterns.push_back({words.back(), 0});
    }
    const auto matcher = Matcher::compile(std::move(set));
    const std::string text = letters(300);
    std::string expected = text;
    for (const std::string& word : words)
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        expected.replace(at, word.size(), word.size(), '*');
    for (const std::size_t piece : {1UL, 2UL, 13UL, 300UL})
      ASSERT_EQ(through(matcher, text, piece, Style::equal), expected) << round << " " << piece;
  }
}

TEST(Redactor, EncodedSecretsAreFound) {
  const auto matcher = matcher_of({{"db", "correct horse battery"}});
  for (const std::string text :
       {"Y29ycmVjdCBob3JzZSBiYXR0ZXJ5", "636f727265637420686f727365206261747465727",
        "correct%20horse%20battery"}) {
    EXPECT_THAT(through(matcher, "<" + text + "9>", 4), HasSubstr("[redacted:db]")) << text;
  }
  // What nobody can see: a transform that is in no list.
  EXPECT_THAT(through(matcher, "yrettab esroh tcerroc", 4), Not(HasSubstr("redacted")));
}

}  // namespace
}  // namespace firebreak::redact
