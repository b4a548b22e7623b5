#include "guest/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::guest {
namespace {

using testing::ElementsAre;

Result<Request> parse(std::string_view method, std::string_view target) {
  return parse_request({{":method", std::string(method)}, {":path", std::string(target)}});
}

TEST(Request, PathAndQueryAreDecodedApart) {
  const auto request =
      parse("GET", "/execs/a%2Fb/output?offset=12&path=%2Fetc%2F%C3%A9%26x&flag=1&bare");
  ASSERT_TRUE(request);
  EXPECT_THAT(request->segments, ElementsAre("execs", "a/b", "output"));
  EXPECT_EQ(*request->number("offset", 0), 12U);
  EXPECT_EQ(request->param("path"), "/etc/\xC3\xA9&x");
  EXPECT_TRUE(request->flag("flag"));
  EXPECT_TRUE(request->has("bare"));
  EXPECT_FALSE(request->flag("bare"));
  EXPECT_EQ(*request->number("absent", 7), 7U);
}

TEST(Request, RefusesWhatIsBroken) {
  for (const char* bad : {"", "relative", "/a%", "/a?x=%zz", "/a?p=%00", "/%00"})
    EXPECT_FALSE(parse("GET", bad)) << bad;
  EXPECT_FALSE(parse("", "/a"));
  EXPECT_FALSE(parse("GET", "/a?n=1x")->number("n", 0));
  EXPECT_FALSE(parse("GET", "/a?n=")->number("n", 0));
}

TEST(Request, EveryErrorHasAStatus) {
  EXPECT_EQ(status_of(Code::invalid), 400);
  EXPECT_EQ(status_of(Code::not_found), 404);
  EXPECT_EQ(status_of(Code::conflict), 409);
  EXPECT_EQ(status_of(Code::exhausted), 429);
  EXPECT_EQ(status_of(Code::denied), 403);
  EXPECT_EQ(status_of(Code::timeout), 503);
  EXPECT_EQ(status_of(Code::internal), 500);
}

}  // namespace
}  // namespace firebreak::guest
