// Whether the host can take one more microVM, and making room when it cannot: parked clones first,
// then bases nobody uses, then the microVM longest without activity, of the tenant that holds most,
// is suspended; never one whose policy would not bring it back. Owned by the Supervisor; one
// executor.
#pragma once

#include <utility>

#include "control/live_microvms.h"
#include "control/services.h"
#include "control/suspending.h"
#include "control/warm_pool.h"

namespace firebreak::control {

// Counts as used while it lives: until what it is for is counted itself.
class Room {
 public:
  Room() = default;
  Room(core::HostUse& kept, const core::HostUse& use) : kept_(&kept), use_(use) { *kept_ += use_; }
  Room(Room&& other) noexcept : kept_(std::exchange(other.kept_, nullptr)), use_(other.use_) {}
  Room& operator=(Room&& other) noexcept {
    release();
    kept_ = std::exchange(other.kept_, nullptr);
    use_ = other.use_;
    return *this;
  }
  ~Room() { release(); }
  void release() {
    if (core::HostUse* kept = std::exchange(kept_, nullptr)) *kept -= use_;
  }

 private:
  core::HostUse* kept_ = nullptr;
  core::HostUse use_;
};

class Capacity {
 public:
  Capacity(const Services& services, LiveMicrovms& live, WarmPool& pool, Suspending& suspending)
      : needs_{services.engines,
               services.catalogue,
               services.clock,
               services.metrics,
               services.options,
               live,
               pool,
               suspending} {}

  // Code::unavailable with what ran out when even giving things up does not make room. Others
  // cannot get the same room while the caller keeps it.
  net::Task<Result<Room>> admit(const core::TenantId& tenant, const core::SizeClass& size,
                                Deadline deadline);
  // Gives things up until the host's use fits its budget.
  net::Task<void> relieve();
  core::HostUse use() const;
  // Machines that build images; counted by Builds.
  void add_build(const core::HostUse& use) { builds_ += use; }
  void remove_build(const core::HostUse& use) { builds_ -= use; }
  // Whether memory is left for something that nobody asked for, and for a launch beside it.
  bool has_room() const;

 private:
  // Walks over all microVMs; only when something has to be given up.
  std::vector<core::Reclaimable> candidates() const;
  std::vector<core::Reclaimable> victims_for(core::Shortage shortage, const core::HostUse& now,
                                             const core::TenantId& tenant) const;
  net::Task<void> give_up(std::vector<core::Reclaimable> victims);

  struct Needs {
    const machine::Engines& engines;
    image::Catalogue& catalogue;
    const core::Clock& clock;
    obs::Metrics& metrics;
    const ControlOptions& options;
    LiveMicrovms& live;
    WarmPool& pool;
    Suspending& suspending;
  };
  Needs needs_;
  core::HostUse builds_;
  core::HostUse promised_;  // room that is kept for somebody
};

}  // namespace firebreak::control
