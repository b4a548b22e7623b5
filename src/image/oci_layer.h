// One layer of an OCI image on its way into a guest. It is read twice: once to see that it is what
// its digests say and what it removes, and once to be packed anew, with what it removes first.
// Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "image/file_tree.h"
#include "image/oci_layout.h"

namespace firebreak::image {

struct LayerLimits {
  std::uint64_t max_bytes = std::uint64_t{8} << 30;  // unpacked: as large as a disk
  std::uint64_t max_entries = 1'000'000;
  std::size_t max_whiteouts = std::size_t{16} << 20;  // bytes of their names
  std::size_t max_path = 4096;
};

struct CheckedLayer {
  FileSpan blob;
  std::vector<std::string> whiteouts;  // paths of entries that stand for what is removed
  std::uint64_t devices = 0;           // left out: a guest has its own
};

// Code::corrupt if the blob is not what the digests say; Code::invalid for what is no layer.
Result<CheckedLayer> check_layer(FileSpan blob, const OciLayer& layer, const LayerLimits& limits,
                                 Deadline deadline);

class LayerStream {
 public:
  explicit LayerStream(CheckedLayer layer);
  ~LayerStream();
  LayerStream(const LayerStream&) = delete;
  LayerStream& operator=(const LayerStream&) = delete;

  // The next bytes of a plain tar archive; empty once it is whole.
  Result<std::string> next();

 private:
  class Packer;
  std::unique_ptr<Packer> packer_;
};

}  // namespace firebreak::image
