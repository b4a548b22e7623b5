#include "machine/qemu/snapshot_hashes.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "machine/qemu/ram_image.h"

namespace firebreak::machine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Hashes : public testing::Test {
 protected:
  Hashes() {
    fs::create_directories(dir_);
    write("base.ext4", "base");
    write("disk.qcow2", "layer");
    write("state", "state");
    auto ram = RamImage::create(1 << 20);
    EXPECT_TRUE(ram);
    const std::string page = "memory";
    EXPECT_TRUE(sys::pwrite_all(ram->fd(), std::as_bytes(std::span(page)), 4096));
    SnapshotRecord record;
    record.ram_sha256 = ram->save(dir_ + "/ram").value();
    record.state_sha256 = sha256_file(dir_ + "/state").value();
    record.size = {.vcpus = 1, .memory_mib = 1};
    record.disks = {{dir_ + "/base.ext4", DiskFormat::raw, 4},
                    {dir_ + "/disk.qcow2", DiskFormat::qcow2, 5}};
    record.disk_sha256 = {"", sparse_hash(dir_ + "/disk.qcow2").value()};
    write("snapshot.json", to_json_text(record));
  }
  ~Hashes() override { fs::remove_all(dir_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }
  // One byte, in place.
  void flip(const std::string& name, std::streamoff at) const {
    std::fstream file(dir_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('#');
  }

  std::string dir_ = fs::temp_directory_path() / ("hashes-" + sys::random_hex(8));
};

TEST_F(Hashes, AnUntouchedSnapshotIsFine) {
  SnapshotHashes hashes;
  EXPECT_TRUE(hashes.verify(dir_));
  EXPECT_TRUE(hashes.verify(dir_));
}

// RT-7, TW-10: a byte in each of the files, seen by a server that had looked before and by one that
// had not.
TEST_F(Hashes, RT7_AChangedByteIsSeenWithAndWithoutARestart) {
  const std::pair<const char*, const char*> cases[]{{"ram", "the memory"},
                                                    {"state", "the device state"},
                                                    {"disk.qcow2", "disk layer 1"},
                                                    {"base.ext4", "disk layer 0"}};
  for (const auto& [file, what] : cases) {
    SnapshotHashes running;
    ASSERT_TRUE(running.verify(dir_)) << file;
    fs::copy(dir_ + "/" + file, dir_ + "/kept");
    flip(file, file == std::string("ram") ? 4097 : 1);
    SnapshotHashes restarted;
    for (SnapshotHashes* each : {&running, &restarted}) {
      const auto verdict = each->verify(dir_);
      ASSERT_FALSE(verdict) << file;
      EXPECT_EQ(verdict.error().code, Code::corrupt);
      EXPECT_THAT(verdict.error().message, HasSubstr(what));
    }
    fs::rename(dir_ + "/kept", dir_ + "/" + file);
    EXPECT_TRUE(running.verify(dir_)) << file;
  }
}

}  // namespace
}  // namespace firebreak::machine
