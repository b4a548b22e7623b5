// What happens to machines of QEMU when the host's QEMU becomes another one. The rest of a
// machine's life is in engine_conformance_test.cpp.
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/sys.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

class Lifecycle : public VmTest {};

// An engine on a host whose QEMU has been upgraded: the same program with other bytes, on a thread
// that sees it in place of the installed one.
std::unique_ptr<machine::QemuEngine> engine_after_upgrade() {
  const std::string upgraded = world().data_dir() + "/qemu-upgraded";
  const std::string installed = "/usr/bin/qemu-system-x86_64";
  std::filesystem::copy_file(installed, upgraded);
  std::ofstream(upgraded, std::ios::app) << "newer";
  std::unique_ptr<machine::QemuEngine> engine;
  std::thread([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(upgraded.c_str(), installed.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return;
    engine = world().another_engine();
  }).join();
  return engine;
}

TEST_F(Lifecycle, AfterAnUpgradeASuspendedMachineHasTheQemuItWasMadeWith) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await shell(*machine, "echo before > /dev/shm/m"));
    const std::string id = machine->id();
    CO_OK(co_await machine->suspend(in_seconds(60)));
    machine.reset();
    const std::string runtimes = world().data_dir() + "/runtime";
    CO_VALUE(const std::string current, sys::read_file(runtimes + "/current"));
    const std::string old = runtimes + "/" + current.substr(0, current.find('\n'));
    auto engine = engine_after_upgrade();
    CO_ASSERT(engine);
    CO_VALUE(const std::string newer, sys::read_file(runtimes + "/current"));
    CO_ASSERT(newer.substr(0, 64) != current.substr(0, 64));

    // What is not kept is missed, and nothing of the machine is lost by trying.
    std::filesystem::rename(old, old + ".away");
    const auto refused = co_await engine->resume(id, in_seconds(60));
    std::filesystem::rename(old + ".away", old);
    CO_ASSERT(!refused);
    EXPECT_THAT(refused.error().text(), testing::HasSubstr("QEMU"));

    CO_VALUE(auto resumed, co_await engine->resume(id, in_seconds(60)));
    CO_OK(co_await resumed->wake(machine::fresh_identity(id, 2), in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*resumed, "cat /dev/shm/m"));
    EXPECT_EQ(out, "before\n");
    CO_OK(co_await resumed->terminate(in_seconds(60)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
