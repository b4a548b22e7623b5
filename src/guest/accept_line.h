// Connections that wait for room in the accept queue of a listener, in order. Without this they
// would wait in TCP's retries, which come after one, three, seven seconds and in no order. Owned by
// the data side; data thread, which is in the tenant's network namespace.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "base/fd.h"
#include "guest/reactor.h"

namespace firebreak::guest {

// Where a server of the tenant listens: a loopback address and a port.
struct ListenerPlace {
  bool v6 = false;
  std::uint16_t port = 0;
  friend auto operator<=>(const ListenerPlace&, const ListenerPlace&) = default;
};

// Whether one more connection would be taken at once, after `connecting` others that the listener
// has not heard of yet. Also true when nobody listens there, or the kernel does not say: then
// connecting tells.
bool has_room(int sock_diag, const ListenerPlace& place, std::uint32_t connecting);

class AcceptLine {
 public:
  explicit AcceptLine(Reactor& reactor) : reactor_(reactor) {}
  AcceptLine(const AcceptLine&) = delete;
  AcceptLine& operator=(const AcceptLine&) = delete;
  ~AcceptLine() { reactor_.cancel(timer_); }

  // Calls `connect` now or, when those before have had their turn, as soon as there is room. Not at
  // all once `owner` is gone. Each connect() is followed by one settled(), when the connection is
  // there or will never be: on a busy guest that takes a while.
  void enter(const ListenerPlace& place, std::weak_ptr<int> owner, std::function<void()> connect);
  void settled(const ListenerPlace& place);

 private:
  struct Waiting {
    std::weak_ptr<int> owner;
    std::function<void()> connect;
  };
  bool room_at(const ListenerPlace& place);
  void let_go(const ListenerPlace& place, const std::function<void()>& connect);
  void advance();
  void look_again();

  Reactor& reactor_;
  UniqueFd sock_diag_;
  std::map<ListenerPlace, std::deque<Waiting>> lines_;  // none is empty
  std::map<ListenerPlace, std::uint32_t> connecting_;   // none is 0
  Reactor::TimerId timer_{};
};

}  // namespace firebreak::guest
