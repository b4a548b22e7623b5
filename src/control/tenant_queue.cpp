#include "control/tenant_queue.h"

#include "core/limits.h"

namespace firebreak::control {

struct TenantQueue::State {
  struct Waiter {
    Waiter(const net::asio::any_io_executor& executor, core::TenantId of)
        : tenant(std::move(of)), event(executor) {}
    core::TenantId tenant;
    net::Event event;
    bool granted = false;
  };

  // Out of the queue, also when the task that waits is cancelled.
  struct InQueue {
    InQueue(std::shared_ptr<State> of, core::TenantId tenant)
        : state(std::move(of)),
          at(state->waiters.emplace(state->waiters.end(), state->executor, std::move(tenant))) {}
    InQueue(const InQueue&) = delete;
    InQueue& operator=(const InQueue&) = delete;
    ~InQueue() {
      const bool lost = at->granted && !taken;
      const core::TenantId tenant = at->tenant;
      state->waiters.erase(at);
      if (lost) state->leave(tenant);
    }
    std::shared_ptr<State> state;
    std::list<Waiter>::iterator at;
    bool taken = false;
  };

  State(net::asio::any_io_executor on, std::uint32_t places)
      : executor(std::move(on)), free(places), most(places > 1 ? places - 1 : 1) {}

  bool may_have_one(const Waiter& waiter) const {
    const auto has = held.find(waiter.tenant);
    return !waiter.granted && (has == held.end() || has->second < most);
  }

  std::pair<std::uint32_t, std::uint64_t> rank(const Waiter& waiter) const {
    const auto has = held.find(waiter.tenant);
    const auto last = served.find(waiter.tenant);
    return {has == held.end() ? 0 : has->second, last == served.end() ? 0 : last->second};
  }

  void give() {
    while (free > 0) {
      Waiter* next = nullptr;
      for (Waiter& waiter : waiters)
        if (may_have_one(waiter) && (next == nullptr || rank(waiter) < rank(*next))) next = &waiter;
      if (next == nullptr) return;
      --free;
      ++held[next->tenant];
      served[next->tenant] = ++turns;
      next->granted = true;
      next->event.notify();
    }
  }

  void leave(const core::TenantId& tenant) {
    const auto at = held.find(tenant);
    if (--at->second == 0) held.erase(at);
    ++free;
    give();
    // Nobody is left to whom it matters who was served when.
    if (held.empty() && waiters.empty()) served.clear();
  }

  net::asio::any_io_executor executor;
  std::uint32_t free;
  const std::uint32_t most;  // of one tenant
  std::uint64_t turns = 0;
  std::list<Waiter> waiters;  // in the order they came
  std::map<core::TenantId, std::uint32_t> held;
  std::map<core::TenantId, std::uint64_t> served;  // the number of the last turn
};

TenantQueue::Place::~Place() {
  if (state_) state_->leave(tenant_);
}

TenantQueue::TenantQueue(const net::asio::any_io_executor& executor, std::uint32_t places)
    : state_(std::make_shared<State>(executor, places)) {}

net::Task<Result<TenantQueue::Place>> TenantQueue::enter(core::TenantId tenant,
                                                         std::function<bool()> gave_up,
                                                         Deadline deadline) {
  const std::shared_ptr<State> state = state_;
  State::InQueue here(state, tenant);
  state->give();
  while (!here.at->granted) {
    if (gave_up()) co_return fail(Code::conflict, "it was cancelled while it waited for its turn");
    if (deadline.passed())
      co_return fail(Code::timeout, "it waited too long for its turn", Repair{"try again later"});
    (void)co_await here.at->event.wait(deadline);
  }
  here.taken = true;
  co_return Place(state, std::move(tenant));
}

void TenantQueue::wake() {
  for (State::Waiter& waiter : state_->waiters) waiter.event.notify();
}

TenantCount::Ticket::Ticket(std::shared_ptr<Counts> counts, core::TenantId tenant)
    : counts_(std::move(counts)), tenant_(std::move(tenant)) {
  ++(*counts_)[tenant_];
}

TenantCount::Ticket& TenantCount::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(counts_, other.counts_);
  std::swap(tenant_, other.tenant_);
  return *this;
}

TenantCount::Ticket::~Ticket() {
  if (!counts_) return;
  const auto at = counts_->find(tenant_);
  if (--at->second == 0) counts_->erase(at);
}

Result<TenantCount::Ticket> TenantCount::take(const core::TenantId& tenant) {
  const auto at = counts_->find(tenant);
  const std::uint32_t has = at == counts_->end() ? 0 : at->second;
  if (has >= most_) return std::unexpected(core::LimitRefusal{what_, most_, has, {}}.error());
  return Ticket(counts_, tenant);
}

}  // namespace firebreak::control
