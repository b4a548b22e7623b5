// The disk layers that builds made, by what made them. A layer is a file that never changes under a
// name that nobody had before; an index entry says for which key, on top of which chain, it may be
// used. A build that stands on a layer holds it, whatever is evicted. Everything is found again
// after a crash: half of a layer has no entry. Owned by the program; blocking functions on small
// files, one executor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/disk_chain.h"

namespace firebreak::image {

class LayerCache {
 public:
  // Keeps its files from being removed while it lives.
  class Hold {
   public:
    explicit Hold(LayerCache& cache) : cache_(cache) {}
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    void add(const std::string& layer);

   private:
    LayerCache& cache_;
    std::vector<std::string> layers_;
  };

  struct Usage {
    std::uint64_t layers = 0;
    std::uint64_t bytes = 0;
  };

  // Removes files that no entry names.
  static Result<std::unique_ptr<LayerCache>> open(std::string directory);
  LayerCache(const LayerCache&) = delete;
  LayerCache& operator=(const LayerCache&) = delete;
  ~LayerCache() = default;

  // The chain with the owner's layer for this key on top, held. Owners never see each other's.
  Result<std::optional<DiskChain>> find(const std::string& owner, const std::string& key,
                                        const DiskChain& below, Hold& hold);
  // Where a new layer is to be written; the chain with it on top, held.
  Result<DiskChain> begin(const std::string& owner, const DiskChain& below, Hold& hold);
  // It is written: from now on it is found.
  Result<> put(const std::string& owner, const std::string& key, const DiskChain& below,
               const DiskChain& with);

  Result<Usage> usage(const std::string& owner) const;
  Result<std::vector<std::string>> owners() const;
  // Forgets the owner's least recently used layers, and those above them, until `bytes` are left.
  Result<> shrink(const std::string& owner, std::uint64_t bytes);

 private:
  struct Entry {
    std::string key;
    std::string layer;  // name of the file
    std::string below;  // DiskChain::id
    std::int64_t used = 0;
    std::uint64_t bytes = 0;
  };

  explicit LayerCache(std::string directory) : directory_(std::move(directory)) {}
  std::string owner_dir(const std::string& owner) const { return directory_ + "/" + owner; }
  Result<std::vector<Entry>> entries(const std::string& owner) const;
  Result<Entry> read_entry(const std::string& owner, const std::string& key) const;
  // Files without an entry that nobody holds.
  Result<> remove_unnamed(const std::string& owner);
  static DiskChain on_top(const DiskChain& below, const std::string& path,
                          const std::string& layer);

  std::string directory_;
  std::map<std::string, int> held_;  // by path
};

}  // namespace firebreak::image
