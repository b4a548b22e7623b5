#include "client/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

namespace firebreak::client {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

constexpr std::string_view kHostile = "a\nmicrovm-2  RUNNING\x1b[2J\xE2\x80\xAE";
constexpr std::string_view kShown = "a\\nmicrovm-2  RUNNING\\x1b[2J\\u202e";

TEST(Output, ACellIsPartOfOneLine) {
  TextTable table({"ID", "NAME"});
  table.add({"1", std::string(kHostile)});
  table.add({"22", "b"});
  EXPECT_EQ(table.text(), "ID  NAME\n1   " + std::string(kShown) + "\n22  b\n");
}

TEST(Output, LinesAndErrorsAreOneLineEach) {
  CaptureStdout();
  print_line(kHostile);
  EXPECT_EQ(GetCapturedStdout(), std::string(kShown) + "\n");
  CaptureStderr();
  print_error(kHostile);
  EXPECT_EQ(GetCapturedStderr(), "firebreak: " + std::string(kShown) + "\n");
}

TEST(Output, JsonIsEscapedAndStillMeansTheSame) {
  const json::object value{{"name", kHostile}, {"other", "\xC2\x9B\x7f"}};
  CaptureStdout();
  print_json(value);
  const std::string out = GetCapturedStdout();
  EXPECT_EQ(std::ranges::count(out, '\n'), 1);
  for (const char c : out) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << out;
  EXPECT_EQ(*parse_json_object(out), value);
}

std::string read_some(int fd) {
  std::string out(4096, '\0');
  const ssize_t n = ::read(fd, out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

TEST(LogOutput, IsPrintableOnATerminal) {
  int master = -1;
  int slave = -1;
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  const UniqueFd ours(master);
  const UniqueFd terminal(slave);
  termios raw{};
  ASSERT_EQ(::tcgetattr(slave, &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(slave, TCSANOW, &raw), 0);
  LogOutput output(slave);
  ASSERT_TRUE(output.write("\x1b[31mred\x1b[0m\n\xE2\x82"));
  ASSERT_TRUE(output.write("\xAC\tend\r\n\x9b"));
  ASSERT_TRUE(output.finish());
  EXPECT_EQ(read_some(master), "\\x1b[31mred\\x1b[0m\n\xE2\x82\xAC\tend\n\\x9b");
}

TEST(LogOutput, IsAsItIsElsewhere) {
  auto pipe = sys::pipe();
  ASSERT_TRUE(pipe);
  LogOutput output(pipe->second.get());
  ASSERT_TRUE(output.write("\x1b[31mred\r\n\xE2"));
  ASSERT_TRUE(output.finish());
  EXPECT_EQ(read_some(pipe->first.get()), "\x1b[31mred\r\n\xE2");
}

}  // namespace
}  // namespace firebreak::client
