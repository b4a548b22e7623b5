#include "core/preload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::core {
namespace {

using testing::HasSubstr;

Result<Preload> parse(std::string_view text) {
  Preload preload;
  FB_TRY(add_preload(preload, text));
  return preload;
}

TEST(Preload, IsReadFromTextAndFromJson) {
  Preload preload;
  ASSERT_TRUE(add_preload(preload, "python=pandas,matplotlib.pyplot"));
  ASSERT_TRUE(add_preload(preload, "node=@scope/name/sub.js,lodash"));
  ASSERT_TRUE(add_preload(preload, "python=pandas,_private"));
  const std::string text =
      R"({"node":["@scope/name/sub.js","lodash"],"python":["pandas","matplotlib.pyplot","_private"]})";
  EXPECT_EQ(json::serialize(to_json(preload)), text);
  EXPECT_EQ(preload_from_json(json::parse(text).as_object()).value(), preload);
  EXPECT_EQ(preload_from_json({}).value(), Preload());
  EXPECT_EQ(preload_from_json({{"python", json::array()}}).value(), Preload());
}

TEST(Preload, TakesNamesOfModulesOnly) {
  for (const char* text :
       {"python=",     "python",      "=x",          "python=a,",  "python=a b",  "python=1a",
        "python=a.",   "python=.a",   "python=a..b", "python=a-b", "python=os;x", "python=\xc3\xa9",
        "python=a\nb", "bash=x",      "cobol=x",     "node=",      "node=.",      "node=..",
        "node=./x",    "node=/etc/x", "node=a/../b", "node=a//b",  "node=@scope", "node=@/x",
        "node=a/",     "node=a'b",    "node=a b"}) {
    const auto preload = parse(text);
    EXPECT_FALSE(preload) << text;
    if (!preload) EXPECT_EQ(preload.error().code, Code::invalid) << text;
  }
  for (const char* text : {"node=lodash", "node=lodash/fp", "node=@a/b", "node=a-b_c.d~e",
                           "python=_x", "python=A1.b2._c"})
    EXPECT_TRUE(parse(text)) << text;
  for (const char* text : {R"({"python":"pandas"})", R"({"python":[1]})", R"({"python":[["a"]]})",
                           R"({"python":["a b"]})", R"({"ruby":["a"]})"})
    EXPECT_FALSE(preload_from_json(json::parse(text).as_object())) << text;
}

TEST(Preload, IsBounded) {
  EXPECT_TRUE(parse("python=" + std::string(kMaxPreloadName, 'a')));
  const auto longer = parse("python=" + std::string(kMaxPreloadName + 1, 'a'));
  ASSERT_FALSE(longer);
  EXPECT_LT(longer.error().message.size(), 400U);
  Preload preload;
  for (std::size_t i = 0; i < kMaxPreload; ++i)
    ASSERT_TRUE(add_preload(preload, "python", "m" + std::to_string(i)));
  EXPECT_TRUE(add_preload(preload, "python", "m0")) << "it is there already";
  EXPECT_TRUE(add_preload(preload, "node", "m0"));
  const auto more = add_preload(preload, "python", "one");
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, HasSubstr("more than 64 modules of python"));
}

}  // namespace
}  // namespace firebreak::core
