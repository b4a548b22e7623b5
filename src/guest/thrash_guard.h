// Ends the state in which a tenant has no memory left but what its programs' own pages take, and
// these are read from the disk again and again: the kernel counts that as progress and may go on
// for minutes. Then its OOM killer is called as it would have been. Costs nothing while the limit
// is not met. Owned by the ControlService; control thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "guest/reactor.h"

namespace firebreak::guest {

class ThrashGuard final : private Watcher {
 public:
  // `cgroup` is the tenant's directory.
  static Result<std::unique_ptr<ThrashGuard>> start(Reactor& reactor, int cgroup);
  ThrashGuard(const ThrashGuard&) = delete;
  ThrashGuard& operator=(const ThrashGuard&) = delete;
  ~ThrashGuard() override;

  // What the kernel counts; values.
  struct Sample {
    std::uint64_t limit_hits = 0;
    std::uint64_t kills = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t refaults = 0;
  };
  // Whether the time between two samples was spent so.
  static bool thrashes(const Sample& before, const Sample& after);

 private:
  ThrashGuard(Reactor& reactor, UniqueFd events, UniqueFd stat)
      : reactor_(reactor), events_(std::move(events)), stat_(std::move(stat)) {}
  void on_events(std::uint32_t events) override;
  void look();
  Sample sample() const;

  Reactor& reactor_;
  UniqueFd events_;  // memory.events, which tells that the limit was met
  UniqueFd stat_;
  Reactor::TimerId timer_;
  Sample last_;
  int strikes_ = 0;
};

}  // namespace firebreak::guest
