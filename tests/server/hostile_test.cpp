// A server whose guests have an attacker in place of the agent: callers get typed errors, the
// server goes on, and nothing is left.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_process.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

namespace fs = std::filesystem;

// The files of the guest with another initramfs, named to servers by the environment.
class HostileGuests {
 public:
  explicit HostileGuests(const std::string& behaviour)
      : real_(environment_or_die("FIREBREAK_GUEST_DIR")),
        directory_(fs::temp_directory_path() /
                   ("firebreak-hostile-" + std::to_string(::getpid()))) {
    fs::create_directories(directory_);
    for (const auto& entry : fs::directory_iterator(real_)) {
      if (entry.path().filename() != "initramfs.cpio")
        fs::create_symlink(fs::absolute(entry.path()), directory_ / entry.path().filename());
    }
    const std::string init = directory_ / "init";
    fs::copy_file(FIREBREAK_HOSTILE_INIT, init);
    std::ofstream(init, std::ios::app | std::ios::binary) << "behaviour:" << behaviour;
    const std::string command = std::string(FIREBREAK_MAKE_INITRAMFS) + " " + init + " " +
                                (directory_ / "kernel").string() + " " +
                                (directory_ / "initramfs.cpio").string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    ::setenv("FIREBREAK_GUEST_DIR", directory_.c_str(), 1);
  }
  ~HostileGuests() {
    ::setenv("FIREBREAK_GUEST_DIR", real_.c_str(), 1);
    fs::remove_all(directory_);
  }
  HostileGuests(const HostileGuests&) = delete;
  HostileGuests& operator=(const HostileGuests&) = delete;

 private:
  std::string real_;
  fs::path directory_;
};

class HostileAgent : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileAgent, IsATypedErrorOfTheApi) {
  const HostileGuests guests(GetParam());
  ServerProcess server;
  server.set_options({"--python-image=false"});
  ASSERT_TRUE(server.start()) << server.log();
  const Answer made =
      server.call("POST", "/v1/images", json::object{{"name", "app"}, {"memoryMib", 512}});
  EXPECT_GE(made.status, 500) << made.text;
  EXPECT_FALSE(made.text_of("code").empty()) << made.text;
  EXPECT_LT(made.text.size(), 4096U);
  EXPECT_EQ(server.call_as("", "GET", "/healthz").status, 200);
  EXPECT_NE(server.call("POST", "/v1/microvms", json::object{{"image", "app"}}).status, 201);
  const Answer report = server.call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

INSTANTIATE_TEST_SUITE_P(Behaviours, HostileAgent,
                         ::testing::Values("sync_garbage", "endless_body", "endless_headers"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace firebreak::testing_support
