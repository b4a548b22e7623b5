#include "control/retention.h"

#include "egress/networks.h"

namespace firebreak::control {
namespace {

// One turn of the store: launches do not wait behind all that years have left.
constexpr std::uint32_t kAtOnce = 1000;

net::Task<Result<>> forget_records(Services& services, core::Time now) {
  const core::Time ended = now - services.options.keep_terminated;
  const core::Time history = now - services.options.keep_history;
  FB_CO_TRY(co_await services.db.run(
      [ended](store::Store& store) { return store.forget_terminated(ended); }));
  FB_CO_TRY(co_await services.db.run(
      [history](store::Store& store) { return store.forget_events(history); }));
  for (std::uint64_t done = kAtOnce; done == kAtOnce;) {
    FB_CO_TRY_ASSIGN(done, co_await services.db.run([history](store::Store& store) {
      return store.roll_up_usage(history, kAtOnce);
    }));
  }
  co_return Result<>();
}

}  // namespace

net::Task<void> forget_old(Services& services, const Registry& registry) {
  const core::Seconds keep = services.options.keep_terminated;
  auto forgotten = co_await forget_records(services, services.clock.now());
  if (!forgotten) services.log.error("forget", {{"error", forgotten.error().text()}});
  services.app_log.forget(
      keep, [&registry](const core::MicrovmId& id) { return registry.find(id) != nullptr; });
  if (services.networks == nullptr) co_return;
  services.networks->forget(keep, [&registry](const std::string& id) {
    return registry.find(core::MicrovmId(id)) != nullptr;
  });
}

}  // namespace firebreak::control
