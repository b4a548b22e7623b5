#include "image/layer_cache.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/sys.h"

namespace firebreak::image {
namespace {

namespace fs = std::filesystem;

class LayerCacheTest : public testing::Test {
 protected:
  LayerCacheTest() {
    char path[] = "/tmp/fb-layers-XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    reopen();
  }
  ~LayerCacheTest() override { fs::remove_all(directory_); }
  LayerCacheTest(const LayerCacheTest&) = delete;
  LayerCacheTest& operator=(const LayerCacheTest&) = delete;

  void reopen() { cache_ = *LayerCache::open(directory_ + "/cache"); }

  DiskChain base() const { return {.base = "/base.ext4", .layers = {}, .id = "base"}; }

  DiskChain make(const std::string& owner, const std::string& key, const DiskChain& below) {
    LayerCache::Hold hold(*cache_);
    const DiskChain chain = *cache_->begin(owner, below, hold);
    std::ofstream(chain.layers.back()) << std::string(64 << 10, 'x');
    EXPECT_TRUE(cache_->put(owner, key, below, chain));
    return chain;
  }
  std::optional<DiskChain> find(const std::string& owner, const std::string& key,
                                const DiskChain& below) {
    LayerCache::Hold hold(*cache_);
    return *cache_->find(owner, key, below, hold);
  }

  std::string directory_;
  std::unique_ptr<LayerCache> cache_;
};

TEST_F(LayerCacheTest, FindsWhatWasPutOnExactlyThatChain) {
  const DiskChain one = make("a", "k1", base());
  const DiskChain two = make("a", "k2", one);
  EXPECT_EQ(two.layers.size(), 2U);
  EXPECT_EQ(find("a", "k1", base()), one);
  EXPECT_EQ(find("a", "k2", one), two);
  EXPECT_EQ(find("a", "k3", base()), std::nullopt);
  // Made again, the lower layer is another file: what stood on the old one does not fit.
  const DiskChain again = make("a", "k1", base());
  EXPECT_EQ(find("a", "k2", again), std::nullopt);
}

TEST_F(LayerCacheTest, OwnersDoNotShare) {
  make("a", "k1", base());
  EXPECT_EQ(find("b", "k1", base()), std::nullopt);
}

TEST_F(LayerCacheTest, ALayerWithoutEntryIsGoneAfterARestart) {
  const DiskChain kept = make("a", "k1", base());
  std::string cut;
  {
    LayerCache::Hold hold(*cache_);
    cut = cache_->begin("a", kept, hold)->layers.back();
    std::ofstream(cut) << "half";
  }
  reopen();
  EXPECT_FALSE(sys::exists(cut));
  EXPECT_EQ(find("a", "k1", base()), kept);
}

TEST_F(LayerCacheTest, ShrinkForgetsTheOldestAndWhatStandsOnThem) {
  const DiskChain one = make("a", "k1", base());
  const DiskChain two = make("a", "k2", one);
  const DiskChain other = make("a", "k3", base());
  EXPECT_EQ(cache_->usage("a")->layers, 3U);
  // The oldest is used again, so that the next in age goes.
  EXPECT_TRUE(find("a", "k1", base()));
  ASSERT_TRUE(cache_->shrink("a", std::uint64_t{2} * (64 << 10)));
  EXPECT_EQ(find("a", "k1", base()), one);
  EXPECT_EQ(find("a", "k2", one), std::nullopt);
  EXPECT_EQ(find("a", "k3", base()), other);
  EXPECT_FALSE(sys::exists(two.layers.back()));
}

TEST_F(LayerCacheTest, WhatABuildHoldsStays) {
  make("a", "k1", base());
  LayerCache::Hold hold(*cache_);
  const auto held = *cache_->find("a", "k1", base(), hold);
  ASSERT_TRUE(held);
  ASSERT_TRUE(cache_->shrink("a", 0));
  EXPECT_TRUE(sys::exists(held->layers.back()));
  EXPECT_EQ(find("a", "k1", base()), std::nullopt);
}

TEST_F(LayerCacheTest, ADamagedEntryIsNone) {
  make("a", "k1", base());
  std::ofstream(directory_ + "/cache/a/index/k1") << "{";
  EXPECT_EQ(find("a", "k1", base()), std::nullopt);
}

}  // namespace
}  // namespace firebreak::image
