// An engine whose machines are entries in a table, and the services around it, for tests of what
// drives machines. One thread. Its machines have an agent if the test gives the host FakeGuests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "control/counting_outlet.h"
#include "control/limits_gate.h"
#include "control/live_microvm.h"
#include "control/services.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {

// Time that moves only when told: the clock, and the pauses that wait for it.
class SetClock final : public core::Clock, public Pauses {
 public:
  using Pauses::pause;
  core::Time now() const override { return now_; }
  void pass(core::Millis span) {
    now_ += span;
    for (const auto& [at, waiting] : waiting_)
      if (at <= now_) waiting->notify();
  }
  net::Task<void> pause(core::Millis span, net::Event& early) override {
    const auto forget = [this](net::Event* event) {
      std::erase_if(waiting_, [event](const auto& entry) { return entry.second == event; });
    };
    const std::unique_ptr<net::Event, decltype(forget)> waiting(&early, forget);
    waiting_.emplace_back(now_ + span, &early);
    (void)co_await early.wait(Deadline::in(std::chrono::hours(1)));
  }

 private:
  core::Time now_{core::Seconds(1'000'000)};
  std::vector<std::pair<core::Time, net::Event*>> waiting_;
};

// The guests of a fake host: they live on when the server that started them is gone.
class FakeGuests {
 public:
  virtual ~FakeGuests() = default;
  // A new guest, or one from the saved state that save() left.
  virtual net::Task<Result<>> start(const std::string& id) = 0;
  virtual std::unique_ptr<machine::AgentClient> connect(const std::string& id,
                                                        net::asio::any_io_executor executor) = 0;
  virtual void save(const std::string& id) = 0;
  virtual void copy(const std::string& id, const std::string& child) = 0;
  virtual void end(const std::string& id) = 0;
};

// What the fake host holds and what was asked of it.
struct FakeHost {
  std::vector<machine::BootSpec> booted;  // none of them came up
  std::set<std::string> machines;         // alive
  std::set<std::string> suspended;        // saved
  std::set<std::string> awake;            // alive, and woken
  // Asked before and told after every call that changes the host: "restore", "wake", "suspend", ...
  // A call whose `before` fails has changed nothing; one whose `after` fails has done its work.
  std::function<Result<>(std::string_view call, const std::string& id)> before;
  std::function<Result<>(std::string_view call, const std::string& id)> after;
  FakeGuests* guests = nullptr;  // none: the machines have no agent
  std::list<net::Event*> exits;  // of tasks that wait for the end of a process

  // The process of a machine ends by itself.
  void lose(const std::string& id) {
    machines.erase(id);
    awake.erase(id);
    if (guests != nullptr) guests->end(id);
    for (net::Event* waiting : exits) waiting->notify();
  }
  Result<> ask(std::string_view call, const std::string& id) const {
    return before ? before(call, id) : Result<>();
  }
  Result<> tell(std::string_view call, const std::string& id) const {
    return after ? after(call, id) : Result<>();
  }
  int restored = 0;
  int ended = 0;
  bool refuse = false;  // restores fail
  Result<> verified;    // what a look at snapshots says
  machine::Features features{machine::Feature::cut_layers, machine::Feature::fork,
                             machine::Feature::network, machine::Feature::park,
                             machine::Feature::suspend};
  std::map<std::string, machine::ProcessUsage> usage;
};

class FakeSnapshot final : public machine::Snapshot {
 public:
  explicit FakeSnapshot(std::string directory) : directory_(std::move(directory)) {}
  const std::string& directory() const override { return directory_; }
  machine::Size size() const override { return {}; }
  std::uint64_t ram_bytes() const override { return 1 << 20; }

 private:
  std::string directory_;
};

class FakeMachine final : public machine::Machine {
 public:
  FakeMachine(FakeHost& host, std::string id) : host_(host), id_(std::move(id)) {}

