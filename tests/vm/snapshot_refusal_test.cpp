// Damaged and foreign snapshots and saved states are refused before a machine runs on them, and the
// intact original goes on working; where the RAM of a snapshot comes from after a daemon has died.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sys.h"
#include "machine/process.h"
#include "machine/qemu/base_holder.h"
#include "machine/qemu/snapshot.h"
#include "net/task_group.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::QemuEngine;

class SnapshotRefusal : public VmTest {};
class SavedRefusal : public VmTest {};
class BaseRam : public VmTest {};

// The same call again puts the byte back.
Result<> flip(const std::string& path, std::uint64_t offset) {
  FB_TRY_ASSIGN(const UniqueFd fd, sys::open(path, O_RDWR));
  std::byte byte[1];
  FB_TRY(sys::pread_all(fd.get(), byte, offset));
  byte[0] ^= std::byte{0x10};
  return sys::pwrite_all(fd.get(), byte, offset);
}

Result<> resize(const std::string& path, std::uint64_t size) {
  if (::truncate(path.c_str(), static_cast<off_t>(size)) != 0) return fail_errno("truncate");
  return {};
}

// Where the file has content (true), or none (false).
Result<std::uint64_t> find_extent(const std::string& path, bool content) {
  FB_TRY_ASSIGN(const UniqueFd fd, sys::open(path, O_RDONLY));
  const off_t data = ::lseek(fd.get(), 1 << 20, content ? SEEK_DATA : SEEK_HOLE);
  if (data < 0) return fail_errno("lseek");
  return static_cast<std::uint64_t>(data);
}

Task<Code> load_code(QemuEngine& engine, std::string directory) {
  auto loaded = co_await engine.load(directory, in_seconds(60));
  EXPECT_FALSE(loaded) << "it was loaded";
  co_return loaded ? Code::internal : loaded.error().code;
}

// A clone of what this engine loads runs.
Task<void> expect_usable(QemuEngine& engine, std::string directory) {
  CO_VALUE(auto snapshot, co_await engine.load(directory, in_seconds(60)));
  const std::string id = world().next_id("usable");
  CO_VALUE(auto machine, co_await engine.restore(snapshot, {.id = id}, in_seconds(120)));
  CO_OK(co_await machine->wake(machine::fresh_identity(id, 1), in_seconds(60)));
  CO_VALUE(const std::string out, co_await shell(*machine, "echo $((6 * 7)); cat /etc/hostname"));
  EXPECT_EQ(out, "42\n" + id + "\n");
  CO_OK(co_await machine->terminate(in_seconds(10)));
}

// ----------------------------------------------------------------------------------------
// snapshots

TEST_F(SnapshotRefusal, DamagedFiles) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    // Without a holder the file is what counts.
    machine::stop_holder(directory, in_seconds(10));
    auto engine = world().another_engine();
    const std::string ram = directory + "/ram";
    CO_VALUE(const std::uint64_t content, find_extent(ram, true));
    CO_VALUE(const std::uint64_t hole, find_extent(ram, false));
    const std::pair<std::string, std::uint64_t> flips[] = {{ram, content + 100},
                                                           {ram, hole + 5000},
                                                           {directory + "/state", 0},
                                                           {directory + "/state", 20000}};
    for (const auto& [path, offset] : flips) {
      CO_OK(flip(path, offset));
      EXPECT_EQ(co_await load_code(*engine, directory), Code::corrupt) << path << " at " << offset;
      CO_OK(flip(path, offset));
      EXPECT_FALSE(sys::exists(directory + "/holder.json")) << "a holder was started for " << path;
    }
    co_await expect_usable(*engine, directory);
  });
}

