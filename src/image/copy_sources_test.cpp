#include "image/copy_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::image {
namespace {

using testing::HasSubstr;

class CopySources : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = ContextWriter::create(testing::TempDir(), {});
    ASSERT_TRUE(writer);
    writer_ = *std::move(writer);
  }
  void file(const std::string& path, std::string_view content = "x", std::uint32_t mode = 0644) {
    ASSERT_TRUE(writer_->begin_file(path, mode, content.size()));
    ASSERT_TRUE(writer_->write(content));
    ASSERT_TRUE(writer_->end_file());
  }
  void link(const std::string& path, const std::string& target) {
    ASSERT_TRUE(writer_->add_symlink(path, target));
  }
  void tree() {
    file("app.py");
    file("lib/a.py");
    file("lib/b.txt");
    file("lib/deep/c.py");
    file("README.md");
    ASSERT_TRUE(writer_->add_dir("lib/empty", 0700));
    context_ = writer_->finish();
  }
  Result<CopySelection> select(std::vector<std::string> sources, std::string_view ignore = "",
                               std::vector<std::string> excludes = {}) {
    if (!context_) context_ = writer_->finish();
    return select_sources(*context_, *wire::IgnoreRules::parse(ignore),
                          {.sources = std::move(sources), .excludes = std::move(excludes)},
                          Deadline::in(std::chrono::minutes(1)));
  }
  // "from>to", '!' for a named file.
  std::string chosen(std::vector<std::string> sources, std::string_view ignore = "",
                     std::vector<std::string> excludes = {}) {
    const auto selection = select(std::move(sources), ignore, std::move(excludes));
    if (!selection) return "error: " + selection.error().message;
    return shown(*selection);
  }
  static std::string shown(const CopySelection& selection) {
    std::string out;
    for (const CopyItem& item : selection.items)
      out += (out.empty() ? "" : " ") + item.path + ">" + item.to + (item.named ? "!" : "");
    return out;
  }

  std::unique_ptr<ContextWriter> writer_;
  std::unique_ptr<BuildContext> context_;
};

TEST_F(CopySources, FilesAndDirectories) {
  tree();
  EXPECT_EQ(chosen({"app.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"./app.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"/app.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"../app.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"lib/a.py", "app.py"}), "lib/a.py>a.py! app.py>app.py!");
  const std::string lib =
      "> lib/a.py>a.py lib/b.txt>b.txt lib/deep>deep lib/deep/c.py>deep/c.py lib/empty>empty";
  EXPECT_EQ(chosen({"lib"}), lib);
  EXPECT_EQ(chosen({"lib/"}), lib);
  EXPECT_EQ(chosen({"lib/."}), lib);
  EXPECT_EQ(chosen({"."}),
            "> README.md>README.md app.py>app.py lib>lib lib/a.py>lib/a.py lib/b.txt>lib/b.txt "
            "lib/deep>lib/deep lib/deep/c.py>lib/deep/c.py lib/empty>lib/empty");
  EXPECT_EQ(chosen({"/"}), chosen({"."}));
  EXPECT_THAT(chosen({"nothing"}), HasSubstr("'nothing' is not in the context"));
  EXPECT_THAT(chosen({"app.py/x"}), HasSubstr("is not in the context"));
}

