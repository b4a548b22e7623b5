#include "wire/compress.h"

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

TEST(Compress, GivesBackWhatItGot) {
  for (const std::string& text :
       {std::string(), std::string("x"), std::string(1 << 20, 'a'), std::string("\0\xff\n", 3)})
    EXPECT_EQ(expand(compress(text), 2 << 20).value(), text);
  EXPECT_LT(compress(std::string(1 << 20, 'a')).size(), 1000U);
}

TEST(Compress, RefusesDamageAndTooMuch) {
  const std::string packed = compress(std::string(1000, 'a') + "end");
  EXPECT_EQ(expand(packed, 1002).error().code, Code::corrupt);
  EXPECT_FALSE(expand(packed.substr(0, packed.size() - 2), 5000));
}

}  // namespace
}  // namespace firebreak::wire
