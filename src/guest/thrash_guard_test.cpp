#include "guest/thrash_guard.h"

#include <gtest/gtest.h>

namespace firebreak::guest {
namespace {

using Sample = ThrashGuard::Sample;

TEST(ThrashGuard, KnowsATenantThatOnlyReadsItsProgramsAgain) {
  const Sample before{.limit_hits = 100, .kills = 1, .file_bytes = 80 << 10, .refaults = 1000};
  Sample after{.limit_hits = 900, .kills = 1, .file_bytes = 84 << 10, .refaults = 4000};
  EXPECT_TRUE(ThrashGuard::thrashes(before, after));
  after.kills = 2;  // the kernel has helped itself
  EXPECT_FALSE(ThrashGuard::thrashes(before, after));
}

TEST(ThrashGuard, LeavesOthersAlone) {
  const Sample before{.limit_hits = 100, .kills = 0, .file_bytes = 500 << 20, .refaults = 1000};
  // A file larger than the memory, read again and again.
  EXPECT_FALSE(ThrashGuard::thrashes(
      before, {.limit_hits = 900, .kills = 0, .file_bytes = 500 << 20, .refaults = 90'000}));
  // Full, and calm.
  EXPECT_FALSE(ThrashGuard::thrashes(
      before, {.limit_hits = 110, .kills = 0, .file_bytes = 1 << 20, .refaults = 1010}));
  // Not at its limit.
  EXPECT_FALSE(ThrashGuard::thrashes(
      before, {.limit_hits = 100, .kills = 0, .file_bytes = 1 << 20, .refaults = 9000}));
}

}  // namespace
}  // namespace firebreak::guest
