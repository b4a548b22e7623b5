// A layer is what its digests say, and reaches the guest with what it removes first.
#include "image/oci_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/oci_test_image.h"

namespace firebreak::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::TarType;

const Deadline kSoon = Deadline::in(std::chrono::seconds(60));

using wire::Compression;

OciLayer layer_of(const std::string& blob, const std::string& content, Compression compression) {
  return {.digest = digest_of(blob),
          .diff_id = digest_of(content),
          .size = blob.size(),
          .compression = compression};
}

Result<CheckedLayer> check(const std::string& content, const LayerLimits& limits = {}) {
  return check_layer(span_of(content), layer_of(content, content, Compression::none), limits,
                     kSoon);
}

class Names final : public wire::TarReader::Sink {
 public:
  Result<> on_entry(const wire::TarEntry& entry) override {
    names.push_back(entry.path);
    return {};
  }
  Result<> on_data(std::string_view bytes) override {
    data += bytes;
    return {};
  }
  Result<> on_entry_end() override { return {}; }
  std::vector<std::string> names;
  std::string data;
};

Names packed(CheckedLayer layer) {
  Names names;
  wire::TarReader reader(names);
  LayerStream stream(std::move(layer));
  for (;;) {
    const auto bytes = stream.next();
    EXPECT_TRUE(bytes) << bytes.error().text();
    if (!bytes || bytes->empty()) break;
    EXPECT_TRUE(reader.feed(*bytes));
  }
  EXPECT_TRUE(reader.finish());
  return names;
}

