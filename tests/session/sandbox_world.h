// Sessions without machines: every microVM of a session is the agent's program as a plain process
// behind the real client, so that code really runs and sessions really share nothing. One executor;
// test code only.
#pragma once

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"
#include "machine/agent_client.h"
#include "session/sandboxes.h"

namespace firebreak::testing_support {

// A process of the agent.
class AgentProcess {
 public:
  explicit AgentProcess(net::asio::io_context& io) {
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
    const auto channel = [&io](UniqueFd& fd) {
      net::Channel::Socket socket(io.get_executor());
      socket.assign(net::asio::local::stream_protocol(), fd.release());
      return net::Channel::start(std::move(socket));
    };
    agent_ = std::make_unique<machine::AgentClient>(channel(ctl->first), channel(data->first));
  }
  ~AgentProcess() {
    agent_->close();
    agent_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  net::Task<Result<>> start() {
    FB_CO_TRY(co_await agent_->ctl_call("POST", "/tenant",
                                        json::object{{"root", {{"device", "none"}}}},
                                        Deadline::in(std::chrono::seconds(30))));
    co_return Result<>();
  }
  machine::AgentClient& client() { return *agent_; }
  void kill() const { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<machine::AgentClient> agent_;
};

class ProcessMachines final : public session::SandboxMachines {
 public:
  struct Entry {
    core::Microvm record;
    core::SandboxSession session;
    std::shared_ptr<AgentProcess> process;
  };

  ProcessMachines(net::asio::io_context& io, control::Services& services)
      : io_(io), services_(services) {}

  net::Task<Result<core::MicrovmId>> launch(core::Tenant tenant, core::SandboxSession session,
                                            Deadline) override {
    ++launched;
    if (!launches) co_return std::unexpected(launches.error());
    FB_CO_TRY(co_await services_.gate.ask({.tenant = tenant.id, .act = control::Act::launch}));
    Entry entry;
    entry.record.id = core::new_microvm_id();
    entry.record.tenant = tenant.id;
    entry.session = session;
    entry.process = std::make_shared<AgentProcess>(io_);
    FB_CO_TRY(co_await entry.process->start());
    const core::MicrovmId id = entry.record.id;
    all[id] = std::move(entry);
    co_return id;
  }
  net::Task<Result<>> verify(core::TenantId, core::MicrovmId, Deadline) override {
    ++verified;
    co_return fit;
  }
  net::Task<Result<session::Guest>> enter(core::TenantId tenant, core::MicrovmId id,
                                          Deadline) override {
    const auto at = all.find(id);
    if (at == all.end() || at->second.record.tenant != tenant)
      co_return fail(Code::conflict, "the microVM has ended");
    co_return session::Guest(std::make_unique<Held>(at->second), services_.gate, services_.outlet);
  }
  net::Task<Result<>> end(core::TenantId, core::MicrovmId id, std::string, Deadline) override {
    all.erase(id);
    co_return Result<>();
  }
  std::uint64_t cpu_seconds(const core::MicrovmId&) const override { return cpu; }
  std::multimap<core::SessionId, core::Microvm> living() const override {
    std::multimap<core::SessionId, core::Microvm> found;
    for (const auto& [id, entry] : all) found.emplace(entry.session.id, entry.record);
    return found;
  }

  std::map<core::MicrovmId, Entry> all;
  int launched = 0;
  int verified = 0;
  Result<> launches;  // what a launch says
  Result<> fit;       // what a look at a microVM says
  std::uint64_t cpu = 0;

 private:
  class Held final : public session::Hold {
   public:
    explicit Held(Entry entry) : entry_(std::move(entry)) {}
    const core::Microvm& microvm() const override { return entry_.record; }
    machine::AgentClient& agent() const override { return entry_.process->client(); }
    void count(std::uint64_t, std::uint64_t) const override {}

   private:
    Entry entry_;
  };

  net::asio::io_context& io_;
  control::Services& services_;
};

// A caller that stays.
class Staying final : public session::Presence {
 public:
  explicit Staying(const net::asio::any_io_executor& executor) : left_(executor) {}
  net::Task<void> gone() override {
    (void)co_await left_.wait(Deadline::in(std::chrono::minutes(10)));
  }
  void leave() { left_.notify(); }

 private:
  net::Event left_;
};

class SandboxWorld : public control::FakeWorld {
 protected:
  SandboxWorld() {
    a_ = tenant("111111111111", "a");
    b_ = tenant("222222222222", "b");
    services_->steps =
        control::Steps([this](std::string_view point) { steps_.emplace_back(point); });
  }
  ~SandboxWorld() override {
    // Tasks that end sessions in the background use what is here.
    run(sandboxes_->stop(Deadline::in(std::chrono::seconds(10))));
  }

  control::Caller tenant(const std::string& id, const std::string& name) {
    const core::Tenant made{core::TenantId(id), name, {}, clock_.now()};
    const auto done = run(db_->run([&](store::Store& store) { return store.create_tenant(made); }));
    EXPECT_TRUE(done) << done.error().text();
    control::Caller caller;
    caller.tenant = made;
    caller.key.id = core::KeyId("AKIA" + name);
    caller.key.tenant = made.id;
    return caller;
  }

  template <class T>
  T run(net::Task<T> task) {
    return control::run_task(io_, std::move(task));
  }
  void run(net::Task<void> task) {
    auto wrapped = [](net::Task<void> inner) -> net::Task<bool> {
      co_await std::move(inner);
      co_return true;
    };
    (void)control::run_task(io_, wrapped(std::move(task)));
  }

  session::CodeAnswer execute(const control::Caller& who, session::CodeRequest request) {
    Staying caller(io_.get_executor());
    auto answer = run(sandboxes_->execute(who, std::move(request), caller));
    EXPECT_TRUE(answer) << answer.error().text();
    return answer ? *answer : session::CodeAnswer{};
  }
  std::vector<core::Invocation> records(const control::Caller& who) {
    return *run(db_->run([&](const store::Store& store) {
      return store.list_invocations(who.tenant.id, {}, std::nullopt, 1000);
    }));
  }
  std::map<std::string, std::uint64_t> counts(const control::Caller& who) {
    const auto found = *run(db_->run(
        [&](const store::Store& store) { return store.cap_counts(who.tenant.id, core::Time{}); }));
    std::map<std::string, std::uint64_t> sums;
    for (const store::CapCount& each : found)
      sums[std::string(to_string(each.dimension))] += each.count;
    return sums;
  }
  // Until the sessions that end in the background have.
  void settle() {
    for (int n = 0; n < 2000 && !machines_.all.empty(); ++n)
      io_.run_one_for(std::chrono::milliseconds(10));
  }
  // As a new server that finds what the old one left.
  void restart() {
    run(sandboxes_->stop(Deadline::in(std::chrono::seconds(10))));
    sandboxes_.emplace(*services_, machines_);
    const auto started = run(sandboxes_->start());
    EXPECT_TRUE(started) << started.error().text();
  }

  control::Caller a_;
  control::Caller b_;
  ProcessMachines machines_{io_, *services_};
  std::vector<std::string> steps_;
  std::optional<session::Sandboxes> sandboxes_{std::in_place, *services_, machines_};
};

}  // namespace firebreak::testing_support
