#include "control/start_slots.h"

namespace firebreak::control {

StartSlots::Slot::Slot(net::Semaphore::Guard tenant, net::Semaphore::Guard host,
                       const net::asio::any_io_executor& executor, std::chrono::milliseconds most)
    : held_(std::make_shared<Held>(std::move(tenant), std::move(host))), timer_(executor, most) {
  timer_.async_wait([held = held_](boost::system::error_code ec) {
    if (!ec) held->release();
  });
}

void StartSlots::Slot::release() {
  if (!held_) return;
  held_->release();
  timer_.cancel();
}

StartSlots::StartSlots(net::asio::any_io_executor executor, std::uint32_t permits,
                       std::chrono::milliseconds most)
    : executor_(std::move(executor)), permits_(permits), most_(most), host_(executor_, permits) {}

StartSlots::~StartSlots() = default;

net::Task<Result<StartSlots::Slot>> StartSlots::lock(core::TenantId tenant, Deadline deadline) {
  net::Semaphore& own = tenants_.try_emplace(tenant, executor_, permits_).first->second;
  FB_CO_TRY_ASSIGN(net::Semaphore::Guard of_tenant, co_await own.lock(deadline));
  FB_CO_TRY_ASSIGN(net::Semaphore::Guard of_host, co_await host_.lock(deadline));
  co_return Slot(std::move(of_tenant), std::move(of_host), executor_, most_);
}

}  // namespace firebreak::control
