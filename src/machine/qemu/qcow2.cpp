#include "machine/qemu/qcow2.h"

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {
constexpr std::uint32_t kClusterBits = 16;
constexpr std::uint64_t kCluster = 1ULL << kClusterBits;
}  // namespace

// Layout: cluster 0 header, 1 refcount table, 2 first refcount block, 3.. L1 table
// (docs/interop/qcow2 of QEMU).
std::string empty_qcow2(std::uint64_t virtual_size) {
  const std::uint64_t per_l2 = kCluster / 8 * kCluster;  // bytes of disk one L2 table maps
  const std::uint64_t l1_entries = (virtual_size + per_l2 - 1) / per_l2;
  const std::uint64_t l1_clusters = (l1_entries * 8 + kCluster - 1) / kCluster;
  const std::uint64_t clusters = 3 + l1_clusters;

  std::string file;
  file += "QFI\xfb";
  put_u32(file, 3);  // version
  put_u64(file, 0);  // backing file name: none
  put_u32(file, 0);
  put_u32(file, kClusterBits);
  put_u64(file, virtual_size);
  put_u32(file, 0);  // no encryption
  put_u32(file, static_cast<std::uint32_t>(l1_entries));
  put_u64(file, 3 * kCluster);  // L1 table
  put_u64(file, kCluster);      // refcount table
  put_u32(file, 1);             // its clusters
  put_u32(file, 0);             // snapshots
  put_u64(file, 0);
  put_u64(file, 0);    // incompatible features
  put_u64(file, 0);    // compatible
  put_u64(file, 0);    // autoclear
  put_u32(file, 4);    // refcount order: 16 bits
  put_u32(file, 112);  // header length
  file.append(8, '\0');
  put_u64(file, 0);  // end of header extensions

  file.resize(kCluster, '\0');
  put_u64(file, 2 * kCluster);  // refcount table: its one block
  file.resize(2 * kCluster, '\0');
  for (std::uint64_t i = 0; i < clusters; ++i) put_u16(file, 1);
  file.resize(clusters * kCluster, '\0');
  return file;
}

Result<> create_qcow2(const std::string& path, std::uint64_t virtual_size) {
  const std::string content = empty_qcow2(virtual_size);
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return sys::write_all(fd.get(), content);
}

}  // namespace firebreak::machine
