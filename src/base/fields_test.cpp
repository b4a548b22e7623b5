#include "base/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/words.h"

namespace firebreak {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Fields& sample() {
  static const Fields fields{
      {"name", "string", "what it is called", true},
      within({"count", "integer", "how many"}, 1, 64),
      within({"size", "integer", "how large"}, 0, 10),
      one_of({"kind", "string", "of it"}, {"big", "small"}),
      {"on", "boolean", "whether"},
      {"words", "array", "texts", false, false, "string"},
      {"env", "object", "names and values", false, false, "string"},
      {"ports", "integer|string", "one"},
      {"idle", "object|null", "inside", false, false, {}, {{"seconds", "integer", "s", true}}},
      {"rules", "array", "a list", false, false, {}, {{"action", "string", "a"}}}};
  return fields;
}

// The message of the error; empty: nothing is wrong.
std::string told(const char* text) {
  auto checked = check_object(*parse_json_object(text), sample());
  return checked ? "" : checked.error().message;
}

TEST(Fields, WhatTheTableHasIsTaken) {
  EXPECT_EQ(told(R"({"name":"a","count":64,"size":0,"kind":"big","on":false,"words":["x"],
      "env":{"A":"1"},"ports":80,"idle":{"seconds":3},"rules":[{"action":"x"},{}]})"),
            "");
  EXPECT_EQ(told(R"({"name":"a","ports":"80-90","idle":null,"count":null})"), "");
}

TEST(Fields, AnUnknownMemberIsNamedWithItsPathAndWhatWasProbablyMeant) {
  EXPECT_THAT(told(R"({"name":"a","cuont":1})"),
              AllOf(HasSubstr("'cuont' is not known here; use name, count"),
                    HasSubstr("did you mean 'count'?")));
  EXPECT_THAT(told(R"({"name":"a","idle":{"secs":1}})"), HasSubstr("'idle.secs'"));
  EXPECT_THAT(told(R"({"name":"a","rules":[{},{"act":1}]})"), HasSubstr("'rules[1].act'"));
  const auto error = check_object(*parse_json_object(R"({"name":"a","x":1})"), sample()).error();
  EXPECT_EQ(error.reason, "unknown_member");
  EXPECT_EQ(error.data.front(), std::pair(std::string("member"), std::string("x")));
}

TEST(Fields, WrongTypesRangesAndChoicesAreTold) {
  EXPECT_EQ(told("{}"), "member 'name' is missing");
  EXPECT_EQ(told(R"({"name":null})"), "member 'name' is missing");
  EXPECT_EQ(told(R"({"name":1})"), "member 'name' must be a string");
  EXPECT_EQ(told(R"({"name":"a","count":0})"), "member 'count' must be 1 to 64");
  EXPECT_EQ(told(R"({"name":"a","count":-1})"), "member 'count' must be a non-negative integer");
  EXPECT_EQ(told(R"({"name":"a","count":1.5})"), "member 'count' must be a non-negative integer");
  EXPECT_EQ(told(R"({"name":"a","size":11})"), "member 'size' must be at most 10");
  EXPECT_EQ(told(R"({"name":"a","kind":"x"})"), "member 'kind' must be big or small");
  EXPECT_EQ(told(R"({"name":"a","on":"yes"})"), "member 'on' must be true or false");
  EXPECT_EQ(told(R"({"name":"a","words":["x",1]})"), "member 'words' must be a list of strings");
  EXPECT_EQ(told(R"({"name":"a","env":{"A":1}})"), "member 'env' must map strings to strings");
  EXPECT_EQ(told(R"({"name":"a","idle":{}})"), "member 'idle.seconds' is missing");
  EXPECT_EQ(told(R"({"name":"a","rules":[1]})"), "member 'rules[0]' must be an object");
}

TEST(Words, TheNearestIsFound) {
  const std::vector<std::string_view> known{"maxIdleSeconds", "autoResume", "run"};
  EXPECT_EQ(nearest_word("maxIdelSeconds", known), "maxIdleSeconds");
  EXPECT_EQ(nearest_word("auto", known), "autoResume");
  EXPECT_EQ(nearest_word("rnu", known), "run");
  EXPECT_EQ(nearest_word("xyz", known), "");
  EXPECT_EQ(nearest_word(std::string(1000, 'a'), known), "");
}

TEST(Words, APairIsSplitAtItsFirstSign) {
  EXPECT_EQ(split_pair("A=b=c")->name, "A");
  EXPECT_EQ(split_pair("A=b=c")->value, "b=c");
  EXPECT_EQ(split_pair("A=")->value, "");
  EXPECT_FALSE(split_pair("=b"));
  EXPECT_FALSE(split_pair("A"));
  EXPECT_EQ(parse_pair("A", "env").error().message, "env must be NAME=VALUE");
}

}  // namespace
}  // namespace firebreak
