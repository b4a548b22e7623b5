// Parked clones, ready to be a microVM in milliseconds: per image version as many as recent demand
// asks for, refilled behind the foreground work. A clone belongs to nobody until it is taken; its
// machine's id becomes the microVM's. Owned by the Supervisor; one executor.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/foreground.h"
#include "control/services.h"

namespace firebreak::control {

class WarmPool {
 public:
  // `has_room`: whether the host has memory for one more clone that nobody asked for.
  WarmPool(const Services& services, std::function<bool()> has_room)
      : needs_{services.engines, services.catalogue, services.clock, services.pauses,  services.log,
               services.metrics, services.options,   services.steps, services.networks},
        has_room_(std::move(has_room)),
        wanted_(services.executor),
        ended_(services.executor) {}

  // Nothing is refilled while any is under way.
  ForegroundWork& foreground() { return foreground_; }

  // Keeps clones of this version from now on. `pinned`: also when nobody launches it.
  void keep(const core::ImageVersion& version, const core::SizeClass& size, bool pinned);
  struct Clone {
    std::shared_ptr<machine::Machine> machine;
    bool network = false;  // something is behind its card
    core::Time since{};
    std::uint64_t resident_bytes = 0;  // parked, it holds what it held
  };
  // A parked clone that can have a network if that is wanted, or nothing. Counts as demand either
  // way.
  std::optional<Clone> take(const core::ImageVersion& version, const core::SizeClass& size,
                            bool network);
  // A clone that was taken and not used after all.
  void give_back(const core::ImageVersion& version, Clone clone);
  // No more clones of it.
  net::Task<void> drop(const core::ImageVersion& version);
  // No more clones of any other.
  using Key = std::pair<core::ImageId, std::uint32_t>;
  net::Task<void> keep_only(std::set<Key> versions);

  // Refills until stop() is called.
  net::Task<void> run();
  // Ends every parked clone.
  net::Task<void> stop(Deadline deadline);

  // For the memory budget and for check.
  struct Parked {
    std::string id;
    std::uint64_t resident_bytes = 0;
    core::Time since{};
  };
  std::vector<Parked> parked() const;
  // Of every clone whose machine object lives: the one being made, parked ones, those being ended,
  // and those taken by a launch whose microVM nobody knows yet.
  std::set<std::string> ids() const;
  net::Task<void> evict(std::string id);
  // Under memory pressure nothing is refilled for a while.
  void pause(std::chrono::seconds span) { paused_until_ = Deadline::in(span); }

 private:
  struct Kept {
    core::ImageVersion version;
    core::SizeClass size;
    bool pinned = false;
    core::Demand demand;
    core::Time last_launch{};
    std::uint32_t without_network = 0;  // launches in a row
    std::deque<Clone> clones;
    int failures = 0;
    core::Time retry_at{};
  };
  static Key key(const core::ImageVersion& version) { return {version.image, version.number}; }

  // How many clones of it are wanted: none once nobody has launched it for long.
  std::uint32_t target_of(Kept& kept, core::Time now) const;
  static bool is_stale(const Kept& kept, core::Time now);
  // Of an image only the newest version that is kept has clones: that one is launched by default.
  bool has_newer(const core::ImageVersion& version) const;
  // Forgets the versions that nobody launches and that have no clones left.
  void forget_stale();
  // Whether the next clone of it gets a network. One with a network serves everybody; one without
  // costs the host less and starts sooner, so an image that is only run without gets those.
  bool wants_network(const Kept& kept) const;
  // One clone too many, or one that cannot serve; nothing: all are well.
  std::optional<Clone> surplus();
  net::Task<bool> refill_one();
  net::Task<Result<>> ready(machine::Machine& machine, const core::SizeClass& size, bool network,
                            Deadline deadline);
  net::Task<Result<Clone>> make(const core::ImageVersion& version, const core::SizeClass& size,
                                std::string id, bool network);
  net::Task<void> discard(std::shared_ptr<machine::Machine> machine);
  void note_size();

  struct Needs {
    const machine::Engines& engines;
    image::Catalogue& catalogue;
    const core::Clock& clock;
    Pauses& pauses;
    obs::Log& log;
    obs::Metrics& metrics;
    const ControlOptions& options;
    const Steps& steps;
    egress::Networks* networks;
  };
  Needs needs_;
  ForegroundWork foreground_;
  std::function<bool()> has_room_;
  std::map<Key, Kept> kept_;
  std::string making_;  // id of the clone under way
  std::vector<std::weak_ptr<machine::Machine>> made_;
  net::Event wanted_;
  net::Event ended_;  // run() has
  bool stopping_ = false;
  bool running_ = false;
  Deadline paused_until_ = Deadline::in(std::chrono::seconds(0));
};

}  // namespace firebreak::control
