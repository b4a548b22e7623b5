// A microVM that is not TERMINATED, as control holds it: its durable record, its machine while it
// has one, what it does and has used. Owned by LiveMicrovms; one executor. Two rules hold for all
// of it: the record changes only after the store has it (Journal), and a state changes only with
// `turn` held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/admission.h"
#include "core/model.h"
#include "core/size.h"
#include "machine/engine.h"
#include "net/broadcast.h"
#include "net/semaphore.h"

namespace firebreak::control {

// What a microVM has used since its meter was last advanced, and when it was looked at.
struct Consumption {
  core::Activity activity;
  core::Meter meter;
  std::uint64_t bytes_in = 0;  // since the meter was last advanced
  std::uint64_t bytes_out = 0;
  std::uint64_t memory_bytes = 0;  // resident, when last looked at
  std::uint64_t stored_bytes = 0;  // on disk, while suspended
};

// The application's output, as far as it is in the log of the host.
struct AppOutput {
  explicit AppOutput(const net::asio::any_io_executor& executor) : changed(executor) {}
  std::uint64_t offset = 0;
  bool ended = false;  // and everything that it printed is logged
  net::Event changed;
};

class LiveMicrovm {
 public:
  LiveMicrovm(const net::asio::any_io_executor& executor, core::Microvm microvm,
              core::ImageVersion image_version, core::SizeClass size_class)
      : changed(executor),
        turn(executor),
        waking_turn(executor),
        app(executor),
        record_(std::move(microvm)),
        version_(std::move(image_version)),
        size_(size_class) {}

  const core::Microvm& record() const { return record_; }  // as last written to the store
  const core::ImageVersion& version() const { return version_; }
  const core::SizeClass& size() const { return size_; }
  core::MicrovmState state() const { return record_.state; }
  const core::MicrovmId& id() const { return record_.id; }
  const core::TenantId& tenant() const { return record_.tenant; }

  // The store has it: called by the Journal alone.
  void written(core::Microvm record) { record_ = std::move(record); }

  // None while it is suspended, and before its launch has one. Whoever waits compares it afterwards
  // with what it was.
  const std::shared_ptr<machine::Machine>& machine() const { return machine_; }
  void set_machine(std::shared_ptr<machine::Machine> machine) { machine_ = std::move(machine); }
  void forget_machine() { machine_.reset(); }

  // --- what is under way beside its record. Each is set by one part only.
  // terminate() waits for its turn: what runs gives up. Never taken back.
  void ask_end() { end_asked_ = true; }
  bool end_asked() const { return end_asked_; }
  // It has to end for this reason, and the store does not say so yet because it could not be
  // written: the ticker tries again. Nothing once TERMINATING is written.
  void must_end(std::string why) { unended_ = std::move(why); }
  void end_is_written() { unended_.reset(); }
  const std::optional<std::string>& unended() const { return unended_; }
  // SUSPENDED, and the host's room for it is taken: it is about to be resumed. It counts as having
  // a process. Set by Waking.
  void set_waking(bool waking) { waking_ = waking; }
  bool waking() const { return waking_; }
  // The ticker suspends or ends it: it starts nothing else. Set by the Ticker.
  void set_acting(bool acting) { acting_ = acting; }
  bool acting() const { return acting_; }
  // TERMINATING, and its last hook runs: its credentials still work. Set by Ending.
  void set_in_last_hook(bool runs) { in_last_hook_ = runs; }
  bool in_last_hook() const { return in_last_hook_; }
  // Its guest stood still for want of disk when the ticker last looked.
  void set_out_of_disk(bool stands) { out_of_disk_ = stands; }
  bool out_of_disk() const { return out_of_disk_; }
  // When its guest needs other credentials.
  void set_refresh_at(core::Time at) { refresh_at_ = at; }
  core::Time refresh_at() const { return refresh_at_; }

  // Or is about to have one.
  bool has_process() const {
    using S = core::MicrovmState;
    return record_.state == S::pending || record_.state == S::running ||
           record_.state == S::suspending || record_.intent == core::Intent::resume || waking_;
  }
  // Its record says that a transition is under way, or should be.
  bool is_under_way() const;
  // A transition ended half-way because the store could not be written, and nobody is at it.
  bool is_unsettled() const { return turn.idle() && is_under_way(); }

  net::Broadcast changed;  // of those who wait for this one: another state, or settled
  net::Mutex turn;         // one transition at a time
  net::Mutex waking_turn;  // one at a time asks for room to resume it
  Consumption used;        // for idling and for the bill
  AppOutput app;

 private:
  friend class LiveMicrovms;
  // As LiveMicrovms has counted it, and nobody else changes it.
  struct Counted {
    core::HostUse use;
    core::MicrovmState state = core::MicrovmState::pending;
    bool out_of_disk = false;
  };

  core::Microvm record_;
  core::ImageVersion version_;
  core::SizeClass size_;
  std::shared_ptr<machine::Machine> machine_;
  bool end_asked_ = false;
  bool waking_ = false;
  bool acting_ = false;
  bool in_last_hook_ = false;
  bool out_of_disk_ = false;
  core::Time refresh_at_{};
  std::optional<std::string> unended_;
  std::optional<Counted> counted_;
};
using LivePtr = std::shared_ptr<LiveMicrovm>;

// What the host gives for it: nothing while it has no process.
core::HostUse use_of(const LiveMicrovm& vm);
// Rounded up.
std::uint64_t to_mib(std::uint64_t bytes);

}  // namespace firebreak::control
