// What is different with KVM. Runs with the other tests of its program where KVM runs guests: in
// the machine of vm.nested_kvm.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "machine/accelerator_probe.h"
#include "machine/qemu/host_cpu.h"
#include "support/environment.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using namespace std::chrono_literals;
using machine::Accelerator;
using testing::HasSubstr;
using testing::Not;

class Kvm : public VmTest {};

// What the descriptors of a process are: "anon_inode:kvm-vm" is a machine on KVM.
std::string descriptors_of(pid_t pid) {
  std::string text;
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    text += std::filesystem::read_symlink(entry.path()).string() + "\n";
  return text;
}

TEST_F(Kvm, TheTrialFindsItAndItIsRemembered) {
  const machine::HostPaths paths{
      .data_dir = world().data_dir(),
      .guest_dir = environment_or_die("FIREBREAK_GUEST_DIR"),
      .holder = environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak-holder"};
  const std::string qemu = "7.2";
  const auto tried = machine::choose_accelerator(paths, qemu, true, in_seconds(300));
  EXPECT_EQ(tried.accelerator, Accelerator::kvm) << tried.reason;
  EXPECT_THAT(tried.reason, testing::MatchesRegex("a guest booted in [0-9]+ ms"));
  const auto remembered = machine::choose_accelerator(paths, qemu, false, in_seconds(0));
  EXPECT_EQ(remembered.accelerator, Accelerator::kvm) << remembered.reason;
  EXPECT_EQ(remembered.reason, tried.reason);
}

TEST_F(Kvm, ACloneRunsOnItAndSeesNoMoreOfTheCpuThanItNeeds) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    EXPECT_EQ(machine->isolation(), machine::Isolation::hardware);
    EXPECT_THAT(descriptors_of(machine->pid()), HasSubstr("anon_inode:kvm-vm"));
    CO_VALUE(const std::string clock,
             co_await shell(*machine,
                            "cat /sys/devices/system/clocksource/clocksource0/current_clocksource "
                            "/proc/sys/kernel/randomize_va_space"));
    EXPECT_EQ(clock, "kvm-clock\n2\n");
    // Guests of its own and performance counters are the host kernel's code, reached by the guest.
    CO_VALUE(const std::string flags,
             co_await shell(*machine, "grep -m 1 -w flags /proc/cpuinfo | tr ' ' '\\n'"));
    EXPECT_THAT(flags, HasSubstr("\nhypervisor\n"));
    for (const char* unwanted : {"\nsvm\n", "\nvmx\n", "\nnpt\n", "\nperfctr_core\n"})
      EXPECT_THAT(flags, Not(HasSubstr(unwanted)));
    CO_OK(co_await machine->terminate(in_seconds(30)));
  });
}

TEST_F(Kvm, ASnapshotNamesTheCpuItWasTakenOn) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string path = snapshot->directory() + "/snapshot.json";
    CO_VALUE(const std::string text, sys::read_file(path));
    CO_VALUE(json::object record, parse_json_object(text));
    EXPECT_EQ(record.at("key").at("accelerator").as_string(), "kvm");
    json::string& cpu = record["key"].as_object()["cpu_model"].as_string();
    EXPECT_THAT(std::string(cpu), HasSubstr(" on " + machine::host_cpu()));
    // The same name with one feature less.
    cpu.back() = cpu.back() == '0' ? '1' : '0';
    CO_OK(sys::replace_file(path, json::serialize(record)));
    auto engine = world().another_engine();
    const auto loaded = co_await engine->load(snapshot->directory(), in_seconds(60));
    CO_OK(sys::replace_file(path, text));
    CO_ASSERT(!loaded);
    EXPECT_THAT(loaded.error().text(), HasSubstr("CPU model"));
  });
}

struct GuestTime {
  std::chrono::nanoseconds realtime{};
  std::chrono::milliseconds running{};  // to 10 ms
};

Task<Result<GuestTime>> guest_time(Machine& machine) {
  FB_CO_TRY_ASSIGN(const std::string out,
                   co_await shell(machine, "date +%s%N; cut -d ' ' -f 1 /proc/uptime"));
  long long realtime = 0;
  long long seconds = 0;
  long long hundredths = 0;
  if (std::sscanf(out.c_str(), "%lld\n%lld.%lld", &realtime, &seconds, &hundredths) != 3)
    co_return fail(Code::guest, "no time in " + out);
  co_return GuestTime{std::chrono::nanoseconds(realtime),
                      std::chrono::milliseconds(seconds * 1000 + hundredths * 10)};
}

// Whatever the host's load: bounded by when we asked and when the answer was there.
TEST_F(Kvm, TheClockStandsStillWhileSuspendedAndIsSetOnResume) {
  run([]() -> Task<void> {
    constexpr auto kAsleep = 5000ms;
    constexpr auto kFine = 100ms;
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    const auto began = std::chrono::steady_clock::now();
    CO_VALUE(const GuestTime before, co_await guest_time(*machine));
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), kAsleep));
    const std::chrono::nanoseconds before_wake(host_realtime_ns());
    CO_OK(co_await machine->wake(machine::fresh_identity(machine->id(), 2), in_seconds(60)));
    CO_VALUE(const GuestTime after, co_await guest_time(*machine));
    const auto elapsed = std::chrono::steady_clock::now() - began;
    const std::chrono::nanoseconds now(host_realtime_ns());
    // What the guest was told was true when the wake was sent.
    EXPECT_GE(after.realtime + kFine, before_wake);
    EXPECT_LE(after.realtime, now + kFine);
    EXPECT_GE(after.running, before.running);
    EXPECT_LE(after.running - before.running, elapsed - kAsleep + kFine);
    CO_OK(co_await machine->terminate(in_seconds(30)));
  });
}

// A counter on each of two CPUs, and a look whether both go on: a CPU whose state was lost leaves
// its counter where it was.
constexpr const char* kCountOnBoth = R"sh(
mkdir -p /dev/shm
for c in 0 1; do
  taskset -c $c sh -c "i=0; while :; do i=\$((i+1)); echo \$i > /dev/shm/c$c; sleep 0.1; done" >/dev/null 2>&1 &
done)sh";
constexpr const char* kBothCount = R"sh(
for c in 0 1; do
  old=$(cat /dev/shm/c$c)
  for i in $(seq 300); do
    [ "$(cat /dev/shm/c$c)" = "$old" ] || continue 2
    sleep 0.1
  done
  echo CPU $c stands still >&2
  exit 1
done)sh";

TEST_F(Kvm, TwoCpusGoOnAfterSnapshotSuspendAndFork) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot,
             co_await world().snapshot("two", {.vcpus = 2, .memory_mib = 256}, {}, nullptr));
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await shell(*machine, kCountOnBoth));
    CO_OK(co_await shell(*machine, kBothCount));
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
    CO_OK(co_await machine->wake(machine::fresh_identity(machine->id(), 2), in_seconds(60)));
    CO_OK(co_await shell(*machine, kBothCount));
    CO_OK(co_await machine->fork({"two-child"}, in_seconds(60)));
    CO_OK(co_await shell(*machine, kBothCount));
    CO_VALUE(auto child, co_await world().engine().resume("two-child", in_seconds(60)));
    CO_OK(co_await child->wake(machine::fresh_identity("two-child", 2), in_seconds(60)));
    CO_OK(co_await shell(*child, kBothCount));
    CO_OK(co_await child->terminate(in_seconds(30)));
    CO_OK(co_await machine->terminate(in_seconds(30)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
