// Layouts as people and programs write them, and as nobody should.
#include "image/oci_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/oci_source.h"
#include "image/oci_test_image.h"

namespace firebreak::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string kSomeLayer = tar_of({{.entry = {.path = "a"}, .content = "x"}});

json::object named(json::object descriptor, const std::string& name) {
  descriptor["annotations"] = json::object{{"org.opencontainers.image.ref.name", name}};
  return descriptor;
}

json::object for_machine(json::object descriptor, const std::string& machine) {
  descriptor["platform"] = json::object{{"os", "linux"}, {"architecture", machine}};
  return descriptor;
}

std::string error_of(const TestTree& tree, const std::string& name = "") {
  const auto image = read_oci_layout(tree, name);
  return image ? "read" : image.error().message;
}

TEST(OciLayout, AnImageIsReadWithItsConfiguration) {
  TestTree tree;
  const json::object config{
      {"Env", {"PATH=/bin", "A=b=c"}}, {"Cmd", {"run"}},
      {"Entrypoint", nullptr},         {"User", "app"},
      {"WorkingDir", "srv"},           {"ExposedPorts", json::object{{"80/tcp", json::object()}}},
      {"OnBuild", {"RUN true"}},       {"ArgsEscaped", true}};
  tree.files["index.json"] = index_of({add_image(tree, {kSomeLayer, kSomeLayer}, config)});
  const auto image = read_oci_layout(tree, "");
  ASSERT_TRUE(image) << image.error().text();
  EXPECT_THAT(image->config.env, ElementsAre(Pair("PATH", "/bin"), Pair("A", "b=c")));
  EXPECT_THAT(image->config.cmd, ElementsAre("run"));
  EXPECT_EQ(image->config.user, "app");
  EXPECT_EQ(image->config.workdir, "/srv");
  EXPECT_THAT(image->config.exposed_ports, ElementsAre("80/tcp"));
  EXPECT_THAT(image->config.onbuild, ElementsAre("RUN true"));
  ASSERT_EQ(image->layers.size(), 2U);
  EXPECT_EQ(image->layers[0].diff_id, digest_of(kSomeLayer));
  EXPECT_EQ(image->layers[0].compression, wire::Compression::none);
}

TEST(OciLayout, TheImageThatIsMeantIsChosen) {
  TestTree tree;
  const json::object one = add_image(tree, {kSomeLayer}, {{"User", "one"}});
  const json::object two = add_image(tree, {kSomeLayer}, {{"User", "two"}});
  tree.files["index.json"] = index_of({named(one, "1"), named(two, "2")});
  EXPECT_EQ(read_oci_layout(tree, "2").value().config.user, "two");
  EXPECT_THAT(error_of(tree), AllOf(HasSubstr("several"), HasSubstr("'1', '2'")));
  EXPECT_THAT(error_of(tree, "3"), HasSubstr("'1', '2'"));

  const json::object arm = add_image(tree, {kSomeLayer}, {{"User", "arm"}}, "arm64");
  tree.files["index.json"] = index_of({for_machine(arm, "arm64"), for_machine(two, "amd64")});
  EXPECT_EQ(read_oci_layout(tree, "").value().config.user, "two");
  tree.files["index.json"] = index_of({arm});
  EXPECT_THAT(error_of(tree), HasSubstr("'linux/arm64'"));
  tree.files["index.json"] = index_of({for_machine(arm, "arm64"), for_machine(arm, "riscv64")});
  EXPECT_THAT(error_of(tree), HasSubstr("linux/amd64"));

  // An index in the index.
  const std::string inner = index_of({for_machine(arm, "arm64"), for_machine(one, "amd64")});
  tree.files["index.json"] =
      index_of({named(descriptor_of(kTestIndex, tree.add_blob(inner), inner.size()), "v")});
  EXPECT_EQ(read_oci_layout(tree, "v").value().config.user, "one");
  std::string nested = inner;
  for (int i = 0; i < 10; ++i)
    nested = index_of({descriptor_of(kTestIndex, tree.add_blob(nested), nested.size())});
  tree.files["index.json"] = nested;
  EXPECT_THAT(error_of(tree), HasSubstr("nested"));
}

TEST(OciLayout, NothingIsTakenThatIsNotWhatItsDigestSays) {
  TestTree tree;
  const json::object image = add_image(tree, {kSomeLayer});
  tree.files["index.json"] = index_of({image});
  ASSERT_EQ(error_of(tree), "read");
  const auto whole = tree.files;
  for (const auto& [path, content] : whole) {
    if (!path.starts_with("blobs/")) continue;
    tree.files = whole;
    tree.files[path] += " ";
    EXPECT_THAT(error_of(tree), HasSubstr("damaged")) << path;
    tree.files.erase(path);
    EXPECT_NE(error_of(tree), "read") << path;
  }
  tree.files = whole;
  tree.files.erase("index.json");
  EXPECT_THAT(error_of(tree), HasSubstr("index.json"));
}

