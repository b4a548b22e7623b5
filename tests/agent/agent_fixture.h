// The agent as a plain process over two sockets, one per test, with a directory of its own. Test
// code only.
#pragma once

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent_client.h"

namespace firebreak::testing_agent {

class AgentFixture : public testing::Test {
 protected:
  void SetUp() override {
    auto ctl = sys::socketpair(SOCK_STREAM);
    auto data = sys::socketpair(SOCK_STREAM);
    ASSERT_TRUE(ctl && data);
    const std::string ctl_number = std::to_string(ctl->second.get());
    const std::string data_number = std::to_string(data->second.get());
    pid_ = ::fork();
    if (pid_ == 0) {
      ::fcntl(ctl->second.get(), F_SETFD, 0);
      ::fcntl(data->second.get(), F_SETFD, 0);
      // As a background job of a shell: what the agent starts can be interrupted all the same.
      ::signal(SIGINT, SIG_IGN);
      ::execl(FIREBREAK_AGENT, FIREBREAK_AGENT, "--serve-fds", ctl_number.c_str(),
              data_number.c_str(), "--no-boot", nullptr);
      ::_exit(126);
    }
    ctl_fd_ = std::move(ctl->first);
    data_fd_ = std::move(data->first);
    ctl->second.reset();
    data->second.reset();
    ctl_ = std::make_unique<AgentClient>(ctl_fd_.get());
    data_ = std::make_unique<AgentClient>(data_fd_.get());
    ASSERT_TRUE(ctl_->connect());
    ASSERT_TRUE(data_->connect());
    dir_ = std::filesystem::temp_directory_path() / ("fb-agent-" + sys::random_hex(4));
    ASSERT_TRUE(sys::mkdir(dir_, 0700));
  }

  void TearDown() override {
    ctl_fd_.reset();
    data_fd_.reset();
    int status = 0;
    ::waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the agent ended with " << status;
    EXPECT_TRUE(sys::remove_tree(dir_));
  }

  void make_tenant(std::string_view more = "") {
    const std::string body =
        R"({"root":{"device":"none"},"env":{"FROM":"tenant"})" + std::string(more) + "}";
    ASSERT_EQ(ctl_->call("POST", "/tenant", body).status, 200);
  }

  pid_t pid_ = 0;
  UniqueFd ctl_fd_, data_fd_;
  std::unique_ptr<AgentClient> ctl_, data_;
  std::string dir_;
};

}  // namespace firebreak::testing_agent
