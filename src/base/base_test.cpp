#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/result.h"
#include "base/sys.h"
#include "base/text.h"

namespace firebreak {
namespace {

TEST(Text, PercentCodecKeepsEveryByte) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const std::string encoded = percent_encode(all);
  for (char c : encoded) EXPECT_TRUE(c > 32 && c < 127);
  EXPECT_EQ(percent_decode(encoded), all);
}

TEST(Text, PercentDecodeRefusesBrokenEscapes) {
  for (const char* bad : {"%", "%4", "a%zz", "%g0", "abc%0"})
    EXPECT_FALSE(percent_decode(bad)) << bad;
}

TEST(Text, HexRoundTripAndRefusals) {
  const auto raw = from_hex("00ff10Ab");
  ASSERT_TRUE(raw);
  EXPECT_EQ(to_hex(*raw), "00ff10ab");
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("zz"));
}

TEST(Text, ParseU64IsStrict) {
  EXPECT_EQ(parse_u64("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616"})
    EXPECT_FALSE(parse_u64(bad)) << bad;
}

TEST(Text, BigEndianRoundTrip) {
  std::string out;
  put_u16(out, 0xA1B2);
  put_u32(out, 0xDEADBEEF);
  put_u64(out, 0x0123456789ABCDEF);
  EXPECT_EQ(get_u16(out.data()), 0xA1B2);
  EXPECT_EQ(get_u32(out.data() + 2), 0xDEADBEEF);
  EXPECT_EQ(get_u64(out.data() + 6), 0x0123456789ABCDEFULL);
}

TEST(Error, CarriesWhatProgramsCompareBesideWhatPeopleRead) {
  const Error full = fail(Code::exhausted, Reason{"launch_rate"}, "too many launches",
                          Repair{"wait, or ask an administrator for a higher limit"})
                         .error();
  EXPECT_EQ(full.reason, "launch_rate");
  EXPECT_EQ(full.repair, "wait, or ask an administrator for a higher limit");
  EXPECT_EQ(full.message, "too many launches; wait, or ask an administrator for a higher limit");

  // What was being attempted is said in front; the rest stays.
  const Error passed_on = fail(full, "forking").error();
  EXPECT_EQ(passed_on.message, "forking: " + full.message);
  EXPECT_EQ(passed_on.reason, full.reason);
  EXPECT_EQ(passed_on.repair, full.repair);

  EXPECT_EQ(fail(Code::invalid, "no name", Repair{"give a name"}).error().message,
            "no name; give a name");
  EXPECT_EQ(fail(Code::invalid, Reason{"no_name"}, "no name").error().message, "no name");
}

TEST(Json, NamesThePathOfTheFirstMistake) {
  const auto object = parse_json_object(R"({"a":1,"b":"x","env":{"k":2}})");
  ASSERT_TRUE(object);
  JsonReader reader(*object, "run.");
  EXPECT_EQ(reader.u64("a"), 1U);
  EXPECT_EQ(reader.u64("b"), 0U);
  reader.string_map_or_empty("env");
  ASSERT_FALSE(reader.result());
  EXPECT_EQ(reader.result().error().message, "member 'run.b' must be a non-negative integer");
}

TEST(Json, DepthIsBounded) {
  EXPECT_FALSE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_FALSE(parse_json("{\"a\":1} x"));
  EXPECT_FALSE(parse_json(""));
}

TEST(Sys, ReplaceFileIsWholeAndLeavesNoTemporary) {
  const std::string dir =
      std::filesystem::temp_directory_path() / ("fb-base-" + sys::random_hex(4));
  ASSERT_TRUE(sys::mkdirs(dir + "/a/b", 0700));
  ASSERT_TRUE(sys::replace_file(dir + "/a/b/f", "one"));
  ASSERT_TRUE(sys::replace_file(dir + "/a/b/f", "two"));
  EXPECT_EQ(*sys::read_file(dir + "/a/b/f"), "two");
  EXPECT_THAT(*sys::list_dir(dir + "/a/b"), testing::ElementsAre("f"));
  EXPECT_EQ(sys::read_file(dir + "/a/b/f", 2).error().code, Code::exhausted);
  EXPECT_TRUE(sys::remove_tree(dir));
  EXPECT_TRUE(sys::remove_tree(dir));
  EXPECT_EQ(sys::read_file(dir + "/a/b/f").error().code, Code::not_found);
}

}  // namespace
}  // namespace firebreak
