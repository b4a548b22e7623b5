#include "control/control_world.h"

#include <thread>

#include <gtest/gtest.h>

#include "store/sqlite/sqlite_store.h"

namespace firebreak::testing_support {
namespace {

using core::Hook;
using core::MicrovmState;

constexpr auto kTick = std::chrono::milliseconds(5);
constexpr auto kPatience = std::chrono::seconds(20);

std::string prepared(const std::string& dir) {
  std::filesystem::create_directories(dir);
  // Makes the tables.
  EXPECT_TRUE(store::open_sqlite_store({.path = dir + "/store.db"}));
  return dir + "/store.db";
}

// What the store must say of a microVM before the host is changed for it: "STATE/intent" each.
// An empty word: nothing, because it belongs to nobody (clones of the pool, leftovers).
const std::map<std::string, std::set<std::string>, std::less<>>& written_before() {
  static const std::map<std::string, std::set<std::string>, std::less<>> table{
      {"restore", {"PENDING/launch", ""}},
      {"unpark", {"PENDING/launch"}},
      {"wake", {"PENDING/launch", "PENDING/fork", "SUSPENDED/resume"}},
      {"suspend", {"SUSPENDING/suspend"}},
      {"resume", {"SUSPENDED/resume", "PENDING/fork"}},
      {"fork", {"RUNNING/fork"}},
      {"fork child", {"PENDING/fork"}},
      // PENDING: a parked clone that could not be used; what a launch left that is repeated.
      {"terminate", {"TERMINATING/terminate", "PENDING/launch", ""}},
      {"discard", {"TERMINATING/terminate", "PENDING/launch", "TERMINATED/none", ""}},
      {"hook run", {"PENDING/launch"}},
      {"hook suspend", {"SUSPENDING/suspend"}},
      {"hook resume", {"SUSPENDED/resume", "PENDING/fork"}},
      {"hook terminate", {"TERMINATING/terminate"}},
  };
  return table;
}

}  // namespace

// ------------------------------------------------------------------------------------- the server

ControlWorld::Server::Server(ControlWorld& world)
    : engines(world.engine_),
      catalogue(engines, io.get_executor(), world.clock_),
      gate([&world](const core::TenantId&) { return &world.limits_; }, world.clock_, metrics) {
  auto opened = store::open_sqlite_store({.path = world.dir_ + "/store.db"});
  // A call that blocks a thread of the server before ends a moment after that server's loop.
  const Deadline deadline = Deadline::in(kPatience);
  while (!opened && !deadline.passed()) {
    std::this_thread::sleep_for(kTick);
    opened = store::open_sqlite_store({.path = world.dir_ + "/store.db"});
  }
  EXPECT_TRUE(opened) << opened.error().text();
  db = std::make_unique<store::Database>(io.get_executor(), *std::move(opened));
  services.emplace(
      control::Services{.engines = engines,
                        .db = *db,
                        .catalogue = catalogue,
                        .clock = world.clock_,
                        .pauses = world.clock_,
                        .log = log,
                        .metrics = metrics,
                        .gate = gate,
                        .outlet = outlet,
                        .traffic = control::Traffic(metrics),
                        .executor = io.get_executor(),
                        .pool = pool,
                        .options = world.options_,
                        .steps = control::Steps([&world](std::string_view point) {
                          (void)world.step(std::string(point));
                        }),
                        .app_log = control::AppLog(io.get_executor(), world.dir_ + "/logs"),
                        .data_dir = world.dir_,
                        .changed = net::Broadcast(io.get_executor())});
  supervisor = std::make_unique<control::Supervisor>(*services);
  auto listening = net::HttpServer::listen(
      io.get_executor(), "127.0.0.1:" + std::to_string(world.hook_port_), std::nullopt,
      [&world](net::HttpExchange& exchange) { return world.answer_hook(exchange); });
  EXPECT_TRUE(listening) << listening.error().text();
  hooks = *std::move(listening);
  const std::string address = hooks->address();
  world.hook_port_ = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

ControlWorld::Server::~Server() {
  pool.join();
}

ControlWorld::ControlWorld() : disk_(prepared(dir_)) {
  host_.guests = &agents_;
  host_.before = [this](std::string_view call, const std::string& id) -> Result<> {
    if (crashed_) return fail(Code::internal, "the server is gone");
    expect_written(call, id);
    return step(std::string(call) + " begins");
  };
  host_.after = [this](std::string_view call, const std::string&) {
    return step(std::string(call) + " done");
  };
  options_.budget = {.memory_mib = 65536, .millicpu = 64000};
  options_.pool = {.least = 0, .most = 0};
  options_.tick = kTick;
  start();
  write_image();
}

ControlWorld::~ControlWorld() {
  crash();
  server_.reset();
  std::filesystem::remove_all(dir_);
}

void ControlWorld::start() {
  crashed_ = false;
  harm_at_.reset();
  server_ = std::make_unique<Server>(*this);
  const auto started = run(supervisor().start());
  ASSERT_TRUE(started && *started) << "the server does not start";
}

void ControlWorld::crash() {
  if (!server_) return;
  crashed_ = true;
  disk_.refuse_after(0);
  server_->hooks.reset();
  bool gone = false;
  const auto end = [](Server& server, bool& done) -> net::Task<void> {
    (void)co_await server.tasks.close(Deadline::in(kPatience));
    co_await server.supervisor->stop(Deadline::in(std::chrono::seconds(0)));
    done = true;
  };
  net::asio::co_spawn(server_->io, end(*server_, gone), [](const std::exception_ptr&) {});
  const Deadline deadline = Deadline::in(kPatience);
  server_->io.restart();
  while (!gone && !deadline.passed()) server_->io.run_one_for(kTick);
  EXPECT_TRUE(gone) << "tasks of the server that crashed do not end";
  server_.reset();
  disk_.heal();
}

bool ControlWorld::until(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::in(kPatience);
  server_->io.restart();
  while (!condition() && !crashed_ && !deadline.passed()) {
    const bool idle = server_->io.run_one_for(std::chrono::milliseconds(1)) == 0;
    clock_.pass(idle ? kTick : std::chrono::milliseconds(1));
  }
  return condition();
}

// ------------------------------------------------------------------------------------------- harm

void ControlWorld::watch() {
  steps_.clear();
  harm_at_.reset();
}

void ControlWorld::harm(std::size_t step, Harm harm) {
  watch();
  harm_at_ = step;
  harm_ = harm;
}

Result<> ControlWorld::step(const std::string& name) {
  if (crashed_) throw Crash();
  steps_.push_back(name);
  if (name == refused_) return fail(Code::internal, "a test refused: " + name);
  if (!harm_at_ || steps_.size() - 1 != *harm_at_) return {};
  if (harm_ == Harm::refuse) return fail(Code::internal, "a test refused: " + name);
  crashed_ = true;
  throw Crash();
}

void ControlWorld::expect_written(std::string_view call, const std::string& id) {
  const std::string found = disk_.state_of(id).value_or("");
  const auto at = written_before().find(call);
  ASSERT_NE(at, written_before().end()) << call;
  EXPECT_TRUE(at->second.contains(found))
      << call << " of " << id << " while the store says \"" << found << "\"";
}

net::Task<void> ControlWorld::answer_hook(net::HttpExchange& exchange) {
  const std::string target = exchange.request().target;
  const std::string name = "hook " + target.substr(target.rfind('/') + 1);
  // Most hooks do not say of which microVM they are.
  const auto& states = written_before().at(name);
  EXPECT_TRUE(crashed_ || disk_.any_in(states)) << name << " while nothing is written of it";
  ++held_hooks_;
  while (hooks_held_ && !crashed_) {
    net::Event pause(co_await net::asio::this_coro::executor);
    (void)co_await pause.wait(Deadline::in(kTick));
  }
  --held_hooks_;
  const int status = step(name) ? 200 : 500;
  (void)co_await exchange.reply(status, {}, "", soon());
}

// ------------------------------------------------------------------------------------------ doing

void ControlWorld::write_image() {
  const core::Image image{.id = core::ImageId("image-a"),
                          .tenant = tenant.id,
                          .name = "a",
                          .state = core::ImageState::created};
  core::ImageVersion version{.image = image.id,
                             .number = 1,
                             .state = core::VersionState::successful,
                             .active = true,
                             .memory_mib = 512,
                             .snapshot = "a"};
  version.hooks.port = hook_port_;
  for (const Hook hook : {Hook::run, Hook::suspend, Hook::resume, Hook::terminate})
    version.hooks[hook] = {.enabled = true, .timeout = core::Seconds(20)};
  const auto made = run(db().run([&](store::Store& store) -> Result<> {
    FB_TRY(store.create_tenant(tenant));
    FB_TRY(store.create_image(image));
    return store.create_version(version);
  }));
  ASSERT_TRUE(made && *made) << "the image cannot be written";
}

std::optional<core::MicrovmId> ControlWorld::launch(control::LaunchRequest request) {
  if (request.image.empty()) request.image = "a";
  const auto made = run(supervisor().launch(tenant, std::move(request), soon()));
  if (!made || !*made) return std::nullopt;
  const core::MicrovmId id = (*made)->id;
  (void)run(supervisor().wait_started(tenant.id, id, soon()));
  return id;
}

core::Microvm ControlWorld::record(const core::MicrovmId& id) {
  const auto found = run(supervisor().get(tenant.id, id));
  EXPECT_TRUE(found && *found) << id.str();
  return found && *found ? **found : core::Microvm();
}

std::vector<core::Microvm> ControlWorld::records() {
  const auto page = run(db().run([&](const store::Store& store) {
    return store.list_microvms(tenant.id, {}, {.size = 1000, .token = ""});
  }));
  EXPECT_TRUE(page && *page);
  return page && *page ? (*page)->items : std::vector<core::Microvm>();
}

void ControlWorld::fill(int count) {
  constexpr int kTenants = 100;
  const core::Time now = clock_.now();
  const auto made = run(db().run([&](store::Store& store) -> Result<> {
    for (int i = 0; i < kTenants; ++i) {
      const std::string name = "tenant-" + std::to_string(i);
      FB_TRY(store.create_tenant({core::TenantId(name), name, {}, {}}));
    }
    for (int i = 0; i < count; ++i) {
      core::Microvm vm;
      vm.id = core::MicrovmId("microvm-" + std::to_string(i));
      vm.tenant = core::TenantId("tenant-" + std::to_string(i % kTenants));
      vm.endpoint = core::EndpointId(core::new_uuid());
      vm.image = core::ImageId("image-a");
      vm.image_version = 1;
      vm.memory_mib = 512;
      vm.engine = core::kFirstEngine;
      vm.started = vm.state_since = now;
      FB_TRY(store.create_microvm(vm, {}));
      host_.suspended.insert(vm.id.str());
    }
    return {};
  }));
  ASSERT_TRUE(made && *made) << made->error().text();
  crash();
  disk_.put_to_sleep();
  start();
}

void ControlWorld::change_version(const std::function<void(core::ImageVersion&)>& change) {
  const auto changed = run(db().run([&](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(auto version, store.find_version(core::ImageId("image-a"), 1));
    change(*version);
    return store.update_version(*version);
  }));
  ASSERT_TRUE(changed && *changed) << "the image cannot be changed";
}

void ControlWorld::set_config(std::string config) {
  change_version([&](core::ImageVersion& version) { version.config = config; });
}

void ControlWorld::set_hooks(core::Hooks hooks) {
  change_version([&](core::ImageVersion& version) { version.hooks = hooks; });
}

void ControlWorld::hold_hooks(bool hold) {
  hooks_held_ = hold;
}

void ControlWorld::settle() {
  // Long enough for the ticker to look at everything that is due.
  const core::Time later = clock_.now() + 4 * kTick;
  (void)until([&] { return clock_.now() >= later; });
  const auto settled = [this] {
    for (const control::LivePtr& vm : supervisor().live().all()) {
      const MicrovmState state = vm->state();
      if (state != MicrovmState::running && state != MicrovmState::suspended) return false;
      if (vm->record().intent != core::Intent::none || !vm->turn.idle()) return false;
    }
    return true;
  };
  ASSERT_TRUE(until(settled)) << "a transition does not end";
}

void ControlWorld::expect_settled() {
  settle();
  std::set<std::string> running;
  std::set<std::string> suspended;
  for (const core::Microvm& vm : records()) {
    SCOPED_TRACE(vm.id.str() + " " + std::string(to_string(vm.state)) + ": " + vm.state_reason);
    EXPECT_EQ(vm.intent, core::Intent::none);
    if (vm.state == MicrovmState::running)
      running.insert(vm.id.str());
    else if (vm.state == MicrovmState::suspended)
      suspended.insert(vm.id.str());
    else
      EXPECT_EQ(vm.state, MicrovmState::terminated);
  }
  EXPECT_EQ(host_.machines, running);
  EXPECT_EQ(host_.awake, running);
  EXPECT_EQ(host_.suspended, suspended);
  for (const std::string& id : running) EXPECT_TRUE(agents_.contains(id)) << id;
  EXPECT_LE(agents_.size(), running.size() + suspended.size());
}

}  // namespace firebreak::testing_support
