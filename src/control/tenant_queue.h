// Shares out few places, such as those of builds, among tenants: the tenant with the fewest is
// next, then the tenant that was served longest ago, so that a tenant that asks often does not keep
// others waiting. Of several places one tenant never has all: whoever comes next need not wait for
// the end of something long. And counts how much of something each tenant has at once. Both are
// shared with the guards they give, which may outlive them; one executor.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/ids.h"
#include "net/task.h"

namespace firebreak::control {

class TenantQueue {
  struct State;

 public:
  class Place {
   public:
    Place() = default;
    Place(std::shared_ptr<State> state, core::TenantId tenant)
        : state_(std::move(state)), tenant_(std::move(tenant)) {}
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&& other) noexcept = delete;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

   private:
    std::shared_ptr<State> state_;
    core::TenantId tenant_;
  };

  TenantQueue(const net::asio::any_io_executor& executor, std::uint32_t places);

  // Code::timeout when the deadline passes first, Code::conflict once `gave_up` is true.
  net::Task<Result<Place>> enter(core::TenantId tenant, std::function<bool()> gave_up,
                                 Deadline deadline);
  // Those who wait look again whether they gave up.
  void wake();

 private:
  std::shared_ptr<State> state_;
};

class TenantCount {
  using Counts = std::map<core::TenantId, std::uint32_t>;

 public:
  class Ticket {
   public:
    Ticket() = default;
    Ticket(std::shared_ptr<Counts> counts, core::TenantId tenant);
    Ticket(Ticket&& other) noexcept = default;
    Ticket& operator=(Ticket&& other) noexcept;
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket();

   private:
    std::shared_ptr<Counts> counts_;
    core::TenantId tenant_;
  };

  // `what` is for the message: "builds under way".
  TenantCount(std::string what, std::uint32_t most) : what_(std::move(what)), most_(most) {}
  // Code::exhausted when the tenant has as many as it may.
  Result<Ticket> take(const core::TenantId& tenant);

 private:
  std::string what_;
  std::uint32_t most_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace firebreak::control
