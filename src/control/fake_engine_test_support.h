// An engine whose machines are entries in a table, and the services around it, for tests of what
// drives machines. One thread; its machines have no agent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "control/counting_outlet.h"
#include "control/limits_gate.h"
#include "control/services.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::control {

// Moves only when told.
class SetClock final : public core::Clock {
 public:
  core::Time now() const override { return now_; }
  void pass(core::Millis span) { now_ += span; }

 private:
  core::Time now_{core::Seconds(1'000'000)};
};

// What the fake host holds and what was asked of it.
struct FakeHost {
  std::set<std::string> machines;   // alive
  std::set<std::string> suspended;  // saved
  int restored = 0;
  int ended = 0;
  bool refuse = false;  // restores fail
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
  machine::AgentClient& agent() override { std::abort(); }
  const machine::Phases& phases() const override { return phases_; }
  net::Task<Result<>> wake(const machine::Identity&, Deadline) override { return done(); }
  net::Task<Result<>> rehearse(Deadline) override { return done(); }
  net::Task<Result<>> park(Deadline) override { return done(); }
  net::Task<Result<>> unpark(const machine::Identity&, Deadline) override { return done(); }
  net::Task<Result<>> detach_network() override { return done(); }
  net::Task<Result<>> cut_layer(const std::string&, Deadline) override { return done(); }
  net::Task<Result<>> snapshot(const std::string&, Deadline) override { return done(); }
  net::Task<Result<>> suspend(Deadline) override { return done(); }
  net::Task<Result<>> fork(const std::vector<std::string>&, Deadline) override { return done(); }
  net::Task<Result<>> terminate(Deadline) override {
    ++host_.ended;
    host_.machines.erase(id_);
    return done();
  }
  Result<machine::ProcessUsage> usage() const override {
    auto at = host_.usage.find(id_);
    if (at == host_.usage.end()) return fail(Code::not_found, "it has no cgroup");
    return at->second;
  }
  Result<> set_limits(const machine::HostLimits&) override { return {}; }
  net::Task<bool> wait_exit(Deadline) override { co_return false; }
  bool out_of_disk() const override { return false; }
  Result<> retry_disk() override { return {}; }

 private:
  static net::Task<Result<>> done() { co_return Result<>(); }

  FakeHost& host_;
  std::string id_;
  machine::Phases phases_;
};

class FakeEngine final : public machine::Engine {
 public:
  using Made = Result<std::unique_ptr<machine::Machine>>;

  explicit FakeEngine(FakeHost& host, std::string name = core::kFirstEngine)
      : host_(host), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  machine::Isolation isolation() const override { return machine::Isolation::emulated; }
  machine::Features features() const override { return host_.features; }

  net::Task<Made> boot(machine::BootSpec, Deadline) override { co_return cannot(); }
  net::Task<Result<std::shared_ptr<machine::Snapshot>>> load(const std::string& directory,
                                                             Deadline) override {
    co_return std::make_shared<FakeSnapshot>(directory);
  }
  net::Task<Made> restore(std::shared_ptr<machine::Snapshot>, machine::LaunchSpec spec,
                          Deadline) override {
    if (host_.refuse) co_return cannot();
    ++host_.restored;
    host_.machines.insert(spec.id);
    host_.usage[spec.id] = {};
    co_return std::make_unique<FakeMachine>(host_, spec.id);
  }
  net::Task<Made> resume(const std::string&, Deadline, std::optional<bool>) override {
    co_return cannot();
  }
  net::Task<Made> attach(const std::string&, Deadline) override { co_return cannot(); }
  net::Task<Result<>> discard(const std::string& id, Deadline) override {
    host_.machines.erase(id);
    host_.suspended.erase(id);
    co_return Result<>();
  }
  net::Task<Result<>> unload(const std::string&, Deadline) override { co_return Result<>(); }
  std::vector<machine::HeldSnapshot> held() const override { return {}; }
  Result<machine::DiskContent> snapshot_disk(const std::string&) const override {
    return machine::DiskContent{};
  }
  machine::SnapshotBytes snapshot_bytes(const std::string&) const override { return {}; }
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
  static std::unexpected<Error> cannot() { return fail(Code::internal, "not in this test"); }

  FakeHost& host_;
  std::string name_;
};

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
                               .log = log_,
                               .metrics = metrics_,
                               .gate = gate_,
                               .outlet = outlet_,
                               .traffic = Traffic(metrics_),
                               .executor = io_.get_executor(),
                               .pool = pool_,
                               .options = {},
                               .fault = {},
                               .app_log = AppLog(io_.get_executor(), dir_ + "/logs"),
                               .changed = net::Broadcast(io_.get_executor())});
  }
  ~FakeWorld() override { std::filesystem::remove_all(dir_); }

  net::asio::io_context io_;
  net::asio::thread_pool pool_{1};
  std::string dir_ = std::filesystem::temp_directory_path() / ("fb-world-" + sys::random_hex(8));
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
