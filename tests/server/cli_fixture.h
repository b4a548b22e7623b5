// A server with one microVM, for tests of the command line; and a pseudo-terminal to type in. Test
// code only.
#pragma once

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/server_process.h"

namespace firebreak::testing_support {

class Cli : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_log_format("text");
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
    id = trimmed(server->cli({"run", "python"}).out);
    ASSERT_THAT(id, ::testing::StartsWith("microvm-"));
  }
  static void TearDownTestSuite() { server.reset(); }
  static std::string trimmed(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

  static inline std::unique_ptr<ServerProcess> server;
  static inline std::string id;
};

// A program on the other side of a pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& words) {
    winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    ASSERT_EQ(::write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short cols, unsigned short rows) {
    const winsize size{.ws_row = rows, .ws_col = cols, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(fd_, TIOCSWINSZ, &size);
  }
  // Reads until the text has appeared since the last call; false after a minute.
  bool expect(const std::string& text) { return find(text).has_value(); }
  // The same; what came before the text.
  std::string until(const std::string& text) { return find(text).value_or(""); }
  // Its exit status; -1 when it does not end within a minute, or a signal ends it.
  int wait() {
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 600 && ended == 0; ++i) {
      pollfd more{.fd = fd_, .events = POLLIN, .revents = 0};
      char buffer[4096];
      // What nobody reads would hold it up. Without its last program the terminal is at its end.
      if (::poll(&more, 1, 100) > 0 && ::read(fd_, buffer, sizeof buffer) < 0) ::usleep(10'000);
      ended = ::waitpid(pid_, &status, WNOHANG);
    }
    if (ended == 0) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string& seen() const { return seen_; }

 private:
  std::optional<std::string> find(const std::string& text) {
    for (int i = 0; i < 600; ++i) {
      if (const auto at = seen_.find(text); at != std::string::npos) {
        const std::string before = seen_.substr(0, at);
        seen_.erase(0, at + text.size());
        return before;
      }
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(fd_, buffer, sizeof buffer);
      if (count <= 0) return std::nullopt;
      seen_.append(buffer, static_cast<std::size_t>(count));
    }
    return std::nullopt;
  }

  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
};

}  // namespace firebreak::testing_support
