#include "image/layer_cache.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sys.h"

namespace firebreak::image {
namespace {

constexpr const char* kIndex = "/index";
constexpr const char* kLayers = "/layers";

Result<struct stat> file_stat(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return fail_errno("stat " + path);
  return st;
}

}  // namespace

LayerCache::Hold::~Hold() {
  for (const std::string& layer : layers_) {
    const auto at = cache_.held_.find(layer);
    if (at != cache_.held_.end() && --at->second == 0) cache_.held_.erase(at);
  }
}

void LayerCache::Hold::add(const std::string& layer) {
  ++cache_.held_[layer];
  layers_.push_back(layer);
}

Result<std::unique_ptr<LayerCache>> LayerCache::open(std::string directory) {
  FB_TRY(sys::mkdirs(directory, 0700));
  std::unique_ptr<LayerCache> cache(new LayerCache(std::move(directory)));
  FB_TRY_ASSIGN(const auto owners, cache->owners());
  for (const std::string& owner : owners) FB_TRY(cache->remove_unnamed(owner));
  return cache;
}

DiskChain LayerCache::on_top(const DiskChain& below, const std::string& path,
                             const std::string& layer) {
  DiskChain chain = below;
  chain.layers.push_back(path);
  chain.id = layer;  // its entry names what is below
  return chain;
}

Result<LayerCache::Entry> LayerCache::read_entry(const std::string& owner,
                                                 const std::string& key) const {
  const std::string path = owner_dir(owner) + kIndex + "/" + key;
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path, 64 << 10));
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader reader(object);
  Entry entry{.key = key, .layer = reader.string("layer"), .below = reader.string("below")};
  FB_TRY(reader.result());
  FB_TRY_ASSIGN(const struct stat index, file_stat(path));
  FB_TRY_ASSIGN(const struct stat file, file_stat(owner_dir(owner) + kLayers + "/" + entry.layer));
  entry.used = index.st_mtim.tv_sec * 1'000'000'000LL + index.st_mtim.tv_nsec;
  entry.bytes = static_cast<std::uint64_t>(file.st_blocks) * 512;
  return entry;
}

Result<std::vector<LayerCache::Entry>> LayerCache::entries(const std::string& owner) const {
  std::vector<Entry> all;
  const std::string index = owner_dir(owner) + kIndex;
  if (!sys::exists(index)) return all;
  FB_TRY_ASSIGN(const auto keys, sys::list_dir(index));
  for (const std::string& key : keys) {
    if (auto entry = read_entry(owner, key)) all.push_back(*std::move(entry));
  }
  return all;
}

Result<std::optional<DiskChain>> LayerCache::find(const std::string& owner, const std::string& key,
                                                  const DiskChain& below, Hold& hold) {
  const auto entry = read_entry(owner, key);
  // An entry that cannot be read is as good as none: the step is made again.
  if (!entry || entry->below != below.id) return std::nullopt;
  const std::string path = owner_dir(owner) + kLayers + "/" + entry->layer;
  ::utimensat(AT_FDCWD, (owner_dir(owner) + kIndex + "/" + key).c_str(), nullptr, 0);
  hold.add(path);
  return on_top(below, path, entry->layer);
}

Result<DiskChain> LayerCache::begin(const std::string& owner, const DiskChain& below, Hold& hold) {
  FB_TRY(sys::mkdirs(owner_dir(owner) + kLayers, 0700));
  FB_TRY(sys::mkdirs(owner_dir(owner) + kIndex, 0700));
  const std::string layer = sys::random_hex(16);
  const std::string path = owner_dir(owner) + kLayers + "/" + layer;
  hold.add(path);
  return on_top(below, path, layer);
}

Result<> LayerCache::put(const std::string& owner, const std::string& key, const DiskChain& below,
                         const DiskChain& with) {
  return sys::replace_file(owner_dir(owner) + kIndex + "/" + key,
                           json::serialize(json::object{{"layer", with.id}, {"below", below.id}}));
}

Result<LayerCache::Usage> LayerCache::usage(const std::string& owner) const {
  FB_TRY_ASSIGN(const auto all, entries(owner));
  Usage usage;
  for (const Entry& entry : all) {
    ++usage.layers;
    usage.bytes += entry.bytes;
  }
  return usage;
}

Result<std::vector<std::string>> LayerCache::owners() const {
  return sys::list_dir(directory_);
}

Result<> LayerCache::shrink(const std::string& owner, std::uint64_t bytes) {
  FB_TRY_ASSIGN(auto all, entries(owner));
  std::ranges::sort(all, {}, &Entry::used);
  std::uint64_t total = 0;
  for (const Entry& entry : all) total += entry.bytes;
  std::set<std::string> gone;
  for (const Entry& entry : all) {
    // What stands on a layer that is gone cannot be used any more.
    if (total <= bytes && !gone.contains(entry.below)) continue;
    const std::string path = owner_dir(owner) + kIndex + "/" + entry.key;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unlink " + path);
    gone.insert(entry.layer);
    total -= entry.bytes;
  }
  return remove_unnamed(owner);
}

Result<> LayerCache::remove_unnamed(const std::string& owner) {
  const std::string layers = owner_dir(owner) + kLayers;
  if (!sys::exists(layers)) return {};
  FB_TRY_ASSIGN(const auto all, entries(owner));
  std::set<std::string> named;
  for (const Entry& entry : all) named.insert(entry.layer);
  FB_TRY_ASSIGN(const auto files, sys::list_dir(layers));
  for (const std::string& file : files) {
    const std::string path = layers + "/" + file;
    if (named.contains(file) || held_.contains(path)) continue;
    if (::unlink(path.c_str()) != 0) return fail_errno("unlink " + path);
  }
  return {};
}

}  // namespace firebreak::image
