// Clones of one snapshot: each is somebody else, none sees another, and what they share never
// changes.
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/hash.h"
#include "support/environment.h"
#include "vm/probe.h"

namespace firebreak::testing_support {
namespace {

class Clones : public VmTest {};

// Everything that clones share: base disk, and the snapshot's files. The base is mostly holes, and
// far too large to be read each time: a write would change its time.
Result<std::map<std::string, std::string>> shared_files(const Snapshot& snapshot) {
  std::map<std::string, std::string> sums;
  struct stat base{};
  if (::stat(world().base_disk().c_str(), &base) != 0) return fail_errno("stat of the base disk");
  sums["base"] = std::to_string(base.st_mtim.tv_sec) + "." + std::to_string(base.st_mtim.tv_nsec) +
                 " " + std::to_string(base.st_blocks);
  for (const char* name : {"ram", "state", "disk.qcow2", "snapshot.json"}) {
    FB_TRY_ASSIGN(sums[name], machine::sha256_file(snapshot.directory() + "/" + name));
  }
  return sums;
}

// Paths of the descriptors through which a QEMU holds the snapshot's RAM.
std::vector<std::string> ram_descriptors(pid_t pid) {
  std::vector<std::string> found;
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  auto names = sys::list_dir(directory);
  if (!names) return found;
  for (const std::string& name : *names) {
    std::error_code ec;
    const std::string path = directory + "/" + name;
    const auto target = std::filesystem::read_symlink(path, ec);
    if (!ec && target.string().starts_with("/memfd:firebreak-ram")) found.push_back(path);
  }
  return found;
}

struct Pair {
  std::unique_ptr<Machine> machines[2];
};

Task<Result<Pair>> launch_pair(std::shared_ptr<Snapshot> snapshot) {
  Pair pair;
  for (auto& machine : pair.machines) {
    FB_CO_TRY_ASSIGN(machine, co_await world().launch(snapshot));
  }
  co_return pair;
}

Task<void> end_pair(Pair& pair) {
  for (auto& machine : pair.machines) CO_OK(co_await machine->terminate(in_seconds(10)));
}

// 50 with ./dev test --long.
TEST_F(Clones, EachIsADifferentMachine) {
  run([]() -> Task<void> {
    const std::uint64_t clones = how_many(20);
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(true));
    CO_VALUE(const auto before, shared_files(*base.snapshot));
    std::set<std::string> randoms;
    std::set<std::string> machine_ids;
    std::set<std::string> hostnames;
    for (std::uint64_t clone = 0; clone < clones; clone += 2) {
      Pair pair;
      std::uint64_t generation = clone;
      for (auto& machine : pair.machines) {
        const std::string id = world().next_id("clone");
        CO_VALUE(machine,
                 co_await world().engine().restore(base.snapshot, {.id = id}, in_seconds(120)));
        CO_OK(co_await machine->wake(machine::fresh_identity(id, ++generation), in_seconds(60)));
      }
      generation = clone;
      for (auto& machine : pair.machines) {
        Probe probe = base.probe;
        CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
        CO_ASSERT(report.crossings.size() == 1);
        const Sample& first = report.crossings[0].after;
        EXPECT_EQ(first.hostname, machine->id());
        EXPECT_NE(first.random, report.crossings[0].before.random);
        randoms.insert(first.random);
        machine_ids.insert(first.machine_id);
        hostnames.insert(first.hostname);
        CO_VALUE(const auto health, co_await machine->agent().health(in_seconds(60)));
        EXPECT_EQ(health.generation, ++generation);
      }
      co_await end_pair(pair);
    }
    EXPECT_EQ(randoms.size(), clones);
    EXPECT_EQ(machine_ids.size(), clones);
    EXPECT_EQ(hostnames.size(), clones);
    CO_VALUE(const auto after, shared_files(*base.snapshot));
    EXPECT_EQ(after, before);
  });
}

TEST_F(Clones, NeverSeeEachOthersWrites) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(const auto before, shared_files(*snapshot));
    CO_VALUE(Pair pair, co_await launch_pair(snapshot));
    for (auto& machine : pair.machines) {
      CO_OK(co_await shell(
          *machine, "for f in /root/same /etc/debian_version /dev/shm/same; do echo " +
                        machine->id() + " > $f; done; head -c 4M /dev/urandom > /root/big; sync"));
    }
    // Again, so that each was written after the other had read and written.
    for (int round = 0; round < 2; ++round) {
      for (auto& machine : pair.machines) {
        CO_VALUE(const std::string seen,
                 co_await shell(*machine,
                                // From the disk, not from the page cache.
                                "for f in /root/same /etc/debian_version; do "
                                "dd if=$f iflag=nocache count=0 2> /dev/null; done; "
                                "cat /root/same /etc/debian_version /dev/shm/same; "
                                "echo again >> /root/other; wc -l < /root/other"));
        const std::string line = machine->id() + "\n";
        EXPECT_EQ(seen, line + line + line + std::to_string(round + 1) + "\n");
      }
    }
    co_await end_pair(pair);
    CO_VALUE(const auto after, shared_files(*snapshot));
    EXPECT_EQ(after, before);
    // A clone made later knows nothing of them.
    CO_VALUE(auto later, co_await world().launch(snapshot));
    CO_VALUE(const std::string names, co_await shell(*later, "ls -A /root /dev/shm"));
    EXPECT_THAT(names, testing::Not(testing::HasSubstr("same")));
    CO_OK(co_await later->terminate(in_seconds(10)));
  });
}

TEST_F(Clones, SharedMemoryCannotBeWrittenByAnybody) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    const auto descriptors = ram_descriptors(machine->pid());
    CO_ASSERT(!descriptors.empty());
    for (const std::string& path : descriptors) {
      CO_VALUE(const UniqueFd fd, sys::open(path, O_RDWR));
      EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
      EXPECT_EQ(errno, EPERM);
      EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
      EXPECT_EQ(errno, EPERM);
      EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
      EXPECT_EQ(errno, EPERM);
      EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
      EXPECT_EQ(errno, EPERM);
    }
    CO_VALUE(const std::string out, co_await shell(*machine, "echo alive"));
    EXPECT_EQ(out, "alive\n");
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