  const std::string& id() const override { return id_; }
  machine::Isolation isolation() const override { return machine::Isolation::emulated; }
  machine::Size size() const override { return {}; }
  pid_t pid() const override { return 0; }
  machine::AgentClient& agent() override {
    if (!agent_) std::abort();
    return *agent_;
  }
  // Connects to the guest that its host has for it.
  net::Task<Result<>> connect(bool start) {
    if (host_.guests == nullptr) co_return Result<>();
    if (start) FB_CO_TRY(co_await host_.guests->start(id_));
    agent_ = host_.guests->connect(id_, co_await net::asio::this_coro::executor);
    co_return Result<>();
  }
  const machine::Phases& phases() const override { return phases_; }
  net::Task<Result<>> wake(const machine::Identity&, Deadline deadline) override {
    FB_CO_TRY(host_.ask("wake", id_));
    if (agent_) FB_CO_TRY(co_await agent_->health(deadline));
    host_.awake.insert(id_);
    co_return host_.tell("wake", id_);
  }
  net::Task<Result<>> rehearse(Deadline) override { return done(); }
  net::Task<Result<>> park(Deadline) override { return done(); }
  net::Task<Result<>> unpark(const machine::Identity& identity, Deadline deadline) override {
    FB_CO_TRY(host_.ask("unpark", id_));
    co_return co_await wake(identity, deadline);
  }
  net::Task<Result<>> detach_network() override { return done(); }
  net::Task<Result<>> cut_layer(const std::string&, Deadline) override { return done(); }
  net::Task<Result<>> snapshot(const std::string&, Deadline) override { return done(); }
  net::Task<Result<>> suspend(Deadline) override {
    FB_CO_TRY(host_.ask("suspend", id_));
    if (agent_) agent_->close();
    host_.machines.erase(id_);
    host_.awake.erase(id_);
    host_.suspended.insert(id_);
    if (host_.guests != nullptr) host_.guests->save(id_);
    co_return host_.tell("suspend", id_);
  }
  net::Task<Result<>> fork(const std::vector<std::string>& ids, Deadline) override {
    FB_CO_TRY(host_.ask("fork", id_));
    for (const std::string& id : ids) {
      FB_CO_TRY(host_.ask("fork child", id));
      host_.suspended.insert(id);
      if (host_.guests != nullptr) host_.guests->copy(id_, id);
    }
    co_return host_.tell("fork", id_);
  }
  net::Task<Result<>> terminate(Deadline) override {
    FB_CO_TRY(host_.ask("terminate", id_));
    ++host_.ended;
    if (agent_) agent_->close();
    host_.suspended.erase(id_);
    host_.lose(id_);
    co_return host_.tell("terminate", id_);
  }
  Result<machine::ProcessUsage> usage() const override {
    auto at = host_.usage.find(id_);
    if (at == host_.usage.end()) return fail(Code::not_found, "it has no cgroup");
    return at->second;
  }
  Result<> set_limits(const machine::HostLimits&) override { return {}; }
  bool killed_for_memory() const override { return false; }
  net::Task<bool> wait_exit(Deadline deadline) override {
    FakeHost& host = host_;
    const std::string id = id_;
    net::Event exit(co_await net::asio::this_coro::executor);
    const auto forget = [&host](net::Event* event) { host.exits.remove(event); };
    const std::unique_ptr<net::Event, decltype(forget)> waiting(&exit, forget);
    host.exits.push_back(&exit);
    while (host.machines.contains(id) && !deadline.passed()) (void)co_await exit.wait(deadline);
    co_return !host.machines.contains(id);
  }
  bool out_of_disk() const override { return false; }
  Result<> retry_disk() override { return {}; }

 private:
  static net::Task<Result<>> done() { co_return Result<>(); }

  FakeHost& host_;
  std::string id_;
  machine::Phases phases_;
  std::unique_ptr<machine::AgentClient> agent_;
};

class FakeEngine final : public machine::Engine {
 public:
  using Made = Result<std::unique_ptr<machine::Machine>>;

  explicit FakeEngine(FakeHost& host, std::string name = core::kFirstEngine)
      : host_(host), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  machine::Isolation isolation() const override { return machine::Isolation::emulated; }
  machine::Features features() const override { return host_.features; }

