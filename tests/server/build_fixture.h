// Builds through the command line and one real server. Test code only.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "server/server_process.h"

namespace firebreak::testing_support {

inline std::string trimmed(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Whether any file below holds the text. Memory images and disks are mostly holes.
inline bool file_holds(const std::string& path, const std::string& text) {
  const auto file = sys::open(path, O_RDONLY);
  if (!file) return false;
  std::string piece(4 << 20, '\0');
  for (off_t at = ::lseek(file->get(), 0, SEEK_DATA); at >= 0;
       at = ::lseek(file->get(), at, SEEK_DATA)) {
    const ssize_t got = ::pread(file->get(), piece.data(), piece.size(), at);
    if (got <= 0) return false;
    const auto size = static_cast<std::size_t>(got);
    if (::memmem(piece.data(), size, text.data(), text.size()) != nullptr) return true;
    // Enough of the piece is read again for a text that lies across its end.
    at += got > static_cast<ssize_t>(text.size()) ? got - static_cast<ssize_t>(text.size()) : got;
  }
  return false;
}

inline bool holds(const std::string& directory, const std::string& text) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           directory, std::filesystem::directory_options::skip_permission_denied)) {
    if (entry.is_regular_file() && file_holds(entry.path(), text)) return true;
  }
  return false;
}

// A directory with a Dockerfile and files.
class Context {
 public:
  explicit Context(const std::string& dockerfile) {
    char path[] = "/tmp/fb-context-XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    path_ = path;
    if (!dockerfile.empty()) put("Dockerfile", dockerfile);
  }
  ~Context() { std::filesystem::remove_all(path_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void put(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
    ::chmod((path_ + "/" + name).c_str(), mode);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Build : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options(options());
    ASSERT_TRUE(server->start()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }
  static std::vector<std::string> options() { return {"--python-image=0", "--networks=0"}; }
  void TearDown() override {
    const Answer report = server->call("POST", "/v1/check");
    EXPECT_EQ(report.text_of("ok"), "true") << report.text;
  }

  static ServerProcess::Output build(const std::string& name, const Context& context,
                                     std::vector<std::string> more = {}) {
    std::vector<std::string> words{"image", "build", name, context.path()};
    words.insert(words.end(), more.begin(), more.end());
    return server->cli(words);
  }
  static std::string in_clone(const std::string& image, const std::string& script) {
    const std::string id = trimmed(server->cli({"run", image}).out);
    const auto done = server->cli({"exec", id, "--", "sh", "-c", script});
    EXPECT_EQ(done.status, 0) << done.err;
    server->cli({"kill", id});
    return done.out;
  }
  // Of builds; parked clones do not count.
  static std::size_t machines() {
    std::size_t count = 0;
    for (const std::string& name : *sys::list_dir(server->data_dir() + "/machines"))
      count += name.starts_with("build-") ? 1 : 0;
    return count;
  }

  static inline std::unique_ptr<ServerProcess> server;
};

}  // namespace firebreak::testing_support