TEST_F(SnapshotRefusal, TruncatedAndGrownFiles) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    machine::stop_holder(directory, in_seconds(10));
    auto engine = world().another_engine();
    for (const std::string name : {"ram", "state", "disk.qcow2", "snapshot.json"}) {
      const std::string path = directory + "/" + name;
      const std::string copy = world().data_dir() + "/copy";
      std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
      const std::uint64_t size = std::filesystem::file_size(path);
      for (const std::uint64_t other : {size / 2, size - 2, size + 1, std::uint64_t{0}}) {
        CO_OK(resize(path, other));
        EXPECT_EQ(co_await load_code(*engine, directory), Code::corrupt)
            << name << " of " << other << " bytes";
        std::filesystem::copy_file(copy, path, std::filesystem::copy_options::overwrite_existing);
      }
      std::filesystem::remove(copy);
    }
    co_await expect_usable(*engine, directory);
  });
}

TEST_F(SnapshotRefusal, MissingFilesAreNamed) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    machine::stop_holder(directory, in_seconds(10));
    auto engine = world().another_engine();
    for (const std::string name : {"ram", "state", "disk.qcow2", "snapshot.json"}) {
      const std::string path = directory + "/" + name;
      std::filesystem::rename(path, path + ".away");
      const auto loaded = co_await engine->load(directory, in_seconds(60));
      std::filesystem::rename(path + ".away", path);
      CO_ASSERT(!loaded);
      EXPECT_EQ(loaded.error().code, Code::not_found) << loaded.error().text();
      EXPECT_THAT(loaded.error().text(), testing::HasSubstr(path));
    }
    co_await expect_usable(*engine, directory);
  });
}

TEST_F(SnapshotRefusal, ForeignSnapshotsAreRefusedWithTheReason) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    const std::string path = directory + "/snapshot.json";
    CO_VALUE(const std::string text, sys::read_file(path));
    CO_VALUE(const json::object record, parse_json_object(text));
    auto engine = world().another_engine();
    struct Case {
      const char* member;
      json::value value;
      const char* reason;
    };
    const Case cases[] = {
        {"format", 2, "format"},
        {"runtime", "0123", "QEMU files"},
        {"qemu_version", "9.9.9", "QEMU version"},
        {"accelerator", "kvm", "accelerator"},
        {"accelerator", "xen", "accelerator"},
        {"cpu_model", "486", "CPU model"},
        {"device_graph", "0123", "device graph"},
        {"tsc_khz", record.at("key").at("tsc_khz").to_number<std::uint64_t>() * 2, "TSC"},
        {"agent_protocol", 2, "agent protocol"}};
    for (const Case& foreign : cases) {
      json::object changed = record;
      changed["key"].as_object()[foreign.member] = foreign.value;
      // As a host with KVM writes it.
      if (foreign.value == "kvm") changed["isolation"] = "hardware";
      CO_OK(sys::replace_file(path, json::serialize(changed)));
      const auto loaded = co_await engine->load(directory, in_seconds(60));
      EXPECT_FALSE(loaded) << foreign.member;
      if (loaded) continue;
      EXPECT_EQ(loaded.error().code, Code::corrupt) << loaded.error().text();
      EXPECT_THAT(loaded.error().text(), testing::HasSubstr(foreign.reason));
    }
    // Another amount of memory is another device graph.
    json::object larger = record;
    larger["size"].as_object()["memory_mib"] = 512;
    CO_OK(sys::replace_file(path, json::serialize(larger)));
    EXPECT_EQ(co_await load_code(*engine, directory), Code::corrupt);
    CO_OK(sys::replace_file(path, text));
    co_await expect_usable(*engine, directory);
  });
}

// ------------------------------------------------------------------------------------- saved
// states

struct Suspended {
  std::string id;
  std::string directory;
  std::string saved;
};

Task<Result<Suspended>> suspended() {
  FB_CO_TRY_ASSIGN(auto snapshot, co_await world().default_snapshot());
  FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
  FB_CO_TRY(co_await shell(*machine, "echo memory > /dev/shm/m; echo disk > /root/f"));
  FB_CO_TRY(co_await machine->suspend(in_seconds(60)));
  const std::string directory = world().engine().host().machine_dir(machine->id());
  co_return Suspended{machine->id(), directory, directory + "/saved"};
}

