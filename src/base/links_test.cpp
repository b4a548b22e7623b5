// Against the kernel, each test in a network namespace of its own.
#include "base/links.h"

#include <algorithm>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "base/sys.h"

namespace firebreak {
namespace {

using testing::Contains;

void in_new_namespace(const std::function<void()>& work) {
  std::thread thread([&work] {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "needs root";
    work();
  });
  thread.join();
}

std::vector<std::string> names(const Links& links) {
  std::vector<std::string> names;
  for (const Link& link : links.list().value()) names.push_back(link.name);
  return names;
}

TEST(Links, APairJoinsTwoNamespaces) {
  in_new_namespace([] {
    UniqueFd outer = sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
    const Links out = Links::open().value();
    in_new_namespace([&] {
      UniqueFd inner = sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
      const Links in = Links::open().value();
      ASSERT_TRUE(out.add_veth("pair0", "the machine's id", inner.get(), "up0"));
      EXPECT_THAT(names(in), Contains("up0"));
      ASSERT_TRUE(in.add_address("up0", {"100.127.0.1", 31}));
      ASSERT_TRUE(in.add_address("up0", {"fd7f:fb::1", 127}));
      ASSERT_TRUE(in.set_up("up0"));
      ASSERT_TRUE(out.set_up("pair0"));
      ASSERT_TRUE(in.add_default_route("100.127.0.0", "up0"));
      ASSERT_TRUE(in.add_default_route("fd7f:fb::", "up0"));
      const auto addresses = in.addresses().value();
      EXPECT_THAT(addresses, Contains("100.127.0.1"));
      EXPECT_THAT(addresses, Contains("fd7f:fb::1"));
    });
    const auto links = out.list().value();
    const auto pair = std::ranges::find(links, "pair0", &Link::name);
    ASSERT_NE(pair, links.end());
    EXPECT_EQ(pair->alias, "the machine's id");
    EXPECT_TRUE(pair->ethernet);
  });
}

TEST(Links, ALinkMovesAndIsRemoved) {
  in_new_namespace([] {
    UniqueFd outer = sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
    const Links out = Links::open().value();
    const UniqueFd tap = open_tap("tap0").value();
    ASSERT_TRUE(out.set_mac("tap0", {0x52, 0x54, 0, 0xfb, 0, 1}));
    in_new_namespace([&] {
      UniqueFd inner = sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
      const Links in = Links::open().value();
      const auto index = out.index_of("tap0");
      ASSERT_TRUE(index);
      ASSERT_TRUE(out.move(*index, inner.get(), "eth0"));
      EXPECT_THAT(names(in), Contains("eth0"));
      EXPECT_THAT(names(out), testing::Not(Contains("tap0")));
      ASSERT_TRUE(in.add_address("eth0", {"10.107.0.1", 30}));
      ASSERT_TRUE(in.add_neighbour("eth0", "10.107.0.2", {0x52, 0x54, 0, 0xfb, 0, 2}));
      ASSERT_TRUE(in.remove("eth0"));
      EXPECT_FALSE(in.index_of("eth0"));
    });
  });
}

TEST(Links, ErrorsSayWhatWasAttempted) {
  in_new_namespace([] {
    const Links links = Links::open().value();
    EXPECT_THAT(links.remove("nothing").error().message, testing::HasSubstr("nothing"));
    EXPECT_EQ(links.add_address("lo", {"no address", 8}).error().code, Code::invalid);
    EXPECT_FALSE(links.add_default_route("192.0.2.1", "lo"));
    EXPECT_EQ(open_tap("a-name-that-is-too-long-for-a-link").error().code, Code::invalid);
  });
}

}  // namespace
}  // namespace firebreak