std::string document_error(const std::string& text) {
  const auto parsed = parse_oci_document(text);
  return parsed ? "parsed" : parsed.error().message;
}

TEST(OciLayout, WrongDocumentsAreRefused) {
  const std::string digest = digest_of("");
  EXPECT_THAT(document_error("{}"), HasSubstr("schemaVersion"));
  EXPECT_THAT(document_error(R"({"schemaVersion": 1, "layers": []})"), HasSubstr("version 1"));
  EXPECT_THAT(document_error(R"({"schemaVersion": 2})"), HasSubstr("neither"));
  EXPECT_THAT(document_error(R"({"schemaVersion": 2, "layers": [], "manifests": []})"),
              HasSubstr("neither"));
  EXPECT_THAT(document_error(R"({"schemaVersion": 2, "layers": []})"), HasSubstr("configuration"));
  for (const char* wrong : {"sha256:12", "sha512:aa", "../../etc/passwd", "SHA256:"}) {
    EXPECT_THAT(document_error(index_of({descriptor_of(kTestManifest, wrong, 1)})),
                HasSubstr("not a digest"))
        << wrong;
  }
  // Content that a client would fetch from wherever the image says.
  json::object elsewhere = descriptor_of(kTestManifest, digest, 1);
  elsewhere["urls"] = json::array{"http://192.0.2.1/"};
  EXPECT_THAT(document_error(index_of({elsewhere})), HasSubstr("elsewhere"));
  EXPECT_THAT(document_error(std::string(kMaxOciDocument + 1, ' ')), HasSubstr("larger"));
  json::array many;
  for (int i = 0; i < 2000; ++i) many.push_back(descriptor_of(kTestManifest, digest, 1));
  EXPECT_THAT(document_error(index_of(many)), HasSubstr("more than"));
}

TEST(OciLayout, LayersMustBeReadable) {
  const std::string config =
      R"({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [")" + digest_of("") +
      R"("]}})";
  const auto made = [&](const std::string& type, std::uint64_t size = 1) {
    const OciManifest manifest{
        .config = {}, .layers = {{.media_type = type, .digest = digest_of(""), .size = size}}};
    const auto image = make_oci_image(manifest, config);
    if (!image) return image.error().message;
    const auto kind = image->layers[0].compression;
    return std::string(kind == wire::Compression::gzip   ? "gzip"
                       : kind == wire::Compression::zstd ? "zstd"
                                                         : "plain");
  };
  EXPECT_EQ(made("application/vnd.oci.image.layer.v1.tar"), "plain");
  EXPECT_EQ(made("application/vnd.oci.image.layer.v1.tar+gzip"), "gzip");
  EXPECT_EQ(made("application/vnd.docker.image.rootfs.diff.tar.gzip"), "gzip");
  EXPECT_EQ(made("application/vnd.oci.image.layer.v1.tar+zstd"), "zstd");
  EXPECT_THAT(made("application/vnd.oci.image.layer.v1.tar+xz"), HasSubstr("only tar archives"));
  EXPECT_THAT(made("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
              HasSubstr("only tar archives"));
  EXPECT_THAT(made("application/vnd.oci.image.layer.v1.tar", std::uint64_t{1} << 40),
              HasSubstr("larger"));
  EXPECT_THAT(make_oci_image({}, config).error().message, HasSubstr("0 layers"));
  EXPECT_THAT(make_oci_image({}, R"({"os": "linux", "architecture": "amd64", "rootfs": {},)"
                                 R"("config": {"Env": ["A=\u0000"]}})")
                  .error()
                  .message,
              HasSubstr("NUL"));
}

TEST(OciArchive, HoldsALayout) {
  TestTree tree;
  tree.files["index.json"] = index_of({add_image(tree, {kSomeLayer}, {{"User", "one"}})});
  std::vector<TestEntry> entries{
      {.entry = {.path = "blobs", .type = wire::TarType::dir, .mode = 0755}}};
  for (const auto& [path, content] : tree.files)
    entries.push_back({.entry = {.path = "./" + path}, .content = content});
  const std::string bytes = tar_of(entries);
  // Somewhere in a larger file.
  FileSpan span = span_of("before" + bytes + "behind");
  span.offset = 6;
  span.size = bytes.size();
  const auto archive = ArchiveTree::read(span);
  ASSERT_TRUE(archive) << archive.error().text();
  EXPECT_EQ(read_oci_layout(**archive, "").value().config.user, "one");
  EXPECT_EQ((*archive)->open("blobs").error().code, Code::not_found);

  span.size /= 2;
  EXPECT_FALSE(ArchiveTree::read(span));
  EXPECT_THAT(ArchiveTree::read(span_of(gzip_of(bytes))).error().message, HasSubstr("compressed"));
}

}  // namespace
}  // namespace firebreak::image
