// Whether guests run on KVM here: by booting one, because a /dev/kvm that opens may still hang
// every guest. The verdict is kept in <data>/probe.json. Values; blocks at most until the deadline
// plus the removal of the attempt, one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "machine/host_checks.h"
#include "machine/qemu/accelerator.h"
#include "machine/scratch_engine.h"

namespace firebreak::machine {

// A verdict holds only for exactly this.
struct VerdictKey {
  std::string kernel;
  std::string qemu;
  std::string cpu;
  std::string guest;  // identity of the files the trial booted
  friend bool operator==(const VerdictKey&, const VerdictKey&) = default;
};

struct Verdict {
  VerdictKey key;
  Accelerator accelerator = Accelerator::tcg;
  std::string reason;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};
std::string to_json_text(const Verdict& verdict);
// nullopt when the text is not a verdict for this key: then it is found anew.
std::optional<Verdict> remembered_verdict(std::string_view text, const VerdictKey& key);

struct AcceleratorChoice {
  Accelerator accelerator = Accelerator::tcg;
  std::string reason;
  std::string repair;  // how to get KVM; empty with KVM
};
Check check_accelerator(const AcceleratorChoice& choice);

// How long a trial boot may take: a guest on a KVM that works needs a second.
inline constexpr std::chrono::seconds kTrialTime{5};

// `qemu_version` as QEMU prints it. `fresh`: tries again whatever was remembered.
AcceleratorChoice choose_accelerator(const HostPaths& paths, const std::string& qemu_version,
                                     bool fresh, Deadline deadline);

}  // namespace firebreak::machine
