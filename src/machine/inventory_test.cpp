#include "machine/inventory.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::machine {
namespace {

namespace fs = std::filesystem;

class OwnProcessesTest : public testing::Test {
 protected:
  OwnProcessesTest() { fs::create_directories(dir_ + "/runtime/hash"); }
  ~OwnProcessesTest() override { fs::remove_all(dir_); }

  std::string dir_ = fs::temp_directory_path() / ("fb-inventory-" + sys::random_hex(8));
};

TEST_F(OwnProcessesTest, AreThoseThatRunOnAQemuOfTheDirectory) {
  // Our own root stands for a jail's.
  fs::create_directory_symlink("/", dir_ + "/runtime/hash/root");
  EXPECT_TRUE(OwnProcesses(dir_, {}).contains(::getpid()));
}

TEST_F(OwnProcessesTest, AreThoseThatARecordNames) {
  EXPECT_TRUE(OwnProcesses(dir_, {::getpid()}).contains(::getpid()));
}

TEST_F(OwnProcessesTest, AreNoOthers) {
  EXPECT_FALSE(OwnProcesses(dir_, {}).contains(::getpid()));
  fs::create_directory(dir_ + "/runtime/hash/root");
  EXPECT_FALSE(OwnProcesses(dir_, {::getpid() + 1}).contains(::getpid()));
  EXPECT_FALSE(OwnProcesses(dir_ + "/nowhere", {}).contains(::getpid()));
}

}  // namespace
}  // namespace firebreak::machine