  net::Task<Made> boot(machine::BootSpec spec, Deadline) override {
    host_.booted.push_back(std::move(spec));
    co_return cannot();
  }
  net::Task<Result<std::shared_ptr<machine::Snapshot>>> load(const std::string& directory,
                                                             Deadline) override {
    co_return std::make_shared<FakeSnapshot>(directory);
  }
  net::Task<Made> restore(std::shared_ptr<machine::Snapshot>, machine::LaunchSpec spec,
                          Deadline) override {
    if (host_.refuse) co_return cannot();
    FB_CO_TRY(host_.ask("restore", spec.id));
    ++host_.restored;
    co_return co_await run("restore", spec.id, true);
  }
  net::Task<Made> resume(const std::string& id, Deadline, std::optional<bool>) override {
    FB_CO_TRY(host_.ask("resume", id));
    if (host_.suspended.erase(id) == 0) co_return fail(Code::not_found, "it is not saved");
    co_return co_await run("resume", id, true);
  }
  net::Task<Made> attach(const std::string& id, Deadline) override {
    if (!host_.machines.contains(id)) co_return fail(Code::not_found, "it does not run");
    host_.awake.insert(id);  // a plain agent cannot freeze its guest
    co_return co_await run("attach", id, false);
  }
  net::Task<Result<>> discard(const std::string& id, Deadline) override {
    FB_CO_TRY(host_.ask("discard", id));
    host_.suspended.erase(id);
    host_.lose(id);
    co_return host_.tell("discard", id);
  }
  net::Task<Result<>> unload(const std::string&, Deadline) override { co_return Result<>(); }
  std::vector<machine::HeldSnapshot> held() const override { return {}; }
  Result<machine::DiskContent> snapshot_disk(const std::string&) const override {
    return machine::DiskContent{};
  }
  machine::SnapshotBytes snapshot_bytes(const std::string&) const override { return {}; }
  Result<> verify_snapshot(const std::string&) override { return host_.verified; }
  std::string snapshot_directory(const std::string& name) const override { return "/s/" + name; }
  Result<std::vector<std::string>> snapshots() const override { return std::vector<std::string>(); }
  net::Task<Result<>> remove_snapshot(const std::string&, Deadline) override {
    co_return Result<>();
  }
  Result<std::vector<machine::FoundMachine>> list() const override {
    std::vector<machine::FoundMachine> found;
    for (const std::string& id : host_.machines) found.push_back({.id = id, .process = true});
    for (const std::string& id : host_.suspended) found.push_back({.id = id, .suspended = true});
    return found;
  }
  bool is_suspended(const std::string& id) const override { return host_.suspended.contains(id); }
  std::uint64_t stored_bytes(const std::string&) const override { return 0; }
  std::set<std::string> own_machines() const override { return {}; }
  Result<machine::Inventory> inventory() const override {
    return machine::Inventory{.engine = name_};
  }
  net::Task<Result<>> repair(machine::Leftover, Deadline) override { co_return Result<>(); }

 private:
  net::Task<Made> run(std::string call, std::string id, bool start) {
    host_.machines.insert(id);
    host_.usage.try_emplace(id);
    auto machine = std::make_unique<FakeMachine>(host_, id);
    FB_CO_TRY(co_await machine->connect(start));
    FB_CO_TRY(host_.tell(call, id));
    co_return machine;
  }
  static std::unexpected<Error> cannot() { return fail(Code::internal, "not in this test"); }

  FakeHost& host_;
  std::string name_;
};

// As if the store had it so.
template <class Change>
void rewrite(LiveMicrovm& vm, Change change) {
  core::Microvm record = vm.record();
  change(record);
  vm.written(std::move(record));
}
inline void rewrite_state(LiveMicrovm& vm, core::MicrovmState state) {
  rewrite(vm, [state](core::Microvm& record) { record.state = state; });
}

// Everything that Services names, on a directory of its own.
class FakeWorld : public testing::Test {
 protected:
  FakeWorld() {
    std::filesystem::create_directories(dir_);
    auto store = store::open_sqlite_store({.path = dir_ + "/store.db"});
    EXPECT_TRUE(store) << store.error().text();
    db_.emplace(io_.get_executor(), *std::move(store));
    services_.emplace(Services{.engines = engines_,
                               .db = *db_,
                               .catalogue = catalogue_,
                               .clock = clock_,
                               .pauses = clock_,
                               .log = log_,
                               .metrics = metrics_,
                               .gate = gate_,
                               .outlet = outlet_,
                               .traffic = Traffic(metrics_),
                               .executor = io_.get_executor(),
                               .pool = pool_,
                               .options = {},
                               .steps = Steps(),
                               .app_log = AppLog(io_.get_executor(), dir_ + "/logs"),
                               .changed = net::Broadcast(io_.get_executor())});
  }
  ~FakeWorld() override { std::filesystem::remove_all(dir_); }

  net::asio::io_context io_;
  net::asio::thread_pool pool_{1};
  // In memory: no test here is about the disk.
  std::string dir_ = "/dev/shm/fb-world-" + sys::random_hex(8);
  FakeHost host_;
  FakeEngine engine_{host_};
  machine::Engines engines_{engine_};
  SetClock clock_;
  image::Catalogue catalogue_{engines_, io_.get_executor(), clock_};
  obs::Log log_{2, obs::LogFormat::text, obs::Level::error};
  obs::Metrics metrics_;
  core::TenantLimits limits_;
  LimitsGate gate_{[this](const core::TenantId&) { return &limits_; }, clock_, metrics_};
  CountingOutlet outlet_{metrics_};
  std::optional<store::Database> db_;
  std::optional<Services> services_;
};

}  // namespace firebreak::control
