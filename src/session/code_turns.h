// Callers of one context in the order they came: a context runs one piece of code at a time, and
// who calls it while another waits for its end is served next. Owned by the server; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/ids.h"
#include "net/semaphore.h"

namespace firebreak::session {

class CodeTurns {
 public:
  explicit CodeTurns(net::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  // Held while its owner waits for the code.
  struct Turn {
    std::shared_ptr<net::Mutex> mutex;  // destroyed after the guard
    net::Mutex::Guard guard;
  };
  // Code::timeout when the deadline passes first.
  net::Task<Result<Turn>> take(core::MicrovmId microvm, std::string context, Deadline deadline) {
    std::erase_if(turns_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<net::Mutex>& known = turns_[{std::move(microvm), std::move(context)}];
    Turn turn{.mutex = known.lock(), .guard = {}};
    if (!turn.mutex) {
      turn.mutex = std::make_shared<net::Mutex>(executor_);
      known = turn.mutex;
    }
    FB_CO_TRY_ASSIGN(turn.guard, co_await turn.mutex->lock(deadline));
    co_return turn;
  }

 private:
  net::asio::any_io_executor executor_;
  std::map<std::pair<core::MicrovmId, std::string>, std::weak_ptr<net::Mutex>> turns_;
};

}  // namespace firebreak::session
