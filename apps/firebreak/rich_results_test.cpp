#include "rich_results.h"

#include <gtest/gtest.h>

#include "base/sys.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

class RichResults : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/fb-results-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
  }
  void TearDown() override { (void)sys::remove_tree(directory_); }
  std::string read(const std::string& name) {
    return sys::read_file(directory_ + "/" + name).value_or("(missing)");
  }

  std::string directory_;
};

TEST_F(RichResults, AreSavedUnderTheNextFreeName) {
  const std::string png = wire::base64("\x89PNG bytes");
  EXPECT_EQ(save_result(directory_, "png", png), directory_ + "/result-1.png");
  EXPECT_EQ(save_result(directory_, "png", png), directory_ + "/result-2.png");
  EXPECT_EQ(save_result(directory_, "html", "<b>x</b>"), directory_ + "/result-1.html");
  EXPECT_EQ(read("result-1.png"), "\x89PNG bytes");
  EXPECT_EQ(read("result-1.html"), "<b>x</b>");
}

TEST_F(RichResults, NamesFromTheGuestReachNoPath) {
  EXPECT_EQ(save_result(directory_, "../../etc/x", "data!"), directory_ + "/result-1.bin");
  EXPECT_EQ(read("result-1.bin"), "data!");
  // A link that waits under the name is not written through.
  ASSERT_EQ(::symlink("/tmp/fb-not-written", (directory_ + "/result-1.svg").c_str()), 0);
  EXPECT_EQ(save_result(directory_, "svg", "<svg/>"), directory_ + "/result-2.svg");
  EXPECT_FALSE(sys::exists("/tmp/fb-not-written"));
}

TEST_F(RichResults, TheDirectoryIsMade) {
  EXPECT_EQ(save_result(directory_ + "/a/b", "jpeg", "/9g="), directory_ + "/a/b/result-1.jpg");
}

TEST(Pictures, AreForTerminalsThatShowThem) {
  EXPECT_EQ(pictures_of("xterm-kitty", "", false), Pictures::kitty);
  EXPECT_EQ(pictures_of("xterm-256color", "", true), Pictures::kitty);
  EXPECT_EQ(pictures_of("xterm-256color", "iTerm.app", false), Pictures::iterm);
  EXPECT_EQ(pictures_of("xterm-256color", "", false), Pictures::none);
  EXPECT_EQ(pictures_of("tmux-256color", "iTerm.app", true), Pictures::none);
}

TEST(Pictures, CarryOnlyWhatWasDecoded) {
  EXPECT_FALSE(picture_text(Pictures::none, "png", "AAAA"));
  EXPECT_FALSE(picture_text(Pictures::kitty, "jpeg", "AAAA"));
  EXPECT_FALSE(picture_text(Pictures::iterm, "html", "AAAA"));
  EXPECT_EQ(picture_text(Pictures::kitty, "png", "AAAA"), "\x1b_Ga=T,f=100,m=0;AAAA\x1b\\\n");
  // Data that is no base64 does not get to the terminal as it is.
  const auto hostile = picture_text(Pictures::iterm, "png", "\x1b]0;title\a");
  ASSERT_TRUE(hostile);
  EXPECT_EQ(hostile->find("title"), std::string::npos);
  const auto large = picture_text(Pictures::kitty, "png", wire::base64(std::string(5000, 'x')));
  ASSERT_TRUE(large);
  EXPECT_NE(large->find("a=T,f=100,m=1;"), std::string::npos);
  EXPECT_NE(large->find("\x1b_Gm=0;"), std::string::npos);
}

}  // namespace
}  // namespace firebreak::cli