// Refused, and still the suspended machine it was: nothing runs, nothing was renamed away.
Task<void> expect_refused(QemuEngine& engine, const Suspended& machine, std::string what) {
  {
    auto resumed = co_await engine.resume(machine.id, in_seconds(60));
    EXPECT_FALSE(resumed) << what;
    if (!resumed)
      EXPECT_EQ(resumed.error().code, Code::corrupt) << what << ": " << resumed.error().text();
  }
  const Leftovers left = world().leftovers();
  EXPECT_THAT(left.processes, testing::IsEmpty()) << what;
  EXPECT_THAT(left.cgroups, testing::IsEmpty()) << what;
  EXPECT_TRUE(sys::exists(machine.saved)) << what;
  EXPECT_FALSE(sys::exists(machine.directory + "/resuming")) << what;
}

Task<void> expect_resumable(QemuEngine& engine, const Suspended& suspended) {
  CO_VALUE(auto machine, co_await engine.resume(suspended.id, in_seconds(60)));
  CO_OK(co_await machine->wake(machine::fresh_identity(suspended.id, 2), in_seconds(60)));
  CO_VALUE(const std::string out, co_await shell(*machine, "cat /dev/shm/m /root/f"));
  EXPECT_EQ(out, "memory\ndisk\n");
  CO_OK(co_await machine->terminate(in_seconds(10)));
}

TEST_F(SavedRefusal, EveryPartIsChecked) {
  run([]() -> Task<void> {
    CO_VALUE(const Suspended machine, co_await suspended());
    const std::uint64_t size = std::filesystem::file_size(machine.saved);
    // magic, RAM size, run count, state length, base hash, checksum; then runs and state; pages at
    // the end.
    const std::pair<const char*, std::uint64_t> parts[] = {{"magic", 0},
                                                           {"RAM size", 15},
                                                           {"run count", 23},
                                                           {"state length", 31},
                                                           {"base", 40},
                                                           {"checksum", 100},
                                                           {"first run", 119},
                                                           {"later run", 112 + 16 * 20 + 5},
                                                           {"first page", size - 4096 * 300},
                                                           {"last page", size - 1}};
    for (const auto& [part, offset] : parts) {
      CO_OK(flip(machine.saved, offset));
      co_await expect_refused(world().engine(), machine, part);
      CO_OK(flip(machine.saved, offset));
    }
    co_await expect_resumable(world().engine(), machine);
  });
}

TEST_F(SavedRefusal, CutAndGrown) {
  run([]() -> Task<void> {
    CO_VALUE(const Suspended machine, co_await suspended());
    const std::uint64_t size = std::filesystem::file_size(machine.saved);
    const std::string copy = machine.directory + "/copy";
    std::filesystem::copy_file(machine.saved, copy);
    for (const std::uint64_t other : {std::uint64_t{0}, std::uint64_t{50}, std::uint64_t{4096},
                                      size - 4096, size - 1, size + 1}) {
      CO_OK(resize(machine.saved, other));
      co_await expect_refused(world().engine(), machine, std::to_string(other) + " bytes");
      std::filesystem::copy_file(copy, machine.saved,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    std::filesystem::remove(copy);
    co_await expect_resumable(world().engine(), machine);
  });
}

TEST_F(SavedRefusal, OfAnotherSnapshotOrOnADamagedOne) {
  run([]() -> Task<void> {
    CO_VALUE(const Suspended machine, co_await suspended());
    CO_VALUE(auto base, co_await world().default_snapshot());
    CO_VALUE(auto other, co_await world().snapshot("other", base->size(), {}, nullptr));
    const std::string path = machine.directory + "/machine.json";
    CO_VALUE(const std::string text, sys::read_file(path));
    CO_VALUE(json::object record, parse_json_object(text));
    record["snapshot"] = other->directory();
    CO_OK(sys::replace_file(path, json::serialize(record)));
    co_await expect_refused(world().engine(), machine, "another snapshot");
    CO_OK(sys::replace_file(path, text));

    // A new daemon has to load the base first.
    auto engine = world().another_engine();
    CO_OK(flip(base->directory() + "/state", 1000));
    co_await expect_refused(*engine, machine, "damaged base");
    CO_OK(flip(base->directory() + "/state", 1000));
    co_await expect_resumable(*engine, machine);
  });
}

// ----------------------------------------------------------------------------------------- base
// RAM

struct Holder {
  machine::ProcessId process;
  std::uint64_t inode = 0;
  std::string text() const {
    return json::serialize(
        json::object{{"pid", process.pid}, {"start_time", process.start_time}, {"inode", inode}});
  }
};

Result<Holder> read_holder(const std::string& directory) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(directory + "/holder.json"));
  FB_TRY_ASSIGN(const json::object record, parse_json_object(text));
  return Holder{
      {record.at("pid").to_number<pid_t>(), record.at("start_time").to_number<std::uint64_t>()},
      record.at("inode").to_number<std::uint64_t>()};
}

