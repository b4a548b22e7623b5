// The life of a machine: boot, snapshot, clone, wake, park, suspend, resume, fork, terminate,
// attach; and nothing left behind.
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/sys.h"
#include "machine/hash.h"
#include "support/expect.h"
#include "support/world.h"

namespace firebreak::testing_support {
namespace {

using machine::ExecSpec;

class Lifecycle : public testing::Test {
 protected:
  void TearDown() override {
    const Leftovers left = world().leftovers();
    EXPECT_TRUE(left.empty()) << left.text();
  }
  static void run(const std::function<Task<void>()>& body) { world().run(body); }
  static Task<Result<std::string>> shell(Machine& machine, std::string command) {
    ExecSpec spec;
    spec.shell = std::move(command);
    FB_CO_TRY_ASSIGN(auto result, co_await machine.agent().run(spec, in_seconds(60)));
    if (result.exit.exit_code != 0)
      co_return fail(Code::internal, "exit " + std::to_string(result.exit.exit_code.value_or(-1)) +
                                         ": " + result.err);
    co_return result.out;
  }
};

TEST_F(Lifecycle, CloneRunsACommand) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_VALUE(const std::string out, co_await shell(*machine, "echo hello; uname -r"));
    EXPECT_THAT(out, testing::StartsWith("hello\n6.1."));
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_F(Lifecycle, SuspendAndResumeKeepMemoryAndDisk) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await shell(*machine,
                         "echo unsynced > /root/f; mkdir -p /dev/shm; echo memory > /dev/shm/m"));
    const std::string id = machine->id();
    CO_OK(co_await machine->suspend(in_seconds(60)));
    machine.reset();
    CO_VALUE(machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->wake(machine::fresh_identity(id, 2), in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*machine, "cat /root/f /dev/shm/m"));
    EXPECT_EQ(out, "unsynced\nmemory\n");
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_F(Lifecycle, ParkedCloneWakes) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine,
             co_await world().engine().restore(snapshot, {.id = "parked"}, in_seconds(60)));
    CO_OK(co_await machine->rehearse(in_seconds(60)));
    CO_OK(co_await machine->park(in_seconds(60)));
    CO_OK(co_await machine->unpark(machine::fresh_identity("parked", 1), in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*machine, "hostname"));
    EXPECT_EQ(out, "parked\n");
    CO_OK(co_await machine->terminate(in_seconds(60)));
  });
}

TEST_F(Lifecycle, ForkedChildrenStartFromTheParentsMomentAndDiverge) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto parent, co_await world().launch(snapshot));
    CO_OK(co_await shell(*parent, "echo common > /root/f; echo ram > /dev/shm/m"));
    CO_OK(co_await parent->fork({"child-a", "child-b"}, in_seconds(60)));
    CO_OK(co_await shell(*parent, "echo parent > /root/f"));
    for (const std::string id : {"child-a", "child-b"}) {
      CO_VALUE(auto child, co_await world().engine().resume(id, in_seconds(60)));
      CO_OK(co_await child->wake(machine::fresh_identity(id, 2), in_seconds(60)));
      CO_VALUE(
          const std::string out,
          co_await shell(*child, "cat /root/f /dev/shm/m; hostname; echo child > /root/f; sync"));
      EXPECT_EQ(out, "common\nram\n" + id + "\n");
      CO_OK(co_await child->terminate(in_seconds(60)));
    }
    CO_VALUE(const std::string out, co_await shell(*parent, "cat /root/f"));
    EXPECT_EQ(out, "parent\n");
    // After a fork the parent's disk has one layer more; it must suspend and resume all the same.
    CO_OK(co_await parent->suspend(in_seconds(60)));
    const std::string id = parent->id();
    parent.reset();
    CO_VALUE(parent, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await parent->wake(machine::fresh_identity(id, 3), in_seconds(60)));
    CO_VALUE(const std::string again, co_await shell(*parent, "cat /root/f /dev/shm/m"));
    EXPECT_EQ(again, "parent\nram\n");
    CO_OK(co_await parent->terminate(in_seconds(60)));
  });
}

TEST_F(Lifecycle, ARestartedDaemonFindsItsMachines) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await shell(*machine, "echo before > /dev/shm/m"));
    const std::string id = machine->id();
    machine.reset();  // the daemon is gone; the guest is not
    auto engine = world().another_engine();
    CO_VALUE(auto found, co_await engine->attach(id, in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*found, "cat /dev/shm/m"));
    EXPECT_EQ(out, "before\n");
    CO_OK(co_await found->terminate(in_seconds(60)));
  });
}

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
