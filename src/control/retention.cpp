#include "control/retention.h"

#include <set>

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
  // Counters of caps are of hours and days; yesterday's say nothing any more.
  FB_CO_TRY(co_await services.db.run([now](store::Store& store) -> Result<> {
    FB_TRY(store.forget_caps(now - std::chrono::days(2)));
    FB_TRY(store.forget_sessions(now - std::chrono::days(core::kMaxRetentionDays)));
    return {};
  }));
  for (std::uint64_t done = kAtOnce; done == kAtOnce;) {
    FB_CO_TRY_ASSIGN(done, co_await services.db.run([now](store::Store& store) {
      return store.forget_invocations(now, kAtOnce);
    }));
  }
  for (std::uint64_t done = kAtOnce; done == kAtOnce;) {
    FB_CO_TRY_ASSIGN(done, co_await services.db.run([history](store::Store& store) {
      return store.roll_up_usage(history, kAtOnce);
    }));
  }
  co_return Result<>();
}

}  // namespace

net::Task<Result<>> forget_app_logs(Services& services, const LiveMicrovms& live) {
  std::set<core::MicrovmId> known;
  FB_CO_TRY_ASSIGN(const auto ids, co_await services.db.run([](const store::Store& store) {
    return store.microvm_ids();
  }));
  known.insert(ids.begin(), ids.end());
  // One may have been launched meanwhile.
  services.app_log.keep_only(
      [&](const core::MicrovmId& id) { return known.contains(id) || live.find(id) != nullptr; });
  co_return Result<>();
}

net::Task<void> forget_old(Services& services, const LiveMicrovms& live) {
  auto forgotten = co_await forget_records(services, services.clock.now());
  if (forgotten) forgotten = co_await forget_app_logs(services, live);
  if (!forgotten) services.log.error("forget", {{"error", forgotten.error().text()}});
  if (services.networks == nullptr) co_return;
  services.networks->forget(services.options.keep_terminated, [&live](const std::string& id) {
    return live.find(core::MicrovmId(id)) != nullptr;
  });
}

}  // namespace firebreak::control
