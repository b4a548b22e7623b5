// An OCI image in a layout, read and checked; and where the blobs of an image's layers come from.
// Blocking functions where they say so.
#pragma once

#include <memory>
#include <string>

#include "image/file_tree.h"
#include "image/oci_layout.h"
#include "net/task.h"

namespace firebreak::image {

// The image called `name` in the layout, for this machine: every document on the way is what its
// digest says, and the layers are there. Blocking; any thread.
Result<OciImage> read_oci_layout(const FileTree& tree, const std::string& name);

// Gives the blob of a layer to the build that puts it on a disk. One executor.
class LayerBlobs {
 public:
  LayerBlobs() = default;
  LayerBlobs(const LayerBlobs&) = delete;
  LayerBlobs& operator=(const LayerBlobs&) = delete;
  virtual ~LayerBlobs() = default;
  // Not yet compared with its digest.
  virtual net::Task<Result<FileSpan>> open(std::string digest, Deadline deadline) = 0;
};

// In a layout that is at hand.
class LayoutBlobs final : public LayerBlobs {
 public:
  explicit LayoutBlobs(std::unique_ptr<FileTree> tree) : tree_(std::move(tree)) {}
  net::Task<Result<FileSpan>> open(std::string digest, Deadline deadline) override;

 private:
  std::unique_ptr<FileTree> tree_;
};

}  // namespace firebreak::image
