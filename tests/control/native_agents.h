// The guests of a fake host: for each the agent's program as a plain process, which goes on when
// the server that started it is gone. A saved guest is a process that stands still. Owned by a
// test; one executor at a time.
#pragma once

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "control/fake_engine_test_support.h"

namespace firebreak::testing_support {

class NativeAgents final : public control::FakeGuests {
 public:
  NativeAgents() = default;
  NativeAgents(const NativeAgents&) = delete;
  NativeAgents& operator=(const NativeAgents&) = delete;
  ~NativeAgents() override {
    while (!guests_.empty()) NativeAgents::end(guests_.begin()->first);
  }

  net::Task<Result<>> start(const std::string& id) override {
    if (const auto at = guests_.find(id); at != guests_.end()) {
      ::kill(at->second.pid, SIGCONT);
      co_return Result<>();
    }
    FB_CO_TRY(launch(id));
    const auto agent = connect(id, co_await net::asio::this_coro::executor);
    json::object tenant{{"root", {{"device", "none"}}}};
    if (!app_.empty()) tenant["app"] = json::object{{"argv", {"/bin/sh", "-c", app_}}};
    auto made =
        co_await agent->ctl_call("POST", "/tenant", tenant, Deadline::in(std::chrono::seconds(20)));
    agent->close();
    co_return made ? Result<>() : std::unexpected(made.error());
  }

  std::unique_ptr<machine::AgentClient> connect(const std::string& id,
                                                net::asio::any_io_executor executor) override {
    const auto channel = [&executor](const UniqueFd& fd) {
      net::Channel::Socket socket(executor);
      // A copy: the guest does not notice when a server lets go of it.
      socket.assign(net::asio::local::stream_protocol(), ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
      return net::Channel::start(std::move(socket));
    };
    const Guest& guest = guests_.at(id);
    return std::make_unique<machine::AgentClient>(channel(guest.ctl), channel(guest.data));
  }

  void save(const std::string& id) override { stand_still(id); }
  // A process cannot be copied: the child is a new guest.
  void copy(const std::string&, const std::string&) override {}

  void end(const std::string& id) override {
    const auto at = guests_.find(id);
    if (at == guests_.end()) return;
    ::kill(at->second.pid, SIGKILL);
    ::waitpid(at->second.pid, nullptr, 0);
    guests_.erase(at);
  }

  // From here on it answers nobody.
  void stand_still(const std::string& id) {
    if (const auto at = guests_.find(id); at != guests_.end()) ::kill(at->second.pid, SIGSTOP);
  }
  void go_on(const std::string& id) { ::kill(guests_.at(id).pid, SIGCONT); }
  // A line of shell that new guests run as their application.
  void set_app(std::string shell) { app_ = std::move(shell); }
  std::size_t size() const { return guests_.size(); }
  bool contains(const std::string& id) const { return guests_.contains(id); }

 private:
  struct Guest {
    pid_t pid = -1;
    UniqueFd ctl;
    UniqueFd data;
  };

  Result<> launch(const std::string& id) {
    FB_TRY_ASSIGN(auto ctl, sys::socketpair(SOCK_STREAM));
    FB_TRY_ASSIGN(auto data, sys::socketpair(SOCK_STREAM));
    const std::string ctl_number = std::to_string(ctl.second.get());
    const std::string data_number = std::to_string(data.second.get());
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::fcntl(ctl.second.get(), F_SETFD, 0);
      ::fcntl(data.second.get(), F_SETFD, 0);
      ::execl(FIREBREAK_AGENT, FIREBREAK_AGENT, "--serve-fds", ctl_number.c_str(),
              data_number.c_str(), "--no-boot", nullptr);
      ::_exit(126);
    }
    guests_[id] = {pid, std::move(ctl.first), std::move(data.first)};
    return {};
  }

  std::map<std::string, Guest> guests_;
  std::string app_;
};

}  // namespace firebreak::testing_support
