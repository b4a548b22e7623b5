#include "control/warm_pool.h"

#include <algorithm>

#include "control/host_limits.h"
#include "egress/networks.h"

namespace firebreak::control {
namespace {

constexpr auto kMakeDeadline = std::chrono::seconds(120);
constexpr auto kEndDeadline = std::chrono::seconds(20);
constexpr core::Seconds kForgetAfter{3600};
constexpr core::Millis kLookAgain{500};
constexpr core::Millis kWaitForOthers{50};
constexpr std::uint32_t kRowWithoutNetwork = 3;
// While it is made, a clone gets the CPU that nobody else wants.
constexpr machine::HostLimits kBackground{.memory_bytes = 0, .cpu_weight = 1, .cpu_percent = 0};

}  // namespace

void WarmPool::keep(const core::ImageVersion& version, const core::SizeClass& size, bool pinned) {
  auto [at, added] = kept_.try_emplace(key(version));
  at->second.version = version;
  at->second.size = size;
  at->second.pinned = at->second.pinned || pinned;
  if (added) at->second.last_launch = needs_.clock.now();
  wanted_.notify();
}

std::optional<WarmPool::Clone> WarmPool::take(const core::ImageVersion& version,
                                              const core::SizeClass& size, bool network) {
  keep(version, size, false);
  Kept& kept = kept_[key(version)];
  const core::Time now = needs_.clock.now();
  kept.demand.launched(now);
  kept.last_launch = now;
  kept.without_network = network ? 0 : kept.without_network + 1;
  auto best = kept.clones.end();
  for (auto at = kept.clones.begin(); at != kept.clones.end(); ++at) {
    if (at->network == network) {
      best = at;
      break;
    }
    if (at->network && best == kept.clones.end()) best = at;
  }
  if (best == kept.clones.end()) return std::nullopt;
  Clone clone = std::move(*best);
  kept.clones.erase(best);
  note_size();
  return clone;
}

void WarmPool::give_back(const core::ImageVersion& version, Clone clone) {
  // keep() was called by the take() before; a drop meanwhile only means that it is not refilled.
  auto [at, added] = kept_.try_emplace(key(version));
  if (added) at->second.version = version;
  at->second.clones.push_front(std::move(clone));
  note_size();
}

net::Task<void> WarmPool::drop(const core::ImageVersion& version) {
  auto at = kept_.find(key(version));
  if (at == kept_.end()) co_return;
  std::deque<Clone> clones = std::move(at->second.clones);
  kept_.erase(at);
  note_size();
  for (Clone& clone : clones) co_await discard(std::move(clone.machine));
}

net::Task<void> WarmPool::keep_only(std::set<Key> versions) {
  std::vector<core::ImageVersion> others;
  for (const auto& [k, kept] : kept_)
    if (!versions.contains(k)) others.push_back(kept.version);
  for (const core::ImageVersion& version : others) co_await drop(version);
}

void WarmPool::note_size() {
  std::size_t size = 0;
  for (const auto& [k, kept] : kept_) size += kept.clones.size();
  needs_.metrics.set("firebreak_pool_size", "", static_cast<double>(size));
}

std::vector<WarmPool::Parked> WarmPool::parked() const {
  std::vector<Parked> list;
  for (const auto& [k, kept] : kept_) {
    for (const Clone& clone : kept.clones)
      list.push_back({clone.machine->id(), clone.resident_bytes, clone.since});
  }
  return list;
}

std::set<std::string> WarmPool::ids() const {
  std::set<std::string> ids;
  if (!making_.empty()) ids.insert(making_);
  for (const auto& [k, kept] : kept_) {
    for (const Clone& clone : kept.clones) ids.insert(clone.machine->id());
  }
  for (const auto& made : made_) {
    if (auto machine = made.lock()) ids.insert(machine->id());
  }
  return ids;
}

net::Task<void> WarmPool::evict(std::string id) {
  for (auto& [k, kept] : kept_) {
    auto at = std::ranges::find_if(kept.clones,
                                   [&id](const Clone& clone) { return clone.machine->id() == id; });
    if (at == kept.clones.end()) continue;
    auto machine = std::move(at->machine);
    kept.clones.erase(at);
    note_size();
    co_await discard(std::move(machine));
    co_return;
  }
}

// ------------------------------------------------------------------------------------ make, refill

bool WarmPool::is_stale(const Kept& kept, core::Time now) {
  return !kept.pinned && kept.last_launch + kForgetAfter < now;
}

std::uint32_t WarmPool::target_of(Kept& kept, core::Time now) const {
  const auto engine = needs_.engines.get(kept.version.engine);
  if (!engine || !(*engine)->features().contains(machine::Feature::park)) return 0;
  // Nobody launched it for long: its memory is worth more elsewhere.
  if (is_stale(kept, now) || has_newer(kept.version)) return 0;
  return kept.demand.target(needs_.options.pool, now);
}

// Versions of an image are neighbours in the map, the newest last.
bool WarmPool::has_newer(const core::ImageVersion& version) const {
  const auto next = kept_.upper_bound(key(version));
  return next != kept_.end() && next->first.first == version.image;
}

void WarmPool::forget_stale() {
  const core::Time now = needs_.clock.now();
  std::erase_if(kept_, [now](const auto& entry) {
    return entry.second.clones.empty() && is_stale(entry.second, now);
  });
}

bool WarmPool::wants_network(const Kept& kept) const {
  if (needs_.networks == nullptr) return false;
  const auto engine = needs_.engines.get(kept.version.engine);
  if (!engine || !(*engine)->features().contains(machine::Feature::network)) return false;
  if (kept.demand.empty()) return kept.version.egress != core::kNoEgress;
  return kept.without_network < kRowWithoutNetwork;
}

net::Task<Result<>> WarmPool::ready(machine::Machine& machine, const core::SizeClass& size,
                                    bool network, Deadline deadline) {
  needs_.steps.reach("pool.restored");
  if (network) FB_CO_TRY(co_await needs_.networks->prepare(machine.id()));
  FB_CO_TRY(co_await machine.rehearse(deadline));
  FB_CO_TRY(co_await machine.park(deadline));
  needs_.steps.reach("pool.parked");
  // It stands still; a launch finds it with the limits that it will run under.
  co_return machine.set_limits(host_limits(size));
}

net::Task<Result<WarmPool::Clone>> WarmPool::make(const core::ImageVersion& version,
                                                  const core::SizeClass& size, std::string id,
                                                  bool network) {
  const Deadline deadline = Deadline::in(kMakeDeadline);
  FB_CO_TRY_ASSIGN(machine::Engine* const engine, needs_.engines.get(version.engine));
  FB_CO_TRY_ASSIGN(auto snapshot,
                   co_await needs_.catalogue.load(core::snapshot_of(version), deadline));
  const machine::LaunchSpec spec{.id = id, .limits = kBackground, .network = network};
  FB_CO_TRY_ASSIGN(std::shared_ptr<machine::Machine> machine,
                   co_await engine->restore(snapshot, spec, deadline));
  std::erase_if(made_, [](const auto& other) { return other.expired(); });
  made_.push_back(machine);
  if (auto parked = co_await ready(*machine, size, network, deadline); !parked) {
    co_await discard(std::move(machine));
    co_return std::unexpected(parked.error());
  }
  const auto usage = machine->usage();
  co_return Clone{.machine = std::move(machine),
                  .network = network,
                  .since = needs_.clock.now(),
                  .resident_bytes = usage ? usage->memory_bytes : 0};
}

net::Task<void> WarmPool::discard(std::shared_ptr<machine::Machine> machine) {
  const Deadline deadline = Deadline::in(kEndDeadline);
  if (needs_.networks != nullptr) co_await needs_.networks->dismiss(machine->id(), deadline);
  (void)co_await machine->terminate(deadline);
}

// Makes the clone that is missed most; false when nothing is missing or there is no room.
net::Task<bool> WarmPool::refill_one() {
  const core::Time now = needs_.clock.now();
  Kept* most = nullptr;
  double worst = 1;
  for (auto& [k, kept] : kept_) {
    const std::uint32_t target = target_of(kept, now);
    if (target == 0 || kept.clones.size() >= target || kept.retry_at > now) continue;
    const double filled = static_cast<double>(kept.clones.size()) / target;
    if (filled < worst) {
      worst = filled;
      most = &kept;
    }
  }
  if (most == nullptr || !has_room_()) co_return false;
  const core::ImageVersion version = most->version;
  making_ = core::new_microvm_id().str();
  auto made = co_await make(version, core::SizeClass(most->size), making_, wants_network(*most));
  making_.clear();
  auto at = kept_.find(key(version));  // may have been dropped meanwhile
  if (at == kept_.end() || stopping_) {
    if (made) co_await discard(std::move(made->machine));
    co_return true;
  }
  if (made) {
    at->second.failures = 0;
    at->second.clones.push_back(*std::move(made));
    note_size();
  } else {
    at->second.failures = std::min(at->second.failures + 1, 6);
    at->second.retry_at = needs_.clock.now() + core::Seconds(1 << at->second.failures);
    needs_.log.warn("pool", {{"image", version.image.str()}, {"error", made.error().text()}});
  }
  co_return true;
}

std::optional<WarmPool::Clone> WarmPool::surplus() {
  const core::Time now = needs_.clock.now();
  for (auto& [k, kept] : kept_) {
    if (kept.clones.empty()) continue;
    auto extra = kept.clones.size() > target_of(kept, now) ? std::prev(kept.clones.end())
                                                           : kept.clones.end();
    if (extra == kept.clones.end() && wants_network(kept))
      extra = std::ranges::find(kept.clones, false, &Clone::network);
    if (extra == kept.clones.end()) continue;
    Clone clone = std::move(*extra);
    kept.clones.erase(extra);
    note_size();
    return clone;
  }
  return std::nullopt;
}

net::Task<void> WarmPool::run() {
  running_ = true;
  while (!stopping_) {
    if (auto extra = surplus()) co_await discard(std::move(extra->machine));
    forget_stale();
    const bool may = !foreground_.any() && paused_until_.passed();
    const bool worked = may && co_await refill_one();
    if (!worked) co_await needs_.pauses.pause(may ? kLookAgain : kWaitForOthers, wanted_);
  }
  running_ = false;
  ended_.notify();
}

net::Task<void> WarmPool::stop(Deadline deadline) {
  stopping_ = true;
  wanted_.notify();
  while (running_ && !deadline.passed()) (void)co_await ended_.wait(deadline);
  for (const std::string& id : ids()) co_await evict(id);
}

}  // namespace firebreak::control
