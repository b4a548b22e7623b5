// A guest without a machine: the agent's program as a plain process behind the real client, with a
// gate and an outlet that remember what passed them. "Files of the guest" are files of this host.
// One executor; test code only.
#pragma once

#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "session/guest.h"
#include "session/presence.h"

namespace firebreak::testing_support {

// Lets everything through but the act that a test forbids.
class RecordingGate final : public control::Gate {
 public:
  net::Task<Result<>> ask(control::Ask ask) override {
    asked.push_back(ask.act);
    if (ask.act == forbidden) co_return fail(Code::exhausted, "the gate says no");
    co_return Result<>();
  }
  std::vector<control::Act> asked;
  std::optional<control::Act> forbidden;
};

// Shouts what passes, and keeps the last byte of a stream until its end: whoever reads the bytes
// past the outlet, or forgets the end of a stream, is seen.
class ShoutingOutlet final : public control::Outlet {
 public:
  std::unique_ptr<control::Flow> open(const control::Passage& passage) override {
    return std::make_unique<Shout>(bytes[passage.origin], contexts);
  }
  std::size_t reach(const core::TenantId&) const override { return kReach; }
  void count_traffic(const core::TenantId&, std::uint64_t more) override {
    bytes[control::Origin::traffic] += more;
  }
  static constexpr std::size_t kReach = 3;
  std::map<control::Origin, std::uint64_t> bytes;
  std::string contexts;  // what was only looked at

 private:
  class Shout final : public control::Flow {
   public:
    Shout(std::uint64_t& counted, std::string& contexts) : counted_(counted), contexts_(contexts) {}
    void context(std::string piece) override { contexts_ += piece; }
    std::string pass(std::string piece) override {
      counted_ += piece.size();
      for (char& c : piece) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      kept_ += piece;
      std::string out = kept_.substr(0, kept_.empty() ? 0 : kept_.size() - 1);
      kept_.erase(0, out.size());
      return out;
    }
    std::string end() override { return std::exchange(kept_, {}); }

   private:
    std::uint64_t& counted_;
    std::string& contexts_;
    std::string kept_;
  };
};

// A caller that stays until it is told to go.
class TestCaller final : public session::Presence {
 public:
  explicit TestCaller(const net::asio::any_io_executor& executor) : left_(executor) {}
  net::Task<void> gone() override {
    (void)co_await left_.wait(Deadline::in(std::chrono::minutes(5)));
  }
  void leave() { left_.notify(); }

 private:
  net::Event left_;
};

class NativeGuest : public testing::Test {
 protected:
  NativeGuest() {
    std::filesystem::create_directories(dir_);
    auto ctl = sys::socketpair(SOCK_STREAM);
    auto data = sys::socketpair(SOCK_STREAM);
    const std::string ctl_number = std::to_string(ctl->second.get());
    const std::string data_number = std::to_string(data->second.get());
    pid_ = ::fork();
    if (pid_ == 0) {
      ::fcntl(ctl->second.get(), F_SETFD, 0);
      ::fcntl(data->second.get(), F_SETFD, 0);
      ::execl(FIREBREAK_AGENT, FIREBREAK_AGENT, "--serve-fds", ctl_number.c_str(),
              data_number.c_str(), "--no-boot", nullptr);
      ::_exit(126);
    }
    const auto channel = [this](UniqueFd& fd) {
      net::Channel::Socket socket(io_.get_executor());
      socket.assign(net::asio::local::stream_protocol(), fd.release());
      return net::Channel::start(std::move(socket));
    };
    agent_ = std::make_unique<machine::AgentClient>(channel(ctl->first), channel(data->first));
    record_.id = core::MicrovmId("microvm-1");
    record_.tenant = core::TenantId("123456789012");
    run([this]() -> net::Task<void> {
      auto made = co_await agent_->ctl_call("POST", "/tenant",
                                            json::object{{"root", {{"device", "none"}}}}, soon());
      EXPECT_TRUE(made) << made.error().text();
    });
  }
  ~NativeGuest() override {
    agent_->close();
    agent_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(dir_);
  }

  static Deadline soon() { return Deadline::in(std::chrono::seconds(30)); }

  // Runs the loop until the coroutine is done.
  void run(const std::function<net::Task<void>()>& body) {
    bool done = false;
    std::exception_ptr failure;
    net::asio::co_spawn(io_, body(), [&](std::exception_ptr e) {
      failure = e;
      done = true;
    });
    io_.restart();
    while (!done) io_.run_one();
    if (failure) std::rethrow_exception(failure);
  }

  session::Guest guest() { return {std::make_unique<Hold>(*this), gate_, outlet_}; }

  net::asio::io_context io_;
  std::string dir_ =
      std::filesystem::temp_directory_path() / ("firebreak-session-" + sys::random_hex(8));
  RecordingGate gate_;
  ShoutingOutlet outlet_;
  TestCaller caller_{io_.get_executor()};
  core::Microvm record_;
  std::uint64_t in_ = 0;  // as counted for the bill
  std::uint64_t out_ = 0;

 private:
  class Hold final : public session::Hold {
   public:
    explicit Hold(NativeGuest& owner) : owner_(owner) {}
    const core::Microvm& microvm() const override { return owner_.record_; }
    machine::AgentClient& agent() const override { return *owner_.agent_; }
    void count(std::uint64_t in, std::uint64_t out) const override {
      owner_.in_ += in;
      owner_.out_ += out;
    }

   private:
    NativeGuest& owner_;
  };

  pid_t pid_ = -1;
  std::unique_ptr<machine::AgentClient> agent_;
};

}  // namespace firebreak::testing_support
