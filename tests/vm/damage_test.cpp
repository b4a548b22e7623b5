// Damage that is not a killed process: full disks, deleted and garbled files, guests that crash or
// that kill everything in them.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "base/sys.h"
#include "machine/qemu/snapshot.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::fresh_identity;
using machine::QemuEngine;
using testing::AnyOf;

class Damage : public VmTest {
 protected:
  static std::string file(const std::string& id, const std::string& name) {
    return world().engine().host().machine_dir(id) + "/" + name;
  }
  // Counts up without a pause while it is not frozen.
  static Task<Result<>> start_counting(Machine& machine) {
    FB_CO_TRY(co_await shell(machine,
                             "(i=0; while :; do i=$((i+1)); echo $i > /dev/shm/new; "
                             "mv /dev/shm/new /dev/shm/count; done) > /dev/null 2>&1 &"));
    co_return Result<>();
  }
  // The process that was started before goes on.
  static Task<Result<>> still_counting(Machine& machine) {
    FB_CO_TRY(
        co_await shell(machine,
                       "a=$(cat /dev/shm/count); n=0; while [ $n -lt 1000 ]; do n=$((n+1)); "
                       "b=$(cat /dev/shm/count); [ \"$a\" != \"$b\" ] && exit 0; done; exit 1"));
    co_return Result<>();
  }
  static Task<Result<std::string>> suspended() {
    FB_CO_TRY_ASSIGN(auto snapshot, co_await world().default_snapshot());
    FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
    FB_CO_TRY(co_await shell(*machine, "echo memory > /dev/shm/m"));
    FB_CO_TRY(co_await machine->suspend(in_seconds(60)));
    co_return machine->id();
  }
  static Task<void> expect_discarded(std::string id) {
    const auto gone = co_await world().engine().discard(id, in_seconds(20));
    EXPECT_TRUE(gone) << gone.error().text();
    const Leftovers left = world().leftovers();
    EXPECT_TRUE(left.empty()) << left.text();
  }
};

TEST_F(Damage, AfterAFailedSuspendTheMachineGoesOn) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await start_counting(*machine));
    machine::FaultPoints& faults = world().engine().host().faults();
    faults.set([&](std::string_view point) {
      if (point == "saved") std::filesystem::remove(file(machine->id(), "saved.new"));
    });
    const auto failed = co_await machine->suspend(in_seconds(60));
    faults.set(nullptr);
    EXPECT_FALSE(failed);
    EXPECT_FALSE(sys::exists(file(machine->id(), "saved")));
    CO_OK(co_await still_counting(*machine));
    // And it can be suspended when the cause is gone.
    CO_OK(co_await machine->suspend(in_seconds(60)));
    const std::string id = machine->id();
    CO_VALUE(machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    CO_OK(co_await still_counting(*machine));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// Old memory on a newer disk would be the worst end of a suspend: the next server resumes whatever
// is called `saved`.
TEST_F(Damage, ASuspendWhoseDirectoryIsNotSyncedLeavesNothingToResume) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await start_counting(*machine));
    machine::FaultPoints& faults = world().engine().host().faults();
    int syncs = 0;
    faults.set_check([&](std::string_view point) -> Result<> {
      if (point == "sync_directory" && syncs++ == 0) return fail(Code::unavailable, "EIO");
      return {};
    });
    const auto failed = co_await machine->suspend(in_seconds(60));
    faults.set_check(nullptr);
    EXPECT_FALSE(failed);
    EXPECT_EQ(syncs, 2) << "the removal of the name is synced before the guest goes on";
    CO_OK(co_await still_counting(*machine));
    const std::string id = machine->id();
    EXPECT_FALSE(sys::exists(file(id, "saved")));
    EXPECT_FALSE(world().engine().is_suspended(id));
    // A server that starts now finds the machine that runs.
    machine.reset();
    auto next = world().another_engine();
    CO_VALUE(auto found, co_await next->attach(id, in_seconds(60)));
    CO_OK(co_await still_counting(*found));
    CO_OK(co_await found->terminate(in_seconds(20)));
  });
}