const std::vector<TestEntry> kEntries{
    {.entry = {.path = "a", .type = TarType::dir, .mode = 0755}},
    {.entry = {.path = "a/new"}, .content = std::string(500'000, 'x')},
    {.entry = {.path = "a/.wh..wh..opq"}},
    {.entry = {.path = "link", .type = TarType::hardlink, .link_target = "a/new"}},
    {.entry = {.path = "b/.wh.gone"}},
};

TEST(OciLayer, WhatItRemovesComesFirst) {
  const std::string content = tar_of(kEntries);
  const std::string blob = gzip_of(content);
  const auto layer =
      check_layer(span_of(blob), layer_of(blob, content, Compression::gzip), {}, kSoon);
  ASSERT_TRUE(layer) << layer.error().text();
  EXPECT_THAT(layer->whiteouts, ElementsAre("a/.wh..wh..opq", "b/.wh.gone"));
  const Names names = packed(*layer);
  EXPECT_THAT(names.names, ElementsAre("a/.wh..wh..opq", "b/.wh.gone", "a", "a/new", "link"));
  EXPECT_EQ(names.data, std::string(500'000, 'x'));
}

TEST(OciLayer, ZstdIsReadAsGzipIs) {
  const std::string content = tar_of(kEntries);
  const std::string blob = zstd_of(content);
  const auto layer =
      check_layer(span_of(blob), layer_of(blob, content, Compression::zstd), {}, kSoon);
  ASSERT_TRUE(layer) << layer.error().text();
  EXPECT_THAT(packed(*layer).names,
              ElementsAre("a/.wh..wh..opq", "b/.wh.gone", "a", "a/new", "link"));
  EXPECT_THAT(check_layer(span_of(blob), layer_of(blob, content, Compression::gzip), {}, kSoon)
                  .error()
                  .message,
              HasSubstr("another way"));
}

// However much a few bytes become, it comes out in pieces that fit into memory.
TEST(OciLayer, ABombComesInPieces) {
  const std::string content =
      tar_of({{.entry = {.path = "zeros"}, .content = std::string(std::size_t{64} << 20, '\0')}});
  const std::string blob = zstd_of(content);
  ASSERT_LT(blob.size(), 16U << 10);
  const auto layer =
      check_layer(span_of(blob), layer_of(blob, content, Compression::zstd), {}, kSoon);
  ASSERT_TRUE(layer) << layer.error().text();
  LayerStream stream(*layer);
  std::size_t bytes = 0;
  for (;;) {
    const auto piece = stream.next();
    ASSERT_TRUE(piece) << piece.error().text();
    if (piece->empty()) break;
    EXPECT_LT(piece->size(), 20U << 20);
    bytes += piece->size();
  }
  EXPECT_EQ(bytes, content.size());
}

TEST(OciLayer, OnlyWhatTheDigestsSayIsTaken) {
  const std::string content = tar_of(kEntries);
  const std::string blob = gzip_of(content);
  OciLayer layer = layer_of(blob, content, Compression::gzip);
  std::string other = blob;
  other[other.size() / 2] ^= 1;
  EXPECT_EQ(check_layer(span_of(other), layer, {}, kSoon).error().code, Code::corrupt);
  EXPECT_EQ(check_layer(span_of(blob + "x"), layer, {}, kSoon).error().code, Code::corrupt);
  layer.diff_id = digest_of("something else");
  const auto lied = check_layer(span_of(blob), layer, {}, kSoon);
  ASSERT_FALSE(lied);
  EXPECT_THAT(lied.error().message, HasSubstr("something else than the image's configuration"));
  // A decompressor that the type does not name is not even started.
  layer = layer_of(blob, content, Compression::none);
  EXPECT_THAT(check_layer(span_of(blob), layer, {}, kSoon).error().message,
              HasSubstr("another way"));
  layer = layer_of(content, content, Compression::gzip);
  EXPECT_THAT(check_layer(span_of(content), layer, {}, kSoon).error().message,
              HasSubstr("another way"));
}

TEST(OciLayer, LimitsHold) {
  const std::string content = tar_of(kEntries);
  EXPECT_TRUE(check(content));
  EXPECT_EQ(check(content, {.max_bytes = 1000}).error().code, Code::exhausted);
  EXPECT_EQ(check(content, {.max_entries = 4}).error().code, Code::exhausted);
  EXPECT_EQ(check(content, {.max_whiteouts = 20}).error().code, Code::exhausted);
  EXPECT_EQ(check(content, {.max_path = 3}).error().code, Code::invalid);
  EXPECT_EQ(check_layer(span_of(content), layer_of(content, content, Compression::none), {},
                        Deadline::in(std::chrono::seconds(-1)))
                .error()
                .code,
            Code::timeout);
  // A bomb: the limit is on what comes out.
  const std::string zeros(std::size_t{8} << 20, '\0');
  const LayerLimits small{.max_bytes = 1 << 20};
  const std::string bomb = gzip_of(zeros);
  EXPECT_EQ(check_layer(span_of(bomb), layer_of(bomb, zeros, Compression::gzip), small, kSoon)
                .error()
                .code,
            Code::exhausted);
  const std::string worse = zstd_of(zeros);
  EXPECT_EQ(check_layer(span_of(worse), layer_of(worse, zeros, Compression::zstd), small, kSoon)
                .error()
                .code,
            Code::exhausted);
}

TEST(OciLayer, PathsThatLeadOutAreRefusedAndDevicesLeftOut) {
  EXPECT_THAT(check(tar_of({{.entry = {.path = "a/../../x"}}})).error().message,
              HasSubstr("leads out"));
  EXPECT_THAT(check(tar_of({{.entry = {.path = "x",
                                       .type = TarType::hardlink,
                                       .link_target = "../etc/passwd"}}}))
                  .error()
                  .message,
              HasSubstr("leads out"));
  // The writer makes no devices: a pipe becomes one by its type and checksum.
  std::string content = tar_of({{.entry = {.path = "dev/pipe", .type = TarType::fifo}},
                                {.entry = {.path = "f"}, .content = "x"}});
  ASSERT_EQ(content[156], '6');
  content[156] = '3';
  const std::string sum = content.substr(148, 6);
  const unsigned long value = std::stoul(sum, nullptr, 8) - 3;
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06lo", value);
  content.replace(148, 6, digits, 6);
  const auto layer = check(content);
  ASSERT_TRUE(layer) << layer.error().text();
  EXPECT_EQ(layer->devices, 1U);
  EXPECT_THAT(packed(*layer).names, ElementsAre("f"));
}

}  // namespace
}  // namespace firebreak::image
