// Runs the `firebreak` program as users do, with an environment of its own and without a server.
// Test code only.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "support/environment.h"

namespace firebreak::testing_support {

struct Printed {
  int status = -1;
  std::string out;
  std::string err;
};

inline std::string whole_of(int fd) {
  std::string text;
  char piece[4096];
  for (off_t at = 0;; at = static_cast<off_t>(text.size())) {
    const ssize_t count = ::pread(fd, piece, sizeof piece, at);
    if (count <= 0) return text;
    text.append(piece, static_cast<std::size_t>(count));
  }
}

// A home that nobody else has.
class Program {
 public:
  Program() {
    char path[] = "/tmp/fb-home-XXXXXX";
    if (::mkdtemp(path) != nullptr) home_ = path;
  }
  ~Program() { (void)sys::remove_tree(home_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::string& home() const { return home_; }
  void set(const std::string& variable) { more_.push_back(variable); }

  Printed operator()(std::vector<std::string> words, const std::string& input = "") const {
    words.insert(words.begin(), environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak");
    const UniqueFd in(::memfd_create("in", MFD_CLOEXEC));
    const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
    const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
    (void)sys::write_all(in.get(), input);
    ::lseek(in.get(), 0, SEEK_SET);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
    std::vector<std::string> variables{"HOME=" + home_, "PATH=/usr/bin:/bin",
                                       "FIREBREAK_DATA_DIR=" + home_ + "/none"};
    variables.insert(variables.end(), more_.begin(), more_.end());
    pid_t pid = 0;
    const int failed = ::posix_spawn(&pid, words.front().c_str(), &actions, nullptr,
                                     pointers(words).data(), pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    Printed printed;
    if (failed != 0) return printed;
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (WIFEXITED(status)) printed.status = WEXITSTATUS(status);
    printed.out = whole_of(out.get());
    printed.err = whole_of(err.get());
    return printed;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    for (std::string& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }

  std::string home_;
  std::vector<std::string> more_;
};

}  // namespace firebreak::testing_support