TEST_F(Damage, ASuspendThatCannotBeTakenBackIsASuspend) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await start_counting(*machine));
    machine::FaultPoints& faults = world().engine().host().faults();
    faults.set_check([](std::string_view point) -> Result<> {
      if (point == "sync_directory") return fail(Code::unavailable, "EIO");
      return {};
    });
    const auto suspended = co_await machine->suspend(in_seconds(60));
    faults.set_check(nullptr);
    CO_OK(suspended);
    EXPECT_TRUE(co_await machine->wait_exit(in_seconds(5)));
    const std::string id = machine->id();
    CO_VALUE(machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    CO_OK(co_await still_counting(*machine));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Damage, AfterAFailedForkTheMachineGoesOnAndNoChildIsLeft) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(co_await start_counting(*machine));
    // The second child's name is taken.
    CO_VALUE(auto other, co_await world().launch(snapshot));
    const auto failed = co_await machine->fork({"fork-1", other->id()}, in_seconds(60));
    EXPECT_FALSE(failed);
    EXPECT_FALSE(sys::exists(file("fork-1", "")));
    CO_OK(co_await still_counting(*machine));
    // The machine that had the name before is not touched by the cleaning up.
    CO_OK(co_await shell(*other, "true"));
    CO_OK(co_await other->terminate(in_seconds(20)));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Damage, ATakenNameIsRefusedAndItsOwnerIsNotTouched) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    const std::string id = machine->id();
    const auto again = co_await world().engine().restore(snapshot, {.id = id}, in_seconds(30));
    EXPECT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::conflict) << again.error().text();
    CO_OK(co_await shell(*machine, "true"));
    const auto booted = co_await world().engine().boot(
        {.id = id, .disk = {.base = world().base_disk(), .layers = {}}}, in_seconds(30));
    EXPECT_FALSE(booted);
    EXPECT_EQ(booted.error().code, Code::conflict) << booted.error().text();
    CO_OK(co_await shell(*machine, "true"));
    CO_OK(co_await machine->suspend(in_seconds(60)));
    const auto over = co_await world().engine().restore(snapshot, {.id = id}, in_seconds(30));
    EXPECT_FALSE(over);
    CO_VALUE(machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Damage, MissingLayerOfTheSnapshotIsNamed) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string disk = snapshot->directory() + "/disk.qcow2";
    std::filesystem::rename(disk, disk + ".away");
    const auto restored =
        co_await world().engine().restore(snapshot, {.id = "lost"}, in_seconds(30));
    auto engine = world().another_engine();
    const auto loaded = co_await engine->load(snapshot->directory(), in_seconds(30));
    std::filesystem::rename(disk + ".away", disk);
    EXPECT_FALSE(restored);
    EXPECT_EQ(restored.error().code, Code::not_found) << restored.error().text();
    EXPECT_THAT(restored.error().message, testing::HasSubstr("disk.qcow2"));
    EXPECT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::not_found) << loaded.error().text();
  });
}

TEST_F(Damage, DamagedSnapshotsAreRefused) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    auto engine = world().another_engine();
    for (const std::string name : {"snapshot.json", "state"}) {
      const std::string path = snapshot->directory() + "/" + name;
      CO_VALUE(const std::string before, sys::read_file(path, 16 << 20));
      std::string damaged = before;
      // Of the record a digit of a hash; of the device state any byte.
      constexpr std::string_view kHash = "\"state_sha256\":\"";
      const std::size_t hash = damaged.find(kHash);
      CO_ASSERT(name == "state" || hash != std::string::npos);
      const std::size_t at = name == "state" ? damaged.size() / 2 : hash + kHash.size();
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      CO_OK(sys::replace_file(path, damaged));
      const auto loaded = co_await engine->load(snapshot->directory(), in_seconds(30));
      CO_OK(sys::replace_file(path, before));
      EXPECT_FALSE(loaded) << name;
      if (!loaded) EXPECT_EQ(loaded.error().code, Code::corrupt) << loaded.error().text();
    }
  });
}

