#include "image/redactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::image {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

TEST(Redactor, FindsTheCredentialsOfAddresses) {
  EXPECT_THAT(credentials_in({{"HTTP_PROXY", "http://me:p%40ss@proxy:3128"}}),
              IsSupersetOf({"me:p%40ss", "p%40ss", "p@ss", "me:p@ss", "bWU6cEBzcw=="}));
  EXPECT_THAT(credentials_in({{"X", "https://a.test https://token@b.test/x"}}),
              IsSupersetOf({"token"}));
  EXPECT_THAT(credentials_in({{"all_proxy", "me:word@proxy"}}), IsSupersetOf({"me:word", "word"}));
  EXPECT_THAT(credentials_in({{"HTTP_PROXY", "http://proxy:3128"}, {"NO_PROXY", "a,b,::1"}}),
              IsEmpty());
  // One letter cannot be hidden without hiding everything.
  EXPECT_THAT(credentials_in({{"P", "http://u:p@h"}}), ::testing::Not(::testing::Contains("p")));
}

std::string redacted(const std::string& text, std::size_t piece) {
  Redactor redactor({"me:word", "word"});
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += piece) out += redactor.feed(text.substr(i, piece));
  return out + redactor.finish();
}

TEST(Redactor, HidesThemHoweverTheOutputIsCut) {
  const std::string text = "http://me:word@proxy, wo words, me:wo me:me:word.word me:w";
  const std::string clean = "http://***@proxy, wo ***s, me:wo me:***.*** me:w";
  for (std::size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(redacted(text, piece), clean) << piece;
}

TEST(Redactor, ShowsAtOnceWhatCannotBeOne) {
  Redactor redactor({"word"});
  EXPECT_EQ(redactor.feed("50% wo"), "50% ");
  EXPECT_EQ(redactor.feed("n\n"), "won\n");
  Redactor none({});
  EXPECT_EQ(none.feed("anything"), "anything");
}

}  // namespace
}  // namespace firebreak::image
