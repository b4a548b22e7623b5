#include "server/server.h"

#include <exception>

#include <unistd.h>

#include "net/loop_lag.h"

namespace firebreak::server {
namespace {

// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);
constexpr auto kDrainTime = std::chrono::seconds(5);
constexpr auto kStopTime = std::chrono::seconds(30);

}  // namespace

Server::Server(ServerConfig config, ServerAddresses addresses, Surroundings surroundings)
    : config_(std::move(config)),
      addresses_(std::move(addresses)),
      surroundings_(std::move(surroundings)),
      exceptions_{surroundings_.log, surroundings_.metrics},
      tasks_(surroundings_.io.get_executor(), exceptions_),
      starting_(surroundings_.io.get_executor(), exceptions_),
      ending_(surroundings_.io.get_executor(), exceptions_) {}

// What blocks may still use what is here.
Server::~Server() {
  surroundings_.pool.join();
}

Result<> Server::open() {
  FB_TRY_ASSIGN(storage_, Storage::open(config_, surroundings_));
  FB_TRY_ASSIGN(hosting_, surroundings_.open_hosting());
  FB_TRY_ASSIGN(control_, ControlRoom::open(config_, surroundings_, *storage_, *hosting_));
  FB_TRY_ASSIGN(doors_, Doors::open(config_, surroundings_, *storage_, *control_));
  return {};
}

void Server::start(std::function<void(const Listeners&)> listening, std::function<void()> ended) {
  ended_ = std::move(ended);
  tasks_.spawn("loop_lag", net::measure_loop_lag(surroundings_.metrics));
  starting_.spawn("start", begin(std::move(listening)));
}

void Server::stop() {
  ending_.spawn("stop", end());
}

// A server that could not start ends; one that an exception kept from it as well.
net::Task<void> Server::begin(std::function<void(const Listeners&)> listening) {
  std::exception_ptr thrown;
  try {
    outcome_ = co_await recover_and_listen();
    if (outcome_) listening(*listeners_);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (stopping_) co_return;  // told to end before it was there
  if (thrown) {
    exceptions_.report("start", "", thrown);
    outcome_ = fail(Code::internal, "an exception ended the server's start; its log says which");
  }
  if (outcome_) co_return;
  (void)co_await tasks_.close(Deadline::in(kCutTime));
  ended_();
}

net::Task<Result<>> Server::recover_and_listen() {
  for (const machine::Engine* engine : hosting_->engines().all()) {
    FB_CO_TRY(co_await storage_->db().run([engine](store::Store& store) {
      return store.record_isolation(engine->name(), engine->isolation());
    }));
  }
  FB_CO_TRY(co_await storage_->load(surroundings_.clock.now()));
  FB_CO_TRY(co_await doors_->load());
  FB_CO_TRY(co_await control_->start());
  if (config_.python_image) co_await control_->begin_python_image(tasks_);
  FB_CO_TRY(co_await doors_->start());
  FB_CO_TRY_ASSIGN(listeners_,
                   Listeners::open(config_, surroundings_, std::move(addresses_), *doors_));
  co_return Result<>();
}

net::Task<void> Server::end() {
  stopping_ = true;
  try {
    co_await end_all();
  } catch (...) {
    exceptions_.report("stop", "", std::current_exception());
  }
  ended_();
}

net::Task<void> Server::end_all() {
  surroundings_.log.info("stopping");
  const Deadline deadline = Deadline::in(kStopTime);
  // A start that is still under way is cut as by a crash, which the next server mends.
  for (net::TaskGroup* group : {&starting_, &tasks_}) {
    if (!co_await group->close(Deadline::in(kCutTime)))
      surroundings_.log.warn("tasks are cut", {{"running", static_cast<int>(group->size())}});
  }
  if (listeners_) co_await listeners_->drain(Deadline::in(kDrainTime));
  co_await doors_->close(Deadline::in(kCutTime));
  co_await control_->stop(deadline);
  hosting_->close();
  ::unlink((config_.data_dir + "/server.json").c_str());
}

}  // namespace firebreak::server