TEST_F(CopySources, Patterns) {
  tree();
  EXPECT_EQ(chosen({"*.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"lib/*.py"}), "lib/a.py>a.py!");
  EXPECT_EQ(chosen({"lib/*"}), "> lib/a.py>a.py! lib/b.txt>b.txt! lib/deep/c.py>c.py");
  EXPECT_EQ(chosen({"*/a.py"}), "lib/a.py>a.py!");
  EXPECT_EQ(chosen({"app.??"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"[a-z]*.py"}), "app.py>app.py!");
  EXPECT_EQ(chosen({"app.py", "optional*"}), "app.py>app.py!");
  EXPECT_THAT(chosen({"*.rs"}), HasSubstr("no file of the context matches '*.rs'"));
  EXPECT_THAT(chosen({"["}), HasSubstr("not closed"));
}

TEST_F(CopySources, IgnoredFiles) {
  tree();
  EXPECT_EQ(chosen({"."}, "lib\n*.md"), "> app.py>app.py");
  EXPECT_EQ(chosen({"lib"}, "**/*.py"), "> lib/b.txt>b.txt lib/deep>deep lib/empty>empty");
  EXPECT_EQ(chosen({"."}, "lib\n!lib/deep/c.py\n*.md"),
            "> app.py>app.py lib>lib lib/deep>lib/deep lib/deep/c.py>lib/deep/c.py");
  EXPECT_EQ(chosen({"lib"}, "lib\n!lib/b.txt"), "> lib/b.txt>b.txt");
  EXPECT_EQ(chosen({"*.py", "*.md"}, "*.md"), "app.py>app.py!");
  EXPECT_THAT(chosen({"app.py"}, "*.py"), HasSubstr(".dockerignore leaves it out"));
  EXPECT_THAT(chosen({"lib"}, "lib"), HasSubstr(".dockerignore leaves it out"));
}

TEST_F(CopySources, Excludes) {
  tree();
  EXPECT_EQ(chosen({"lib"}, "", {"*.py"}),
            "> lib/b.txt>b.txt lib/deep>deep lib/deep/c.py>deep/c.py lib/empty>empty");
  EXPECT_EQ(chosen({"lib"}, "", {"**/*.py", "empty"}), "> lib/b.txt>b.txt lib/deep>deep");
  EXPECT_EQ(chosen({"lib"}, "", {"*", "!b.txt"}), "> lib/b.txt>b.txt");
}

TEST_F(CopySources, LinksAreFollowedWhenNamed) {
  file("real/f");
  link("l", "real/f");
  link("d", "real");
  link("chain", "d/../l");
  link("loop", "loop");
  link("real/up", "../real/f");
  EXPECT_EQ(chosen({"l"}), "real/f>l!");
  EXPECT_EQ(chosen({"d"}), "> real/f>f real/up>up");
  EXPECT_EQ(chosen({"d/f"}), "real/f>f!");
  EXPECT_EQ(chosen({"chain"}), "real/f>chain!");
  EXPECT_EQ(chosen({"real/up"}), "real/f>up!");
  EXPECT_THAT(chosen({"loop"}), HasSubstr("too many symbolic links"));
}

TEST_F(CopySources, LaterSourcesWin) {
  file("one/f", "1");
  file("two/f", "2");
  file("three/f/g", "3");
  EXPECT_EQ(chosen({"one", "two"}), "> two/f>f");
  EXPECT_THAT(chosen({"one", "three"}), HasSubstr("one as a directory"));
}

TEST_F(CopySources, InOrderEachSourceIsKept) {
  file("z.tar");
  file("a.tar");
  file("other/z.tar");
  file("dir/x");
  context_ = writer_->finish();
  const CopyQuery query{.sources = {"z.tar", "a.tar", "dir", "other/*"}, .in_order = true};
  const auto selection = select_sources(*context_, *wire::IgnoreRules::parse(""), query,
                                        Deadline::in(std::chrono::minutes(1)));
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(shown(*selection), "z.tar>z.tar! a.tar>a.tar! > dir/x>x other/z.tar>z.tar!");
}

TEST_F(CopySources, DigestsKnowContentsModesAndNames) {
  const auto digest = [](const std::string& path, std::string_view content, std::uint32_t mode,
                         const std::string& source) {
    auto writer = ContextWriter::create(testing::TempDir(), {});
    EXPECT_TRUE((*writer)->begin_file(path, mode, content.size()));
    EXPECT_TRUE((*writer)->write(content));
    EXPECT_TRUE((*writer)->end_file());
    const auto selection = select_sources(*(*writer)->finish(), {}, {.sources = {source}},
                                          Deadline::in(std::chrono::minutes(1)));
    EXPECT_TRUE(selection);
    return selection->digest;
  };
  const std::string first = digest("d/f", "x", 0644, "d");
  EXPECT_EQ(digest("d/f", "x", 0644, "d"), first);
  EXPECT_EQ(digest("other/f", "x", 0644, "other"), first);  // what arrives is the same
  EXPECT_NE(digest("d/f", "y", 0644, "d"), first);
  EXPECT_NE(digest("d/f", "x", 0600, "d"), first);
  EXPECT_NE(digest("d/g", "x", 0644, "d"), first);
  EXPECT_NE(digest("d/f", "x", 0644, "d/f"), first);
}

TEST_F(CopySources, HasADeadline) {
  tree();
  const auto late =
      select_sources(*context_, {}, {.sources = {"."}}, Deadline::in(std::chrono::nanoseconds(0)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timeout);
  // Also while it looks whether an exception keeps something of a directory.
  const auto inside =
      select_sources(*context_, *wire::IgnoreRules::parse("lib\n!lib/none"), {.sources = {"lib"}},
                     Deadline::in(std::chrono::nanoseconds(0)));
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().code, Code::timeout);
}

}  // namespace
}  // namespace firebreak::image
