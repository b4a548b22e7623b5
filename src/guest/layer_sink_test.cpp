#include "guest/layer_sink.h"

#include <gmock/gmock.h>

#include "guest/test_root.h"

namespace firebreak::guest {
namespace {

using testing::HasSubstr;
using wire::TarEntry;
using wire::TarType;

class Layer : public RootTest {
 protected:
  Result<> apply(const std::vector<TarEntry>& entries, const std::string& content = "new") {
    wire::TarWriter writer;
    std::string archive;
    for (TarEntry entry : entries) {
      const bool filled = entry.type == TarType::file && !entry.path.contains(".wh.");
      if (filled) entry.size = content.size();
      EXPECT_TRUE(writer.begin_entry(entry, archive));
      if (filled) archive += content;
      writer.end_entry(archive);
    }
    wire::TarWriter::finish(archive);
    FB_TRY_ASSIGN(const auto sink, LayerSink::open(root_fd_.get()));
    for (std::size_t at = 0; at < archive.size(); at += 700)
      FB_TRY(sink->feed(std::string_view(archive).substr(at, 700)));
    return sink->finish();
  }
  static TarEntry file(const std::string& path) { return {.path = path}; }
  static TarEntry directory(const std::string& path, std::uint32_t mode = 0755) {
    return {.path = path, .type = TarType::dir, .mode = mode};
  }
  static TarEntry symlink(const std::string& path, const std::string& target) {
    return {.path = path, .type = TarType::symlink, .link_target = target};
  }
};

TEST_F(Layer, WhiteoutsRemoveWhatIsBelow) {
  dir("d/sub");
  put("d/a", "a");
  put("d/b", "b");
  put("d/sub/c", "c");
  dir("o");
  put("o/old", "old");
  put("o/.hidden", "old");
  link("../secret", "out");
  ASSERT_TRUE(apply({file("d/.wh.a"), file("d/.wh.sub"), file("./o/.wh..wh..opq"),
                     file("nowhere/.wh.x"), file("d/.wh.never"), file(".wh.out"),
                     file(".wh..wh.plnk"), directory("o", 0711), file("o/fresh")}));
  EXPECT_EQ(get("d/b"), "b");
  EXPECT_EQ(count("d"), 1U);
  EXPECT_EQ(count("o"), 1U);
  EXPECT_EQ(get("o/fresh"), "new");
  EXPECT_EQ(info("o").st_mode & 07777, 0711U);
  EXPECT_FALSE(exists("out"));
  EXPECT_FALSE(exists("nowhere"));
  EXPECT_EQ(count(), 2U);
  EXPECT_FALSE(apply({file("d/.wh.")}));
  EXPECT_FALSE(apply({file("d/.wh...")}));
}

TEST_F(Layer, WhatHasAnotherTypeIsReplaced) {
  dir("tree/deep");
  put("tree/deep/f", "f");
  put("plain", "p");
  dir("real");
  put("real/kept", "k");
  link("real", "linked");
  ASSERT_TRUE(apply({file("tree"), directory("plain", 0700), file("plain/in"),
                     // A link to a directory is no directory: what it led to stays as it is.
                     directory("linked"), file("linked/in"), directory("real"),
                     symlink("real/kept", "elsewhere")}));
  EXPECT_EQ(get("tree"), "new");
  EXPECT_EQ(get("plain/in"), "new");
  EXPECT_TRUE(S_ISDIR(info("linked").st_mode));
  EXPECT_EQ(get("linked/in"), "new");
  EXPECT_FALSE(exists("real/in"));
  EXPECT_TRUE(S_ISLNK(info("real/kept").st_mode));
}

TEST_F(Layer, OwnersModesAndLinksAreTheLayers) {
  TarEntry owned = file("bin/tool");
  owned.mode = 04750;
  owned.uid = 12;
  owned.gid = 34;
  TarEntry second{.path = "bin/second", .type = TarType::hardlink, .link_target = "./bin/tool"};
  TarEntry root = directory(".", 0711);
  root.uid = 5;
  ASSERT_TRUE(apply({root, owned, second}));
  EXPECT_EQ(info("bin/tool").st_mode & 07777, 04750U);
  EXPECT_EQ(info("bin/tool").st_uid, 12U);
  EXPECT_EQ(info("bin/tool").st_gid, 34U);
  EXPECT_EQ(info("bin/tool").st_ino, info("bin/second").st_ino);
  EXPECT_EQ(info("").st_mode & 07777, 0711U);
  EXPECT_EQ(info("").st_uid, 5U);
}

TEST_F(Layer, NothingLeavesTheRoot) {
  // From inside they lead to the root's own directories, as in the image.
  dir("run");
  dir("var");
  link("/run", "var/run");
  link("../../../../secret", "up");
  link(top_ + "/secret", "away");
  ASSERT_TRUE(apply({file("var/run/in"), file("var/run/.wh.none")}));
  EXPECT_EQ(get("run/in"), "new");
  EXPECT_FALSE(apply({file("up/key")}));
  EXPECT_FALSE(apply({file("away/key")}));
  ASSERT_TRUE(apply({file("up/.wh.key"), file("away/.wh..wh..opq")}));
  EXPECT_THAT(apply({file("a/../../secret/key")}).error().text(), HasSubstr(".."));
  EXPECT_FALSE(apply({{.path = "x", .type = TarType::hardlink, .link_target = "up/key"}}));
  EXPECT_FALSE(apply({{.path = "x", .type = TarType::hardlink, .link_target = "../secret/key"}}));
  link("loop", "loop");
  EXPECT_FALSE(apply({file("loop/in")}));
}

TEST_F(Layer, WhatIsMountedStays) {
  dir("etc/sub");
  dir("dev");
  put("etc/gone", "x");
  put("etc/sub/gone", "x");
  const int result = with_mount("dev", [this] {
    // Entries below it and of its name are the guest's own matter.
    if (!apply({directory("dev", 0700), file("dev/f"), file("dev/x/y"), file("dev/.wh.f"),
                file("dev/.wh..wh..opq"), file(".wh.dev"), file("after")}))
      return 1;
    if (get("dev/f") != "mounted" || exists("dev/x") || get("after") != "new") return 2;
    return 0;
  });
  EXPECT_EQ(result, 0) << "-1: cannot mount here";
  const int around = with_mount("etc/sub", [this] {
    if (!apply({file(".wh.etc")})) return 1;
    return get("etc/sub/f") == "mounted" && !exists("etc/gone") ? 0 : 2;
  });
  EXPECT_EQ(around, 0);
}

TEST_F(Layer, ACutArchiveIsAnError) {
  const auto sink = LayerSink::open(root_fd_.get());
  ASSERT_TRUE(sink);
  ASSERT_TRUE((*sink)->feed(std::string(100, 'x')));
  EXPECT_FALSE((*sink)->finish());
}

}  // namespace
}  // namespace firebreak::guest
