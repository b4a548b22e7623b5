// OCI images in memory, for tests: layers of tar entries, documents around them, a tree of files.
// Test code only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "base/json.h"
#include "base/sys.h"
#include "image/file_tree.h"
#include "image/oci_layout.h"
#include "wire/tar.h"

namespace firebreak::image {

struct TestEntry {
  wire::TarEntry entry;
  std::string content;
};

inline std::string tar_of(const std::vector<TestEntry>& entries) {
  wire::TarWriter writer;
  std::string out;
  for (TestEntry item : entries) {
    item.entry.size = item.content.size();
    EXPECT_TRUE(writer.begin_entry(item.entry, out));
    out += item.content;
    writer.end_entry(out);
  }
  wire::TarWriter::finish(out);
  return out;
}

inline std::string gzip_of(std::string_view bytes) {
  std::string out(bytes.size() + 1024, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string zstd_of(std::string_view bytes) {
  std::string out(::ZSTD_compressBound(bytes.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

inline FileSpan span_of(std::string_view bytes) {
  auto fd = sys::open("/tmp", O_TMPFILE | O_RDWR, 0600);
  EXPECT_TRUE(fd);
  EXPECT_TRUE(sys::write_all(fd->get(), bytes));
  return {.file = std::make_shared<const UniqueFd>(*std::move(fd)), .size = bytes.size()};
}

// Files by path.
class TestTree final : public FileTree {
 public:
  Result<FileSpan> open(const std::string& path) const override {
    const auto found = files.find(path);
    if (found == files.end()) return fail(Code::not_found, "there is no file " + path);
    return span_of(found->second);
  }
  std::string add_blob(const std::string& content) {
    const std::string digest = digest_of(content);
    files["blobs/sha256/" + digest.substr(7)] = content;
    return digest;
  }
  std::map<std::string, std::string> files;
};

inline json::object descriptor_of(std::string_view type, const std::string& digest,
                                  std::size_t size) {
  return {{"mediaType", type}, {"digest", digest}, {"size", size}};
}

inline constexpr std::string_view kTestManifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kTestIndex = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kTestLayer = "application/vnd.oci.image.layer.v1.tar";

// An image of plain layers; the descriptor of its manifest.
inline json::object add_image(TestTree& tree, const std::vector<std::string>& layers,
                              json::object config = {}, const std::string& machine = "amd64") {
  json::array list;
  json::array diff_ids;
  for (const std::string& layer : layers) {
    list.push_back(descriptor_of(kTestLayer, tree.add_blob(layer), layer.size()));
    diff_ids.emplace_back(digest_of(layer));
  }
  const std::string settings = json::serialize(
      json::object{{"os", "linux"},
                   {"architecture", machine},
                   {"config", std::move(config)},
                   {"rootfs", json::object{{"type", "layers"}, {"diff_ids", diff_ids}}}});
  const std::string manifest = json::serialize(
      json::object{{"schemaVersion", 2},
                   {"config", descriptor_of("application/vnd.oci.image.config.v1+json",
                                            tree.add_blob(settings), settings.size())},
                   {"layers", std::move(list)}});
  return descriptor_of(kTestManifest, tree.add_blob(manifest), manifest.size());
}

inline std::string index_of(json::array manifests) {
  return json::serialize(json::object{{"schemaVersion", 2}, {"manifests", std::move(manifests)}});
}

}  // namespace firebreak::image
