// What makes two builds the same.
#include "control/build_keys.h"

#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace firebreak::control {
namespace {

TEST(OrderKey, ChangesWithWhatTheImageWouldBe) {
  const std::vector<std::function<void(BuildRequest&)>> changes{
      [](BuildRequest&) {},
      [](BuildRequest& request) { request.file = "Other"; },
      [](BuildRequest& request) { request.target = "stage"; },
      [](BuildRequest& request) { request.args = {{"A", "1"}}; },
      [](BuildRequest& request) { request.args = {{"A", "2"}}; },
      [](BuildRequest& request) { request.env = {{"A", "1"}}; },
      [](BuildRequest& request) { request.memory_mib = 4096; },
      [](BuildRequest& request) { request.hooks.port = 9000; },
      [](BuildRequest& request) { request.ready_path = "/health"; },
      [](BuildRequest& request) { request.ready_port = 80; },
      [](BuildRequest& request) { request.egress = "none"; },
      [](BuildRequest& request) { request.python_context = true; },
      [](BuildRequest& request) { request.all_capabilities = true; },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    BuildRequest request;
    change(request);
    keys.insert(order_key(request, "digest"));
  }
  keys.insert(order_key(BuildRequest(), "another digest"));
  EXPECT_EQ(keys.size(), changes.size() + 1);
}

TEST(OrderKey, IsTheSameForWhatOnlyConcernsTheBuild) {
  const std::string plain = order_key(BuildRequest(), "digest");
  BuildRequest request;
  request.secrets = {{"token", "x"}};
  request.build_egress = "none";
  request.no_cache = true;
  request.tags = {{"a", "b"}};
  EXPECT_EQ(order_key(request, "digest"), plain);
}

}  // namespace
}  // namespace firebreak::control
