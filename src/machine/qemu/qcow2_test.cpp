#include "machine/qemu/qcow2.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/sys.h"

namespace firebreak::machine {
namespace {

class Qcow2 : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(sys::mkdirs(dir_, 0700)); }
  void TearDown() override { EXPECT_TRUE(sys::remove_tree(dir_)); }

  // What qemu-img prints; fails the test if it does not like the file.
  static std::string qemu_img(const std::string& arguments) {
    std::FILE* pipe = ::popen(("qemu-img " + arguments + " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string out;
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      out.append(buffer, n);
    EXPECT_EQ(::pclose(pipe), 0) << out;
    return out;
  }

  std::string dir_ = std::filesystem::temp_directory_path() / ("qcow2-" + sys::random_hex(4));
};

TEST_F(Qcow2, QemuAcceptsItInEverySize) {
  constexpr std::uint64_t kMiB = 1 << 20;
  // The last ones need a second L1 entry, a full L1 cluster, and one entry more.
  const std::uint64_t l1_cluster = (512 * kMiB) * 8192;
  for (std::uint64_t size :
       {512UL, kMiB, 512 * kMiB, 512 * kMiB + 512, 8192 * kMiB, l1_cluster, l1_cluster + 512}) {
    const std::string path = dir_ + "/" + std::to_string(size);
    ASSERT_TRUE(create_qcow2(path, size));
    EXPECT_THAT(qemu_img("check -f qcow2 " + path), testing::HasSubstr("No errors"));
    const auto info = parse_json_object(qemu_img("info --output=json -f qcow2 " + path));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->at("virtual-size").to_number<std::uint64_t>(), size);
    EXPECT_EQ(info->at("format").as_string(), "qcow2");
    // What it lies on is said on QEMU's command line, never by the file.
    EXPECT_FALSE(info->contains("backing-filename"));
    EXPECT_FALSE(info->at("dirty-flag").as_bool());
  }
}

TEST_F(Qcow2, IsSmallAndReadsAsZeros) {
  const std::string path = dir_ + "/disk";
  ASSERT_TRUE(create_qcow2(path, 1ULL << 33));
  EXPECT_EQ(std::filesystem::file_size(path), 4 * 65536);
  const auto map = parse_json(qemu_img("map --output=json -f qcow2 " + path));
  ASSERT_TRUE(map);
  ASSERT_EQ(map->as_array().size(), 1U);
  const json::object& extent = map->as_array().front().as_object();
  EXPECT_EQ(extent.at("length").to_number<std::uint64_t>(), 1ULL << 33);
  EXPECT_FALSE(extent.at("data").as_bool());
  EXPECT_TRUE(extent.at("zero").as_bool());
}

TEST_F(Qcow2, NeverReplacesAFile) {
  const std::string path = dir_ + "/disk";
  ASSERT_TRUE(create_qcow2(path, 1 << 20));
  EXPECT_EQ(create_qcow2(path, 1 << 20).error().code, Code::conflict);
}

}  // namespace
}  // namespace firebreak::machine
