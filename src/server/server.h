// The server: storage, hosting, control, doors and listeners, opened in that order and ended in the
// other. MicroVMs run on when it has ended, and the next one takes them over. Owned by whoever runs
// it; everything happens on the event loop of its surroundings.
#pragma once

#include <functional>
#include <memory>

#include "net/task_group.h"
#include "obs/exceptions.h"
#include "server/listeners.h"

namespace firebreak::server {

class Server {
 public:
  // The surroundings outlive it.
  Server(ServerConfig config, ServerAddresses addresses, Surroundings surroundings);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Opens everything; nothing is served before start().
  Result<> open();
  // Recovers what an earlier server left, then listens. One that cannot start ends itself.
  // `listening` is called once it serves, `ended` in any case after the last.
  void start(std::function<void(const Listeners&)> listening, std::function<void()> ended);
  // Ends it in good order; a start that is still under way is cut as by a crash.
  void stop();
  // Why it could not start.
  const Result<>& outcome() const { return outcome_; }

  control::Supervisor& supervisor() { return control_->supervisor(); }
  Storage& storage() { return *storage_; }

 private:
  net::Task<void> begin(std::function<void(const Listeners&)> listening);
  net::Task<Result<>> recover_and_listen();
  net::Task<void> end();
  net::Task<void> end_all();

  ServerConfig config_;
  ServerAddresses addresses_;  // until the listeners have them
  Surroundings surroundings_;
  obs::Exceptions exceptions_;
  net::TaskGroup tasks_;
  net::TaskGroup starting_;  // may end the tasks
  net::TaskGroup ending_;    // ends both
  std::function<void()> ended_;
  Result<> outcome_;
  bool stopping_ = false;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<Hosting> hosting_;
  std::unique_ptr<ControlRoom> control_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<Listeners> listeners_;
};

}  // namespace firebreak::server