TEST_F(Damage, MissingOrGarbledSavedMemoryIsRefusedAndTheRestRemoved) {
  run([]() -> Task<void> {
    CO_VALUE(std::string id, co_await suspended());
    CO_VALUE(const std::string whole, sys::read_file(file(id, "saved"), 512 << 20));
    const auto resumed = [&id](std::string content) -> Task<std::optional<Code>> {
      (void)sys::replace_file(file(id, "saved"), content);
      auto machine = co_await world().engine().resume(id, in_seconds(30));
      co_return machine ? std::nullopt : std::optional(machine.error().code);
    };
    EXPECT_EQ(co_await resumed(""), Code::corrupt);
    EXPECT_EQ(co_await resumed("garbage"), Code::corrupt);
    EXPECT_EQ(co_await resumed(whole.substr(0, whole.size() / 2)), Code::corrupt);
    std::string flipped = whole;
    flipped[whole.size() - 5000] = static_cast<char>(flipped[whole.size() - 5000] ^ 1);
    EXPECT_EQ(co_await resumed(flipped), Code::corrupt);
    // None of it harmed the machine itself.
    CO_OK(sys::replace_file(file(id, "saved"), whole));
    CO_VALUE(auto machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    CO_VALUE(const std::string out, co_await shell(*machine, "cat /dev/shm/m"));
    EXPECT_EQ(out, "memory\n");
    CO_OK(co_await machine->suspend(in_seconds(60)));
    std::filesystem::remove(file(id, "saved"));
    const auto missing = co_await world().engine().resume(id, in_seconds(30));
    EXPECT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::conflict) << missing.error().text();
    co_await expect_discarded(id);
  });
}

// What a broken QEMU could leave in its own layer: names of files that are none of its business.
TEST_F(Damage, AHostileHeaderOfALayerOpensNothingElse) {
  run([]() -> Task<void> {
    constexpr std::string_view kName = "/etc/passwd";
    const auto big = [](std::uint64_t value, std::size_t bytes) {
      std::string text;
      while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes));
      return text;
    };
    const auto patch = [](const std::string& path, std::size_t at, std::string_view bytes) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(at));
      file << bytes;
      return file.good();
    };
    // The name of a backing file: that which the command line names counts.
    CO_VALUE(const std::string id, co_await suspended());
    const std::string layer = file(id, "disk.qcow2");
    CO_ASSERT(patch(layer, 0x400, kName) && patch(layer, 8, big(0x400, 8) + big(kName.size(), 4)));
    CO_VALUE(auto machine, co_await world().engine().resume(id, in_seconds(60)));
    CO_OK(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    CO_OK(co_await shell(*machine, "ls -lR /usr/bin > /dev/null && echo fine > /root/x && sync"));
    CO_OK(co_await machine->terminate(in_seconds(20)));
    // A data file elsewhere, and a table that is too long, cannot be loaded.
    const std::string data_file = big(0x44415441, 4) + big(kName.size(), 4) + std::string(kName);
    for (const auto& [at, bytes] : std::vector<std::pair<std::size_t, std::string>>{
             {79, big(4, 1)}, {36, big(0xffffffff, 4)}}) {
      CO_VALUE(const std::string other, co_await suspended());
      CO_ASSERT(patch(file(other, "disk.qcow2"), 112, data_file));
      CO_ASSERT(patch(file(other, "disk.qcow2"), at, bytes));
      EXPECT_FALSE(co_await world().engine().resume(other, in_seconds(60))) << at;
      co_await expect_discarded(other);
    }
  });
}

TEST_F(Damage, MissingDiskLayerOfASuspendedMachine) {
  run([]() -> Task<void> {
    CO_VALUE(std::string id, co_await suspended());
    std::filesystem::remove(file(id, "disk.qcow2"));
    const auto resumed = co_await world().engine().resume(id, in_seconds(30));
    EXPECT_FALSE(resumed);
    EXPECT_EQ(resumed.error().code, Code::not_found) << resumed.error().text();
    co_await expect_discarded(id);
  });
}

