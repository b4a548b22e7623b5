// Limits how many machines are restored or resumed at a time: more would only share the same CPUs.
// Each tenant's starts wait in a queue of their own, so that no tenant stands behind all starts of
// another. A guest that does not answer keeps its slot for seconds, not for as long as its caller
// waits. Owned by the Lifecycle; one executor.
#pragma once

#include <chrono>
#include <map>
#include <memory>

#include <boost/asio/steady_timer.hpp>

#include "core/ids.h"
#include "net/semaphore.h"

namespace firebreak::control {

class StartSlots {
 public:
  // Given back when it is released or destroyed, and by itself after `most`.
  class Slot {
   public:
    Slot(net::Semaphore::Guard tenant, net::Semaphore::Guard host,
         const net::asio::any_io_executor& executor, std::chrono::milliseconds most);
    Slot(Slot&&) noexcept = default;
    Slot& operator=(Slot&&) = delete;
    ~Slot() { release(); }
    void release();

   private:
    struct Held {
      Held(net::Semaphore::Guard of_tenant, net::Semaphore::Guard of_host)
          : tenant(std::move(of_tenant)), host(std::move(of_host)) {}
      // The host's permit first: a start of another tenant that waits for it comes before this
      // tenant's next.
      void release() {
        host.release();
        tenant.release();
      }
      net::Semaphore::Guard tenant;
      net::Semaphore::Guard host;
    };
    std::shared_ptr<Held> held_;
    net::asio::steady_timer timer_;
  };

  StartSlots(net::asio::any_io_executor executor, std::uint32_t permits,
             std::chrono::milliseconds most);
  ~StartSlots();

  // Code::timeout when the deadline passes first.
  net::Task<Result<Slot>> lock(core::TenantId tenant, Deadline deadline);

 private:
  net::asio::any_io_executor executor_;
  std::uint32_t permits_;
  std::chrono::milliseconds most_;
  net::Semaphore host_;
  std::map<core::TenantId, net::Semaphore> tenants_;
};

}  // namespace firebreak::control
