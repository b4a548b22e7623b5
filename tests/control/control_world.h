// Control without a machine: a supervisor on a real store, a fake engine and real agents, which can
// be harmed at each of its steps and replaced by a new one on the same store and host. A test
// sleeps never: the clock moves a little with every turn of the loop. One thread; test code only.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/sys.h"
#include "control/fake_engine_test_support.h"
#include "control/harmed_store.h"
#include "control/native_agents.h"
#include "control/supervisor.h"
#include "net/http_server.h"

namespace firebreak::testing_support {

// The server ends here, as a crash would end it.
struct Crash {};

class ControlWorld {
 public:
  ControlWorld();
  ControlWorld(const ControlWorld&) = delete;
  ControlWorld& operator=(const ControlWorld&) = delete;
  ~ControlWorld();

  // --- one server after another
  void start();
  // What the server does from here on has no effect; it is gone when this returns.
  void crash();
  control::Supervisor& supervisor() { return *server_->supervisor; }
  store::Database& db() { return *server_->db; }
  control::ControlOptions& options() { return options_; }  // of servers that start from here on
  const obs::Metrics& metrics() const { return server_->metrics; }

  // --- harm
  enum class Harm { crash, refuse };
  // At the step of that number, counted from here.
  void harm(std::size_t step, Harm harm);
  // Every step of that name fails from here on; the empty name ends it.
  void refuse(std::string name) { refused_ = std::move(name); }
  // Hooks are not answered as long as they are held.
  void hold_hooks(bool hold);
  int held_hooks() const { return held_hooks_; }
  // The steps since harm() or watch(): engine calls begun and done, hooks, named steps.
  void watch();
  const std::vector<std::string>& steps() const { return steps_; }
  bool crashed() const { return crashed_; }
  HarmedStore& disk() { return disk_; }
  control::FakeHost& host() { return host_; }
  NativeAgents& agents() { return agents_; }
  control::SetClock& clock() { return clock_; }

  // --- doing
  // What the task returns; nothing when the server crashed before.
  template <class T>
  std::optional<T> run(net::Task<T> task);
  // Lets the server work, and time pass, until it is so or the server crashed.
  bool until(const std::function<bool()>& condition);
  Deadline soon() const { return Deadline::in(patience_); }
  // Callers give up soon from here on: what they wait for cannot come.
  void be_impatient() { patience_ = std::chrono::milliseconds(200); }

  // Launches one and waits for it: RUNNING, unless harm came first.
  std::optional<core::MicrovmId> launch(control::LaunchRequest request = {});
  core::Microvm record(const core::MicrovmId& id);
  std::vector<core::Microvm> records();
  void spawn(net::Task<void> task) { server_->tasks.spawn("test", std::move(task)); }
  // So many more microVMs that sleep, of a hundred other tenants; a new server knows them.
  void fill(int count);
  // Of the image: for launches from here on.
  void set_config(std::string config);
  void set_hooks(core::Hooks hooks);
  // Waits until no transition is under way.
  void settle();
  // settle(), and compares the records with the host: what runs runs
  // awake, what sleeps is saved, what has ended has left nothing, and nothing belongs to nobody.
  void expect_settled();

  const core::Tenant tenant{core::TenantId("tenant-a"), "a", {}, {}};

 private:
  struct Server {
    explicit Server(ControlWorld& world);
    ~Server();
    net::asio::io_context io;
    net::asio::thread_pool pool{1};
    std::unique_ptr<store::Database> db;
    machine::Engines engines;
    image::Catalogue catalogue;
    UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
    obs::Log log{null.get(), obs::LogFormat::text, obs::Level::error};
    obs::Metrics metrics;
    control::LimitsGate gate;
    control::CountingOutlet outlet{metrics};
    std::optional<control::Services> services;
    std::unique_ptr<control::Supervisor> supervisor;
    std::unique_ptr<net::HttpServer> hooks;
    net::TaskGroup tasks{io.get_executor()};  // of the test
  };

  Result<> step(const std::string& name);
  // A call that changes the host finds in the store what is about to be done.
  void expect_written(std::string_view call, const std::string& id);
  net::Task<void> answer_hook(net::HttpExchange& exchange);
  void write_image();
  void change_version(const std::function<void(core::ImageVersion&)>& change);

  // In memory: what a crash of the server leaves does not depend on the disk.
  std::string dir_ = "/dev/shm/fb-control-" + sys::random_hex(8);
  control::SetClock clock_;
  control::FakeHost host_;
  NativeAgents agents_;
  control::FakeEngine engine_{host_};
  core::TenantLimits limits_;
  control::ControlOptions options_;
  std::uint16_t hook_port_ = 0;
  std::unique_ptr<Server> server_;
  HarmedStore disk_;
  std::vector<std::string> steps_;
  std::optional<std::size_t> harm_at_;
  Harm harm_ = Harm::crash;
  std::string refused_;
  bool hooks_held_ = false;
  int held_hooks_ = 0;
  bool crashed_ = false;
  std::chrono::milliseconds patience_ = std::chrono::seconds(20);
};

template <class T>
std::optional<T> ControlWorld::run(net::Task<T> task) {
  // It may outlive this call when the server crashes.
  auto result = std::make_shared<std::optional<T>>();
  const auto keep = [](net::Task<T> work,
                       std::shared_ptr<std::optional<T>> into) -> net::Task<void> {
    into->emplace(co_await std::move(work));
  };
  net::asio::co_spawn(server_->io, keep(std::move(task), result), [](const std::exception_ptr&) {});
  (void)until([&result] { return result->has_value(); });
  if (crashed_) return std::nullopt;
  return std::move(*result);
}

}  // namespace firebreak::testing_support