TEST_F(Damage, MissingOrGarbledRecordIsTypedAndEverythingIsRemovedAllTheSame) {
  run([]() -> Task<void> {
    for (const bool garbled : {false, true}) {
      CO_VALUE(auto snapshot, co_await world().default_snapshot());
      CO_VALUE(auto machine, co_await world().launch(snapshot));
      const std::string id = machine->id();
      machine.reset();
      if (garbled) {
        CO_OK(sys::replace_file(file(id, "machine.json"), "{\"id\": \"" + id + "\", \"pid\": 1}"));
      } else {
        std::filesystem::remove(file(id, "machine.json"));
      }
      const Code expected = garbled ? Code::corrupt : Code::not_found;
      const auto attached = co_await world().engine().attach(id, in_seconds(30));
      EXPECT_FALSE(attached);
      EXPECT_EQ(attached.error().code, expected) << attached.error().text();
      const auto resumed = co_await world().engine().resume(id, in_seconds(30));
      EXPECT_FALSE(resumed);
      EXPECT_EQ(resumed.error().code, expected) << resumed.error().text();
      co_await expect_discarded(id);
    }
  });
}

TEST_F(Damage, MachineWithoutItsSocketsCannotBeAttachedButRemoved) {
  run([]() -> Task<void> {
    for (const char* name : {"qmp.sock", "ctl.sock", "data.sock"}) {
      CO_VALUE(auto snapshot, co_await world().default_snapshot());
      CO_VALUE(auto machine, co_await world().launch(snapshot));
      const std::string id = machine->id();
      machine.reset();
      std::filesystem::remove(file(id, name));
      const auto attached = co_await world().engine().attach(id, in_seconds(30));
      EXPECT_FALSE(attached);
      EXPECT_EQ(attached.error().code, Code::not_found) << attached.error().text();
      co_await expect_discarded(id);
    }
  });
}

TEST_F(Damage, MachineWhoseDirectoryIsGoneIsTerminated) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    CO_OK(sys::remove_tree(file(machine->id(), "")));
    const auto failed = co_await machine->suspend(in_seconds(60));
    EXPECT_FALSE(failed);
    CO_OK(co_await shell(*machine, "true"));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// ------------------------------------------------------------------------------------ full disk

// An engine of its own on a file system that a test fills up to the last bytes.
class FullDisk : public Damage {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::mkdirs(dir_, 0700));
    ASSERT_EQ(::mount("none", dir_.c_str(), "tmpfs", 0, "size=1g"), 0) << std::strerror(errno);
    machine::QemuConfig config = world().engine().host().config();
    config.data_dir = dir_;
    config.cgroup_root += "-full";
    config.uids.first += 2'000'000;
    auto engine = QemuEngine::create(config, world().io().get_executor(), pool_);
    ASSERT_TRUE(engine) << engine.error().text();
    engine_ = *std::move(engine);
  }
  void TearDown() override {
    if (engine_) {
      expect_nothing_left();
      for (const std::string& id : *engine_->host().machine_ids())
        run([&]() -> Task<void> { (void)co_await engine_->discard(id, in_seconds(10)); });
    }
    const std::string cgroups = engine_ ? engine_->host().config().cgroup_root : "";
    engine_.reset();
    if (!cgroups.empty()) EXPECT_TRUE(machine::CgroupRoot(cgroups).remove());
    EXPECT_EQ(::umount2(dir_.c_str(), MNT_DETACH), 0);
    EXPECT_TRUE(sys::remove_tree(dir_));
    Damage::TearDown();
  }

  void leave(std::uint64_t bytes) {
    release();
    struct statvfs st{};
    ASSERT_EQ(::statvfs(dir_.c_str(), &st), 0);
    auto fd = sys::open(dir_ + "/filler", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_TRUE(fd);
    const std::uint64_t free = st.f_bfree * st.f_bsize;
    ASSERT_GT(free, bytes);
    ASSERT_EQ(::fallocate(fd->get(), 0, 0, static_cast<off_t>(free - bytes)), 0);
  }
  void release() { std::filesystem::remove(dir_ + "/filler"); }
  void expect_nothing_left() {
    EXPECT_EQ(engine_->host().machine_ids()->size(), 0U);
    EXPECT_EQ(engine_->host().cgroup_names()->size(), 0U);
    EXPECT_EQ(engine_->host().uid_leases()->size(), 0U);
  }
  Task<Result<std::unique_ptr<Machine>>> launch(std::string id) {
    FB_CO_TRY_ASSIGN(auto ours, co_await world().default_snapshot());
    FB_CO_TRY_ASSIGN(auto snapshot, co_await engine_->load(ours->directory(), in_seconds(60)));
    FB_CO_TRY_ASSIGN(auto machine, co_await engine_->restore(snapshot, {.id = id}, in_seconds(60)));
    if (auto woken = co_await machine->wake(fresh_identity(id, 1), in_seconds(60)); !woken) {
      FB_CO_TRY(co_await machine->terminate(in_seconds(20)));
      co_return std::unexpected(woken.error());
    }
    co_return std::move(machine);
  }

  std::string dir_ =
      std::filesystem::temp_directory_path() / ("firebreak-full-" + sys::random_hex(4));
  net::asio::thread_pool pool_{2};
  std::unique_ptr<QemuEngine> engine_;
};