Result<> kill_holder(const Holder& holder) {
  FB_TRY_ASSIGN(const auto process, machine::adopt(holder.process));
  FB_TRY(process.kill_and_wait(in_seconds(10)));
  return {};
}

// Moves the copy on disk away while it lives.
class WithoutRamFile {
 public:
  explicit WithoutRamFile(const std::string& directory) : path_(directory + "/ram") {
    std::filesystem::rename(path_, path_ + ".away");
  }
  WithoutRamFile(const WithoutRamFile&) = delete;
  WithoutRamFile& operator=(const WithoutRamFile&) = delete;
  ~WithoutRamFile() { std::filesystem::rename(path_ + ".away", path_); }

 private:
  std::string path_;
};

TEST_F(BaseRam, IsTakenFromTheHolderByANewDaemon) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    {
      co_await expect_usable(*world().another_engine(), snapshot->directory());
    }
    CO_VALUE(const Holder before, read_holder(snapshot->directory()));
    const WithoutRamFile away(snapshot->directory());
    co_await expect_usable(*world().another_engine(), snapshot->directory());
    CO_VALUE(const Holder after, read_holder(snapshot->directory()));
    EXPECT_EQ(after.text(), before.text());
  });
}

TEST_F(BaseRam, IsRebuiltFromTheFileWhenTheHolderIsGone) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    {
      co_await expect_usable(*world().another_engine(), directory);
    }
    CO_VALUE(const Holder killed, read_holder(directory));
    CO_OK(kill_holder(killed));
    {
      const WithoutRamFile away(directory);
      EXPECT_EQ(co_await load_code(*world().another_engine(), directory), Code::not_found);
    }
    co_await expect_usable(*world().another_engine(), directory);
    CO_VALUE(const Holder fresh, read_holder(directory));
    EXPECT_TRUE(machine::is_alive(fresh.process));
    EXPECT_NE(fresh.inode, killed.inode);
  });
}

std::optional<machine::HeldSnapshot> held(const QemuEngine& engine, const std::string& directory) {
  for (const machine::HeldSnapshot& one : engine.held()) {
    if (one.directory == directory) return one;
  }
  return std::nullopt;
}

TEST_F(BaseRam, IsLoadedOnceHoweverManyAskAtTheSameTime) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    {
      co_await expect_usable(*world().another_engine(), directory);
    }
    CO_VALUE(const Holder killed, read_holder(directory));
    CO_OK(kill_holder(killed));
    auto engine = world().another_engine();
    EXPECT_FALSE(held(*engine, directory));
    std::vector<std::shared_ptr<Snapshot>> loaded;
    int left = 2;
    net::Event done(world().io().get_executor());
    const auto load = [&]() -> Task<void> {
      auto one = co_await engine->load(directory, in_seconds(120));
      if (one) loaded.push_back(*one);
      --left;
      done.notify();
    };
    net::TaskGroup loads(world().io().get_executor());
    for (int i = 0; i < 2; ++i) loads.spawn("load", load());
    while (left > 0) (void)co_await done.wait(in_seconds(120));
    CO_ASSERT(loaded.size() == 2);
    EXPECT_EQ(loaded[0], loaded[1]);
    const auto holders = machine::holders_below(directory.substr(0, directory.rfind('/')));
    EXPECT_EQ(std::ranges::count(holders, directory, &machine::FoundHolder::directory), 1);
    // It counts as held also when nobody uses it any more, until it is unloaded.
    loaded.clear();
    const auto unused = held(*engine, directory);
    CO_ASSERT(unused.has_value());
    EXPECT_EQ(unused->users, 0);
    EXPECT_GT(unused->ram_bytes, 0U);
    EXPECT_TRUE(held(*world().another_engine(), directory));
    CO_OK(co_await engine->unload(directory, in_seconds(10)));
    EXPECT_FALSE(held(*engine, directory));
    co_await expect_usable(*world().another_engine(), directory);
  });
}

