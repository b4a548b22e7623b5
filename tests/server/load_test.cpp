// Many at once: a burst far beyond the pool, and memory and disk that run out.
#include <algorithm>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/sys.h"
#include "server/server_process.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

std::string path(const std::string& id, const std::string& rest = "") {
  return "/v1/microvms/" + id + rest;
}

// 100 with ./dev test --long.
TEST(Load, ABurstBeyondThePoolSucceedsWhole) {
  const std::size_t burst = how_many(40);
  ServerProcess server;
  server.set_options({"--pool-most=2"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  std::vector<Answer> answers(burst);
  std::vector<std::thread> clients;
  for (Answer& answer : answers)
    clients.emplace_back(
        [&] { answer = server.call("POST", "/v1/microvms", json::object{{"image", "python"}}); });
  for (std::thread& client : clients) client.join();
  std::set<std::string> ids;
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.status, 201) << answer.text;
    EXPECT_EQ(answer.text_of("state"), "RUNNING");
    ids.insert(answer.text_of("id"));
  }
  EXPECT_EQ(ids.size(), burst);
  const Answer alive =
      server.call("POST", path(*ids.begin(), "/exec"), json::object{{"shell", "echo ok"}});
  EXPECT_EQ(alive.text_of("stdout"), "ok\n");
  for (const std::string& id : ids) EXPECT_EQ(server.call("DELETE", path(id)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/check").text_of("ok"), "true");
}

TEST(Load, WhenMemoryRunsOutTheLongestUnusedIsSuspended) {
  ServerProcess server;
  server.set_options({"--memory-mib=900", "--tick-ms=100"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  // Longer unused than any other, but its tenant holds less than the one who launches.
  const Answer tenant = server.call("POST", "/v1/tenants", json::object{{"name", "small"}});
  const std::string small(tenant.object().at("key").at("apiKey").as_string());
  const Answer others =
      server.call_as(small, "POST", "/v1/microvms", json::object{{"image", "python"}});
  ASSERT_EQ(others.status, 201) << others.text;

  // Longest unused of those of who launches, but nothing would bring them back.
  std::vector<std::string> stay;
  for (const json::object& idle : {json::object{{"maxIdleSeconds", 0}, {"autoResume", false}},
                                   json::object{{"maxIdleSeconds", 0}, {"suspendedSeconds", 0}}}) {
    const Answer made =
        server.call("POST", "/v1/microvms", json::object{{"image", "python"}, {"idle", idle}});
    ASSERT_EQ(made.status, 201) << made.text;
    stay.push_back(made.text_of("id"));
  }

  std::vector<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
    ASSERT_EQ(made.status, 201) << made.text;
    ids.push_back(made.text_of("id"));
  }
  const Answer first = server.call("GET", path(ids.front()));
  EXPECT_EQ(first.text_of("state"), "SUSPENDED") << first.text;
  EXPECT_EQ(first.text_of("stateReason"), "Suspended because the host needs memory.");
  EXPECT_EQ(server.call("GET", path(ids.back())).text_of("state"), "RUNNING");
  EXPECT_EQ(server.call_as(small, "GET", path(others.text_of("id"))).text_of("state"), "RUNNING");
  for (const std::string& id : stay)
    EXPECT_EQ(server.call("GET", path(id)).text_of("state"), "RUNNING");
  // It comes back when it is used, at the cost of another.
  const Answer used =
      server.call("POST", path(ids.front(), "/exec"), json::object{{"shell", "echo back"}});
  EXPECT_EQ(used.text_of("stdout"), "back\n") << used.text;
}

// The disk of machines alone: what the store and snapshots need stays writable.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    EXPECT_EQ(::mount("none", path.c_str(), "tmpfs", 0, "size=256m,mode=0711"), 0);
  }
  ~SmallDisk() { EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  void fill() {
    struct statvfs st{};
    ASSERT_EQ(::statvfs(path_.c_str(), &st), 0);
    auto fd = sys::open(path_ + "/filler", O_WRONLY | O_CREAT, 0600);
    ASSERT_TRUE(fd);
    const std::uint64_t left = std::uint64_t{1} << 20;
    ASSERT_EQ(::fallocate(fd->get(), 0, 0, static_cast<off_t>(st.f_bfree * st.f_bsize - left)), 0);
  }
  void release() { ::unlink((path_ + "/filler").c_str()); }

 private:
  std::string path_;
};

TEST(Load, WhenTheDiskIsFullMicrovmsStandStillAndGoOnWithRoom) {
  ServerProcess server;
  server.set_options({"--tick-ms=200"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  ASSERT_EQ(server.stop(), 0) << server.log();
  SmallDisk disk(server.data_dir() + "/machines");
  ASSERT_TRUE(server.start()) << server.log();

  const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
  ASSERT_EQ(made.status, 201) << made.text;
  const std::string id = made.text_of("id");
  disk.fill();
  const Answer started = server.call(
      "POST", path(id, "/execs"),
      json::object{{"shell", "head -c 16M /dev/urandom > /root/f && sync && echo written"}});
  ASSERT_EQ(started.status, 201) << started.text;
  const auto waits = [&](double value) {
    for (int i = 0; i < 600 && server.metric("firebreak_microvms_out_of_disk") != value; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return server.metric("firebreak_microvms_out_of_disk") == value;
  };
  ASSERT_TRUE(waits(1)) << server.log();
  EXPECT_THAT(server.call("GET", path(id)).text_of("awakeBecause"),
              ::testing::HasSubstr("disk is full"));
  // Those who call it now are told at once, instead of waiting with it.
  const Answer refused = server.call("POST", path(id, "/exec"), json::object{{"shell", "true"}});
  EXPECT_EQ(refused.status, 503) << refused.text;
  EXPECT_THAT(refused.text_of("message"), ::testing::HasSubstr("disk is full"));

  disk.release();
  ASSERT_TRUE(waits(0)) << server.log();
  const Answer output = server.call(
      "POST", path(id, "/exec"),
      json::object{
          {"shell",
           "until [ $(stat -c %s /root/f) = 16777216 ]; do sleep 0.1; done; sync; echo ok"}});
  EXPECT_EQ(output.text_of("stdout"), "ok\n") << output.text;
  EXPECT_EQ(server.call("DELETE", path(id)).status, 200);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Load, AtOnceNotMoreAreTakenThanFit) {
  ServerProcess server;
  server.set_options({"--memory-mib=500", "--suspend-under-pressure=false"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  std::vector<Answer> answers(12);
  std::vector<std::thread> clients;
  for (Answer& answer : answers)
    clients.emplace_back(
        [&] { answer = server.call("POST", "/v1/microvms", json::object{{"image", "python"}}); });
  for (std::thread& client : clients) client.join();
  const auto taken = std::ranges::count(answers, 201, &Answer::status);
  EXPECT_GE(taken, 1);
  EXPECT_LE(taken, 500 / 96) << "each counts with 96 MiB at least";
}

TEST(Load, WithoutSuspendingTheLaunchIsRefusedClearly) {
  ServerProcess server;
  server.set_options({"--memory-mib=500", "--suspend-under-pressure=false"});
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_TRUE(server.wait_python()) << server.log();
  Answer last;
  for (int i = 0; i < 8 && last.status != 503; ++i)
    last = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
  EXPECT_EQ(last.status, 503);
  EXPECT_EQ(last.text_of("code"), "unavailable");
  EXPECT_THAT(last.text_of("message"), ::testing::HasSubstr("memory"));
  EXPECT_FALSE(last.text_of("repair").empty());
}

}  // namespace
}  // namespace firebreak::testing_support
