// A namespace that plays the host, for tests: nothing of this machine is touched.
#pragma once

#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace firebreak::egress {

// On a thread of its own; what it starts is there, too.
inline void in_new_host(const std::function<void()>& body) {
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "needs root";
    body();
  }).join();
}

}  // namespace firebreak::egress