TEST_F(BaseRam, IsNotTakenFromAnotherProcess) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    const std::string directory = snapshot->directory();
    {
      co_await expect_usable(*world().another_engine(), directory);
    }
    CO_VALUE(const Holder real, read_holder(directory));
    const std::uint64_t size = std::uint64_t{snapshot->size().memory_mib} << 20;
    // Processes that hold memory of their own in the same place.
    const auto other_holder = [](std::uint64_t bytes, bool sealed) -> Result<Holder> {
      const std::string place = world().data_dir() + "/" + world().next_id("holder");
      FB_TRY(sys::mkdirs(place, 0700));
      FB_TRY_ASSIGN(machine::RamImage ram, machine::RamImage::create(bytes));
      if (sealed) FB_TRY(ram.seal());
      FB_TRY(machine::start_holder(world().engine().host().config().holder, place, ram));
      return read_holder(place);
    };
    CO_VALUE(const Holder foreign, other_holder(size, true));
    CO_VALUE(const Holder writable, other_holder(size, false));
    CO_VALUE(const Holder smaller, other_holder(size / 2, true));
    CO_VALUE(const machine::ProcessId self, machine::identify(::getpid()));
    const std::pair<const char*, std::string> records[] = {
        {"a recycled pid",
         Holder{{real.process.pid, real.process.start_time + 1}, real.inode}.text()},
        {"a process without it", Holder{self, real.inode}.text()},
        {"other memory", Holder{foreign.process, real.inode}.text()},
        {"memory that can be written", writable.text()},
        {"memory of another size", smaller.text()},
        {"nonsense", "{\"pid\": -1}"}};
    {
      const WithoutRamFile away(directory);
      auto engine = world().another_engine();
      for (const auto& [what, record] : records) {
        CO_OK(sys::swap_file(directory + "/holder.json", record));
        EXPECT_EQ(co_await load_code(*engine, directory), Code::not_found) << what;
      }
    }
    CO_OK(sys::swap_file(directory + "/holder.json", real.text()));
    co_await expect_usable(*world().another_engine(), directory);
    for (const Holder& holder : {foreign, writable, smaller}) CO_OK(kill_holder(holder));
  });
}

// A data directory that somebody deletes takes the memory with it that was held for it.
TEST_F(BaseRam, IsNotHeldForADirectoryThatIsGone) {
  const std::string place = world().data_dir() + "/" + world().next_id("holder");
  ASSERT_TRUE(sys::mkdirs(place, 0700));
  auto ram = machine::RamImage::create(1 << 20);
  ASSERT_TRUE(ram && ram->seal());
  ASSERT_TRUE(machine::start_holder(world().engine().host().config().holder, place, *ram));
  const auto holder = read_holder(place);
  ASSERT_TRUE(holder) << holder.error().text();
  const auto process = machine::adopt(holder->process);
  ASSERT_TRUE(process) << process.error().text();
  ASSERT_TRUE(machine::adopt_from_holder(place, 1 << 20));
  ASSERT_TRUE(sys::remove_tree(place));
  EXPECT_TRUE(process->wait(in_seconds(20)));
}

}  // namespace
}  // namespace firebreak::testing_support
