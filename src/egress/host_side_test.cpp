// The host's side in a namespace that plays the host.
#include "egress/host_side.h"

#include <algorithm>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "base/sys.h"
#include "egress/host_test_support.h"
#include "egress/plan.h"

namespace firebreak::egress {
namespace {

using testing::Contains;
using testing::Not;

UniqueFd guest_namespace() {
  UniqueFd fd;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) fd = sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
  }).join();
  return fd;
}

std::vector<std::string> texts(const std::vector<core::Cidr>& blocks) {
  std::vector<std::string> out;
  for (const core::Cidr& block : blocks) out.push_back(core::to_string(block));
  return out;
}

// A neighbour with a public address is still a neighbour.
TEST(OffLimits, HoldsNetworksOnTheHostsLinksThatWouldPassForTheInternet) {
  EXPECT_THAT(
      texts(off_limits({{"93.184.7.9", 24}, {"10.1.2.3", 8}, {"2a00:7::9", 64}})),
      testing::ElementsAre(kBlock4, kBlock6, "93.184.7.0/24", "10.1.2.3/32", "2a00:7::/64"));
  // A link between two has no neighbours; link-local addresses and our own links are known.
  EXPECT_THAT(texts(off_limits({{"93.184.7.9", 32}, {"fe80::1", 64}, {"100.127.0.0", 31}})),
              testing::ElementsAre(kBlock4, kBlock6, "93.184.7.9/32"));
}

TEST(HostSide, ServersOfOneHostGiveOutDifferentAddresses) {
  in_new_host([] {
    auto first = HostSide::open("/data/one", true);
    auto second = HostSide::open("/data/two", true);
    ASSERT_TRUE(first) << first.error().text();
    ASSERT_TRUE(second) << second.error().text();
    std::vector<std::uint32_t> slots;
    std::vector<UniqueFd> guests;
    for (int i = 0; i < 6; ++i) {
      guests.push_back(guest_namespace());
      HostSide& side = i % 3 == 0 ? **first : **second;
      const auto slot = side.join("machine-" + std::to_string(i), guests.back().get());
      ASSERT_TRUE(slot) << slot.error().text();
      EXPECT_THAT(slots, Not(Contains(*slot)));
      slots.push_back(*slot);
    }
    const auto addresses = (*first)->addresses();
    ASSERT_TRUE(addresses);
    for (const std::uint32_t slot : slots)
      EXPECT_EQ(std::ranges::count(*addresses, uplink4(slot).host, &InterfaceAddress::address), 1)
          << slot;
    // What one has left, the other may have.
    ASSERT_TRUE((*first)->leave("machine-0"));
    const auto again = (*second)->join("machine-6", guests[0].get());
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(*again, slots[0]);
  });
}

}  // namespace
}  // namespace firebreak::egress
