#include "machine/accelerator_probe.h"

#include <cerrno>

#include <sys/utsname.h>

#include "base/json.h"
#include "base/sys.h"

namespace firebreak::machine {
namespace {

constexpr const char* kDevice = "/dev/kvm";

std::string file_identity(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return "-";
  return std::to_string(st.st_size) + "@" + std::to_string(st.st_mtim.tv_sec) + "." +
         std::to_string(st.st_mtim.tv_nsec);
}

VerdictKey key_of_host(const HostPaths& paths, const std::string& qemu_version,
                       const CpuFacts& cpu) {
  utsname host{};
  ::uname(&host);
  return {.kernel = std::string(host.release) + " " + host.version,
          .qemu = qemu_version,
          .cpu = cpu.model,
          .guest = file_identity(paths.kernel()) + " " + file_identity(paths.initramfs()) + " " +
                   file_identity(paths.base_disk())};
}

Result<> boot_on_kvm(const HostPaths& paths, Deadline deadline) {
  FB_TRY_ASSIGN(const auto scratch, ScratchEngine::create(paths, Accelerator::kvm));
  Result<> outcome;
  auto trial = [&]() -> net::Task<void> {
    BootSpec spec{.id = "trial", .disk = {.base = paths.base_disk(), .layers = {}}};
    auto machine = co_await scratch->engine().boot(std::move(spec), deadline);
    if (!machine) {
      outcome = std::unexpected(machine.error());
    } else {
      outcome = co_await (*machine)->terminate(Deadline::in(kTrialTime));
    }
  };
  scratch->run(trial());
  auto removed = scratch->remove();
  return outcome ? removed : outcome;
}

AcceleratorChoice without_device(int error, const CpuFacts& cpu) {
  AcceleratorChoice choice;
  choice.reason = std::string(kDevice) + ": " + fail_errno("open", error).error().message;
  if (error != ENOENT && error != ENODEV && error != ENXIO) {
    choice.repair = "run firebreak as root; in a container: with --device=/dev/kvm";
  } else if (cpu.virtualisation) {
    choice.repair = "modprobe " + cpu.kvm_module;
  } else {
    choice.reason = "the CPU offers no virtualisation";
    choice.repair =
        "switch virtualisation on in the firmware, or nested virtualisation for this virtual "
        "machine; then: modprobe kvm_intel || modprobe kvm_amd";
  }
  return choice;
}

AcceleratorChoice from_verdict(const Verdict& verdict) {
  AcceleratorChoice choice{.accelerator = verdict.accelerator, .reason = verdict.reason};
  if (choice.accelerator == Accelerator::tcg)
    choice.repair = "use a host whose KVM runs guests; firebreak doctor --fresh tries again";
  return choice;
}

}  // namespace

std::string to_json_text(const Verdict& verdict) {
  const json::object key{{"kernel", verdict.key.kernel},
                         {"qemu", verdict.key.qemu},
                         {"cpu", verdict.key.cpu},
                         {"guest", verdict.key.guest}};
  const json::object object{
      {"key", key}, {"accelerator", to_string(verdict.accelerator)}, {"reason", verdict.reason}};
  return json::serialize(object) + "\n";
}

std::optional<Verdict> remembered_verdict(std::string_view text, const VerdictKey& key) {
  const auto object = parse_json_object(text);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  const json::object* stored_key = reader.object("key", true);
  if (stored_key == nullptr) return std::nullopt;
  JsonReader key_reader(*stored_key, "key");
  Verdict verdict;
  verdict.key = {.kernel = key_reader.string("kernel"),
                 .qemu = key_reader.string("qemu"),
                 .cpu = key_reader.string("cpu"),
                 .guest = key_reader.string("guest")};
  const std::string accelerator = reader.string("accelerator");
  verdict.reason = reader.string("reason");
  if (!key_reader.result() || !reader.result() || verdict.key != key) return std::nullopt;
  if (accelerator != to_string(Accelerator::kvm) && accelerator != to_string(Accelerator::tcg))
    return std::nullopt;
  verdict.accelerator =
      accelerator == to_string(Accelerator::kvm) ? Accelerator::kvm : Accelerator::tcg;
  return verdict;
}

Check check_accelerator(const AcceleratorChoice& choice) {
  if (choice.accelerator == Accelerator::kvm)
    return {.name = "accelerator", .text = "KVM: " + choice.reason};
  return {.name = "accelerator",
          .status = CheckStatus::degraded,
          .text = "TCG, about ten times slower and with emulated isolation: " + choice.reason,
          .repair = choice.repair};
}

AcceleratorChoice choose_accelerator(const HostPaths& paths, const std::string& qemu_version,
                                     bool fresh, Deadline deadline) {
  const auto cpuinfo = sys::read_file("/proc/cpuinfo", 16 << 20);
  const CpuFacts cpu = parse_cpuinfo(cpuinfo ? *cpuinfo : "");
  {
    const UniqueFd device(::open(kDevice, O_RDWR | O_CLOEXEC));
    if (!device) return without_device(errno, cpu);
  }
  if (qemu_version.empty())
    return {.reason = "KVM was not tried: QEMU does not run",
            .repair = "apt-get install -y qemu-system-x86"};

  const std::string cache = paths.data_dir + "/probe.json";
  Verdict verdict{.key = key_of_host(paths, qemu_version, cpu)};
  if (const auto text = sys::read_file(cache); text && !fresh) {
    if (const auto known = remembered_verdict(*text, verdict.key)) return from_verdict(*known);
  }
  const auto began = Deadline::Clock::now();
  const auto allowed = std::chrono::round<std::chrono::seconds>(deadline.left());
  const auto booted = boot_on_kvm(paths, deadline);
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began);
  if (booted) {
    verdict.accelerator = Accelerator::kvm;
    verdict.reason = "a guest booted in " + std::to_string(took.count()) + " ms";
  } else if (booted.error().code == Code::timeout) {
    verdict.reason = "/dev/kvm opens, but a guest did not start on it within " +
                     std::to_string(allowed.count()) + " s";
  } else {
    verdict.reason = "no guest could be started on KVM: " + one_line(booted.error().text());
  }
  // A failure that comes at once is not worth remembering: its cause may lie elsewhere, and asking
  // again is cheap.
  if (booted || booted.error().code == Code::timeout)
    (void)sys::replace_file(cache, to_json_text(verdict), 0644);
  return from_verdict(verdict);
}

}  // namespace firebreak::machine
