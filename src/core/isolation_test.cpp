#include "core/isolation.h"

#include <gtest/gtest.h>

namespace firebreak::core {
namespace {

TEST(Isolation, HasTheWordsThatUsersRead) {
  EXPECT_EQ(to_string(Isolation::hardware), "hardware");
  EXPECT_EQ(to_string(Isolation::userspace_kernel), "userspace-kernel");
  EXPECT_EQ(to_string(Isolation::emulated), "emulated");
  for (const Isolation one :
       {Isolation::hardware, Isolation::userspace_kernel, Isolation::emulated})
    EXPECT_EQ(parse_isolation(to_string(one)), one);
  EXPECT_EQ(parse_isolation("Hardware"), std::nullopt);
  EXPECT_EQ(parse_isolation(""), std::nullopt);
}

TEST(Isolation, AtLeastFollowsTheOrder) {
  EXPECT_TRUE(at_least(Isolation::hardware, Isolation::userspace_kernel));
  EXPECT_TRUE(at_least(Isolation::userspace_kernel, Isolation::emulated));
  EXPECT_TRUE(at_least(Isolation::emulated, Isolation::emulated));
  EXPECT_FALSE(at_least(Isolation::emulated, Isolation::userspace_kernel));
  EXPECT_FALSE(at_least(Isolation::userspace_kernel, Isolation::hardware));
}

}  // namespace
}  // namespace firebreak::core