TEST_F(FullDisk, RestoreFailsAndLeavesNothing) {
  run([this]() -> Task<void> {
    CO_VALUE(auto ours, co_await world().default_snapshot());
    // Too little for the lease, for the record, for the disk, for the log.
    for (const std::uint64_t kib : {0, 4, 8, 12, 64, 200, 260, 268}) {
      leave(kib << 10);
      auto machine = co_await launch("full");
      if (machine) {
        EXPECT_GE(kib, 256U);
        CO_OK(co_await (*machine)->terminate(in_seconds(20)));
      } else {
        EXPECT_EQ(machine.error().code, Code::exhausted)
            << kib << " KiB: " << machine.error().text();
      }
      expect_nothing_left();
    }
    release();
    CO_VALUE(auto machine, co_await launch("full"));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(FullDisk, SuspendAndForkFailAndTheMachineGoesOn) {
  run([this]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch("full"));
    CO_OK(co_await start_counting(*machine));
    // More than will be left, and nothing that the guest itself has to write to its disk.
    CO_OK(co_await shell(*machine, "head -c 16M /dev/zero > /dev/shm/large; sync"));
    for (const std::uint64_t kib : {4 << 10, 8 << 10}) {
      leave(kib << 10);
      const auto suspended = co_await machine->suspend(in_seconds(60));
      EXPECT_FALSE(suspended);
      if (!suspended)
        EXPECT_EQ(suspended.error().code, Code::exhausted) << suspended.error().text();
      CO_OK(co_await still_counting(*machine));
      const auto forked = co_await machine->fork({"child"}, in_seconds(60));
      EXPECT_FALSE(forked);
      if (!forked) EXPECT_EQ(forked.error().code, Code::exhausted) << forked.error().text();
      CO_OK(co_await still_counting(*machine));
    }
    release();
    CO_OK(co_await machine->suspend(in_seconds(60)));
    machine.reset();
    CO_VALUE(machine, co_await engine_->resume("full", in_seconds(60)));
    CO_OK(co_await machine->wake(fresh_identity("full", 2), in_seconds(60)));
    CO_OK(co_await still_counting(*machine));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// QEMU stops a guest whose write finds no space; nothing is lost, and it goes on where it was.
TEST_F(FullDisk, AGuestThatWritesStandsStillUntilThereIsSpace) {
  run([this]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch("full"));
    leave(256 << 10);
    machine::ExecSpec write;
    write.id = "write";
    write.shell =
        "head -c 8M /dev/urandom > /root/f && sync && sha256sum < /root/f && echo 3 > "
        "/proc/sys/vm/drop_caches; sha256sum < /root/f";
    CO_OK(co_await machine->agent().start_exec(write, in_seconds(30)));
    CO_VALUE(auto output, co_await machine->agent().exec_output("write", 0, in_seconds(10)));
    const auto stuck = co_await output->next(in_seconds(10));
    EXPECT_FALSE(stuck);
    EXPECT_EQ(stuck.error().code, Code::timeout) << stuck.error().text();
    EXPECT_TRUE(machine->out_of_disk());
    // Nothing is gained by trying again too early, and nothing lost.
    CO_OK(machine->retry_disk());
    CO_ASSERT(!co_await output->next(in_seconds(2)));
    EXPECT_TRUE(machine->out_of_disk());
    output.reset();
    release();
    CO_OK(machine->retry_disk());
    // Who comes later finds it going on.
    machine.reset();
    CO_VALUE(machine, co_await engine_->attach("full", in_seconds(30)));
    EXPECT_FALSE(machine->out_of_disk());
    CO_VALUE(output, co_await machine->agent().exec_output("write", 0, in_seconds(30)));
    std::string sums;
    for (;;) {
      CO_VALUE(auto frame, co_await output->next(in_seconds(60)));
      if (!frame) break;
      if (frame->type == wire::FrameType::out) sums += frame->payload;
    }
    CO_ASSERT(sums.size() > 64);
    EXPECT_EQ(sums.substr(0, sums.size() / 2), sums.substr(sums.size() / 2));
    output.reset();
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(FullDisk, TerminateAndDiscardNeedNoSpace) {
  run([this]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch("full"));
    leave(0);
    CO_OK(co_await machine->terminate(in_seconds(20)));
    expect_nothing_left();
    release();
    CO_VALUE(machine, co_await launch("full"));
    CO_OK(co_await machine->suspend(in_seconds(60)));
    leave(0);
    CO_OK(co_await engine_->discard("full", in_seconds(20)));
  });
}

// -------------------------------------------------------------------------------- crashing guests

class GuestCrash : public Damage {
 protected:
  static Task<Result<std::unique_ptr<Machine>>> launch() {
    FB_CO_TRY_ASSIGN(auto snapshot,
                     co_await world().snapshot("all-capabilities", {.vcpus = 1, .memory_mib = 256},
                                               {.all_capabilities = true}, nullptr));
    co_return co_await world().launch(snapshot);
  }
};

// c: the kernel panics. b: it resets. o: it powers off. In each case QEMU ends, and its owner hears
// of it.
TEST_F(GuestCrash, KernelThatDiesEndsItsMachine) {
  run([]() -> Task<void> {
    for (const char* key : {"c", "b", "o"}) {
      CO_VALUE(auto machine, co_await launch());
      const auto crashed = co_await shell(
          *machine, std::string("echo ") + key + " > /proc/sysrq-trigger; sleep 100");
      EXPECT_FALSE(crashed);
      EXPECT_EQ(crashed.error().code, Code::guest) << key << ": " << crashed.error().text();
      EXPECT_TRUE(co_await machine->wait_exit(in_seconds(30))) << key;
      const auto health = co_await machine->agent().health(in_seconds(10));
      EXPECT_FALSE(health);
      EXPECT_EQ(health.error().code, Code::guest) << health.error().text();
      const auto suspended = co_await machine->suspend(in_seconds(10));
      EXPECT_FALSE(suspended);
      EXPECT_THAT(suspended.error().code, AnyOf(Code::guest, Code::unavailable));
      CO_OK(co_await machine->terminate(in_seconds(20)));
    }
  });
}

// i: SIGKILL to every process but PID 1. The agent is PID 1 and answers.
TEST_F(GuestCrash, KillingEverythingLeavesTheAgent) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    EXPECT_FALSE(co_await shell(*machine, "echo i > /proc/sysrq-trigger; sleep 100"));
    for (const Deadline deadline = in_seconds(20);;) {
      CO_VALUE(const auto health, co_await machine->agent().health(deadline));
      if (health.tenant == "exited") break;
    }
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
