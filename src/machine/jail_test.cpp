#include "machine/jail.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/runtime_root.h"

namespace firebreak::machine {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uid_t kUid = 901000;
constexpr int kQmpFd = 3;
constexpr int kMemoryFd = 4;
constexpr std::size_t kGuestBytes = 64 << 20;

class JailTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_dir_ = std::filesystem::temp_directory_path() / ("fb-jail-" + sys::random_hex(4));
    auto root = prepare_runtime_root(data_dir_);
    ASSERT_TRUE(root) << root.error().text();
    root_ = *root;
  }
  static void TearDownTestSuite() { EXPECT_TRUE(sys::remove_tree(data_dir_)); }

  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests need root";
    mounts_before_ = mounts();
    auto group =
        groups_.create("vm", {.memory_max_bytes = 512 << 20, .cpu_weight = 100, .pids_max = 64});
    ASSERT_TRUE(group) << group.error().text();
    group_.emplace(*std::move(group));
    stderr_path_ = data_dir_ + "/stderr-" + sys::random_hex(4);
    stderr_ = *sys::open(stderr_path_, O_RDWR | O_CREAT | O_EXCL, 0600);
  }

  void TearDown() override {
    if (group_) EXPECT_TRUE(group_->destroy(Deadline::in(seconds(5))));
    EXPECT_THAT(*groups_.list(), testing::IsEmpty());
    EXPECT_TRUE(groups_.remove());
    EXPECT_EQ(mounts(), mounts_before_);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
  }

  // Without those that servers and tests beside this one make in directories of their own.
  static std::string mounts() {
    const std::string temporary = std::filesystem::temp_directory_path().string() + "/";
    std::string ours;
    const std::string all = *sys::read_file("/proc/self/mountinfo");
    for (const std::string_view line : split(all, '\n')) {
      const auto words = split(line, ' ');
      const std::string_view point = words.size() > 4 ? words[4] : "";
      if (point.starts_with(temporary) && !point.starts_with(data_dir_)) continue;
      ours.append(line).append("\n");
    }
    return ours;
  }

  JailSpec spec(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), root_.qemu_path);
    return {.runtime_root = root_.path,
            .argv = std::move(arguments),
            .pass_fds = {},
            .uid = kUid,
            .gid = kUid,
            .cgroup = *group_,
            .stderr_fd = stderr_.get()};
  }

  // A stopped machine with QMP on a listening socket and its memory in a memfd, both passed in.
  JailSpec machine_spec() {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = data_dir_ + "/q" + sys::random_hex(4);
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    qmp_address_ = address;
    memory_ = UniqueFd(::memfd_create("guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(memory_.get(), kGuestBytes), 0);
    EXPECT_EQ(::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    JailSpec spec =
        this->spec({"-nodefaults",
                    "-no-user-config",
                    "-display",
                    "none",
                    "-S",
                    "-M",
                    "microvm,x-option-roms=off,memory-backend=ram0",
                    "-m",
                    "64M",
                    "-object",
                    "memory-backend-file,id=ram0,size=64M,mem-path=/proc/self/fd/4,share=off",
                    "-accel",
                    "tcg,thread=multi,tb-size=32",
                    "-cpu",
                    "Nehalem,+rdrand,-spec-ctrl",
                    "-object",
                    "rng-builtin,id=r0",
                    "-device",
                    "virtio-rng-device,rng=r0",
                    "-device",
                    "virtio-serial-device",
                    "-chardev",
                    "socket,id=qmp,fd=3,server=on,wait=off",
                    "-mon",
                    "chardev=qmp,mode=control",
                    "-sandbox",
                    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"});
    spec.pass_fds = {{.fd = listener_.get(), .as = kQmpFd}, {.fd = memory_.get(), .as = kMemoryFd}};
    return spec;
  }

  // Connects and waits for the greeting, after which QEMU is fully set up.
  // Answered by QEMU's main loop, so the machine is made and its files are closed: the greeting
  // alone may come from the monitor's own thread while the firmware is still being read.
  UniqueFd connect_qmp() const {
    UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&qmp_address_),
                        sizeof qmp_address_),
              0);
    constexpr std::string_view ask =
        R"({"execute":"qmp_capabilities"}{"execute":"query-status","id":"made"})";
    EXPECT_EQ(::write(client.get(), ask.data(), ask.size()), static_cast<ssize_t>(ask.size()));
    std::string heard;
    char some[1024];
    while (!heard.contains(R"("id": "made")")) {
      const ssize_t got = ::read(client.get(), some, sizeof some);
      if (got <= 0) {
        ADD_FAILURE() << "QMP said only: " << heard << errors();
        break;
      }
      heard.append(some, static_cast<std::size_t>(got));
    }
    return client;
  }

  std::string errors() const { return *sys::read_file(stderr_path_); }

  static std::string proc(const JailedProcess& process, const std::string& file) {
    return "/proc/" + std::to_string(process.id().pid) + "/" + file;
  }

  static std::string status_field(const JailedProcess& process, const std::string& name) {
    const std::string text = *sys::read_file(proc(process, "status"));
    const auto at = text.find("\n" + name + ":\t");
    if (at == std::string::npos) return "absent";
    const auto value = at + name.size() + 3;
    return text.substr(value, text.find('\n', value) - value);
  }

  static inline std::string data_dir_;
  static inline RuntimeRoot root_;
  CgroupRoot groups_{"fb-jail-" + sys::random_hex(4)};
  std::optional<Cgroup> group_;
  std::string mounts_before_;
  std::string stderr_path_;
  UniqueFd stderr_;
  UniqueFd listener_;
  UniqueFd memory_;
  sockaddr_un qmp_address_{};
};

TEST_F(JailTest, OutputAndExitCodeAreSeen) {
  const auto process = spawn_jailed(spec({"--version"}));
  ASSERT_TRUE(process) << process.error().text();
  const auto exit = process->wait(Deadline::in(seconds(20)));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0) << errors();
  EXPECT_THAT(errors(), HasSubstr("QEMU emulator version " + root_.qemu_version));
}

TEST_F(JailTest, HasNoPrivilegesAndOwnNamespaces) {
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  const std::string uid = std::to_string(kUid);
  const std::string four = uid + "\t" + uid + "\t" + uid + "\t" + uid;
  EXPECT_EQ(status_field(*process, "Uid"), four);
  EXPECT_EQ(status_field(*process, "Gid"), four);
  EXPECT_THAT(status_field(*process, "Groups"), testing::AnyOf("", " "));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_EQ(status_field(*process, set), "0000000000000000") << set;
  EXPECT_EQ(status_field(*process, "NoNewPrivs"), "1");
  EXPECT_EQ(status_field(*process, "Seccomp"), "2");
  EXPECT_THAT(status_field(*process, "NSpid"), testing::EndsWith("\t1"));
  EXPECT_THAT(status_field(*process, "Umask"), HasSubstr("077"));
  for (const char* name : {"mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    EXPECT_NE(std::filesystem::read_symlink(proc(*process, std::string("ns/") + name)),
              std::filesystem::read_symlink(std::string("/proc/self/ns/") + name))
        << name;
  }
  EXPECT_EQ(*sys::read_file(proc(*process, "environ")), "");
  // Root may; the machine's own uid may not even look at its own descriptors from another process.
  struct stat st{};
  ASSERT_EQ(::stat(proc(*process, "fd").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0U) << "QEMU is dumpable";
  const std::string limits = *sys::read_file(proc(*process, "limits"));
  EXPECT_THAT(limits, testing::ContainsRegex("Max open files +1024 +1024"));
  EXPECT_THAT(limits, testing::ContainsRegex("Max core file size +[01] +[01]"));
  EXPECT_THAT(limits, testing::ContainsRegex("Max processes +256 +256"));
  EXPECT_EQ(process->kill_and_wait(Deadline::in(seconds(5)))->signal, SIGKILL);
  EXPECT_EQ(errors(), "");
}

TEST_F(JailTest, HasNoHugePages) {
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  EXPECT_EQ(status_field(*process, "THP_enabled"), "0");
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, ReachesOnlyTheManifest) {
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  std::set<std::string> listed;
  for (const RuntimeFile& file : *read_manifest(root_)) listed.insert(file.path);
  const std::string inside = proc(*process, "root");
  std::set<std::string> found;
  for (auto it = std::filesystem::recursive_directory_iterator(inside + "/"); it != end(it); ++it) {
    const std::string path = it->path().string().substr(inside.size());
    if (path == "/proc") {
      it.disable_recursion_pending();
    } else if (!it->is_directory()) {
      found.insert(path);
    }
  }
  EXPECT_EQ(found, listed);
  EXPECT_THAT(*sys::list_dir(inside + "/"),
              testing::UnorderedElementsAre("dev", "lib", "lib64", "proc", "usr"));
  // Of processes it sees itself alone; the rest of /proc is the kernel's, read-only.
  for (const std::string& name : *sys::list_dir(inside + "/proc")) {
    if (parse_u64(name)) EXPECT_EQ(name, "1");
  }

  std::map<std::string, std::string> mounts;
  const std::string mountinfo = *sys::read_file(proc(*process, "mountinfo"));
  for (std::string_view line : split(mountinfo, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() > 6) mounts[std::string(words[4])] = std::string(words[5]);
    EXPECT_THAT(std::string(line), testing::Not(HasSubstr("shared:")));
  }
  EXPECT_EQ(mounts.size(), 2U) << mountinfo;
  EXPECT_THAT(mounts["/"], testing::StartsWith("ro,nosuid,nodev"));
  EXPECT_THAT(mounts["/proc"], testing::StartsWith("ro,nosuid,nodev,noexec"));
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, HasOnlyTheDescriptorsItWasGiven) {
  const auto noise = sys::open("/etc", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(noise);
  ASSERT_EQ(::fcntl(noise->get(), F_SETFD, 0), 0);
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  const auto same = [&](int theirs, int ours) {
    struct stat a{};
    struct stat b{};
    return ::stat(proc(*process, "fd/" + std::to_string(theirs)).c_str(), &a) == 0 &&
           ::fstat(ours, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
  };
  EXPECT_TRUE(same(1, stderr_.get()));
  EXPECT_TRUE(same(2, stderr_.get()));
  EXPECT_TRUE(same(kQmpFd, listener_.get()));
  EXPECT_TRUE(same(kMemoryFd, memory_.get()));
  for (const std::string& name : *sys::list_dir(proc(*process, "fd"))) {
    if (*parse_u64(name) <= kMemoryFd) continue;
    const std::string target = std::filesystem::read_symlink(proc(*process, "fd/" + name)).string();
    EXPECT_THAT(target,
                testing::AnyOf(testing::StartsWith("anon_inode:"), testing::StartsWith("socket:"),
                               HasSubstr("memfd:guest-ram")))
        << name;
  }
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, DescriptorsMayTradeNumbers) {
  const auto first = sys::pipe();
  const auto second = sys::pipe();
  ASSERT_TRUE(first && second);
  JailSpec traded = spec({"-nodefaults", "-M", "none", "-display", "none", "-S"});
  const int a = first->first.get();
  const int b = second->first.get();
  traded.pass_fds = {{.fd = a, .as = b}, {.fd = b, .as = a}, {.fd = a, .as = 40}};
  const auto process = spawn_jailed(traded);
  ASSERT_TRUE(process) << process.error().text();
  struct stat pipe_a{};
  struct stat pipe_b{};
  ASSERT_TRUE(::fstat(a, &pipe_a) == 0 && ::fstat(b, &pipe_b) == 0);
  const auto inode = [&](int fd) {
    struct stat st{};
    EXPECT_EQ(::stat(proc(*process, "fd/" + std::to_string(fd)).c_str(), &st), 0);
    return st.st_ino;
  };
  EXPECT_EQ(inode(b), pipe_a.st_ino);
  EXPECT_EQ(inode(a), pipe_b.st_ino);
  EXPECT_EQ(inode(40), pipe_a.st_ino);
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, IsInItsCgroup) {
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  EXPECT_THAT(*group_->processes(), ElementsAre(process->id().pid));
  const auto usage = group_->usage();
  ASSERT_TRUE(usage) << usage.error().text();
  EXPECT_GT(usage->cpu_usec, 0U);
  EXPECT_GT(usage->memory_bytes, 0U);
  // From inside, the group is the root.
  std::string seen;
  std::thread([&] {
    const auto ns = sys::open(proc(*process, "ns/cgroup"), O_RDONLY);
    if (ns && ::setns(ns->get(), CLONE_NEWCGROUP) == 0)
      seen = *sys::read_file(proc(*process, "cgroup"));
  }).join();
  const bool v2 = probe_cgroups().version == CgroupVersion::v2;
  EXPECT_THAT(seen, HasSubstr(v2 ? "0::/\n" : "memory:/\n"));
  EXPECT_THAT(seen, testing::Not(HasSubstr("fb-jail")));
  ASSERT_TRUE(group_->destroy(Deadline::in(seconds(5))));
  EXPECT_EQ(process->wait(Deadline::in(seconds(5)))->signal, SIGKILL);
}

TEST_F(JailTest, RootReadsAndWritesItsMemory) {
  const auto process = spawn_jailed(machine_spec());
  ASSERT_TRUE(process) << process.error().text();
  const UniqueFd qmp = connect_qmp();
  std::uint64_t start = 0;
  const std::string maps = *sys::read_file(proc(*process, "maps"), 16 << 20);
  for (std::string_view line : split(maps, '\n')) {
    if (line.find("memfd:guest-ram") != std::string_view::npos) {
      start = std::stoull(std::string(line.substr(0, line.find('-'))), nullptr, 16);
      break;
    }
  }
  ASSERT_NE(start, 0U) << maps;
  const auto memory = sys::open(proc(*process, "mem"), O_RDWR);
  ASSERT_TRUE(memory) << memory.error().text();
  const std::string marker = "firebreak";
  ASSERT_TRUE(sys::pwrite_all(memory->get(), std::as_bytes(std::span(marker)), start + 4096));
  std::string back(marker.size(), 0);
  ASSERT_TRUE(sys::pread_all(memory->get(), std::as_writable_bytes(std::span(back)), start + 4096));
  EXPECT_EQ(back, marker);
  const auto pagemap = sys::open(proc(*process, "pagemap"), O_RDONLY);
  ASSERT_TRUE(pagemap);
  std::uint64_t entry = 0;
  ASSERT_TRUE(sys::pread_all(pagemap->get(), std::as_writable_bytes(std::span(&entry, 1)),
                             (start + 4096) / 4096 * 8));
  EXPECT_EQ(entry >> 61, 4U) << "present, not a page of the file: a private copy";
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, JoinsAGivenNetworkNamespace) {
  UniqueFd netns;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0)
      netns.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }).join();
  ASSERT_TRUE(netns);
  JailSpec joined = machine_spec();
  joined.netns_fd = netns.get();
  const auto process = spawn_jailed(joined);
  ASSERT_TRUE(process) << process.error().text();
  struct stat ours{};
  struct stat theirs{};
  ASSERT_EQ(::fstat(netns.get(), &ours), 0);
  ASSERT_EQ(::stat(proc(*process, "ns/net").c_str(), &theirs), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, KvmIsTheOnlyDevice) {
  struct stat host{};
  if (::stat("/dev/kvm", &host) != 0) GTEST_SKIP() << "the host has no /dev/kvm";
  JailSpec with_kvm = machine_spec();
  with_kvm.kvm = true;
  const auto process = spawn_jailed(with_kvm);
  ASSERT_TRUE(process) << process.error().text();
  EXPECT_THAT(*sys::list_dir(proc(*process, "root/dev")), ElementsAre("kvm"));
  struct stat inside{};
  ASSERT_EQ(::stat(proc(*process, "root/dev/kvm").c_str(), &inside), 0);
  EXPECT_EQ(inside.st_rdev, host.st_rdev);
  EXPECT_EQ(inside.st_uid, kUid);
  EXPECT_EQ(inside.st_mode, static_cast<mode_t>(S_IFCHR | 0600));
  EXPECT_THAT(*sys::read_file(proc(*process, "mountinfo")), HasSubstr("/dev ro,nosuid,noexec"));
  EXPECT_TRUE(process->kill_and_wait(Deadline::in(seconds(5))));
}

TEST_F(JailTest, WorksWithCgroupV2) {
  CgroupSupport support = probe_cgroups();
  if (support.v2_mount.empty()) GTEST_SKIP() << "no cgroup2 is mounted";
  support.version = CgroupVersion::v2;
  const CgroupRoot groups("fb-jail-v2-" + sys::random_hex(4), support);
  const auto group = groups.create("vm", {});
  ASSERT_TRUE(group) << group.error().text();
  const JailSpec v1 = machine_spec();
  const auto process = spawn_jailed({.runtime_root = v1.runtime_root,
                                     .argv = v1.argv,
                                     .pass_fds = v1.pass_fds,
                                     .uid = v1.uid,
                                     .gid = v1.gid,
                                     .cgroup = *group,
                                     .stderr_fd = v1.stderr_fd});
  ASSERT_TRUE(process) << process.error().text();
  EXPECT_THAT(*group->processes(), ElementsAre(process->id().pid));
  EXPECT_THAT(*sys::read_file(proc(*process, "cgroup")),
              testing::ContainsRegex("0::/fb-jail-v2-[0-9a-f]+/vm"));
  ASSERT_TRUE(group->destroy(Deadline::in(seconds(5))));
  EXPECT_EQ(process->wait(Deadline::in(seconds(5)))->signal, SIGKILL);
  EXPECT_TRUE(groups.remove());
}

TEST_F(JailTest, AFailedStepIsNamedAndLeavesNothing) {
  JailSpec no_program = spec({});
  no_program.argv = {"/usr/bin/absent"};
  const auto missing = spawn_jailed(no_program);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_EQ(missing.error().message, "jail step 'execute program': No such file or directory");

  JailSpec no_root = spec({"--version"});
  no_root.runtime_root = data_dir_ + "/absent";
  EXPECT_EQ(spawn_jailed(no_root).error().message,
            "jail step 'bind root': No such file or directory");

  const std::string bare = data_dir_ + "/bare";
  ASSERT_TRUE(sys::mkdir(bare, 0755));
  JailSpec no_proc = spec({"--version"});
  no_proc.runtime_root = bare;
  EXPECT_EQ(spawn_jailed(no_proc).error().message,
            "jail step 'mount proc': No such file or directory");

  JailSpec bad_fd = spec({"--version"});
  bad_fd.pass_fds = {{.fd = 4000, .as = 3}};
  EXPECT_EQ(spawn_jailed(bad_fd).error().message,
            "jail step 'duplicate descriptor': Bad file descriptor");

  JailSpec bad_netns = spec({"--version"});
  bad_netns.netns_fd = stderr_.get();
  EXPECT_EQ(spawn_jailed(bad_netns).error().message,
            "jail step 'join network namespace': Invalid argument");
  EXPECT_THAT(*group_->processes(), testing::IsEmpty());
}

TEST_F(JailTest, RefusesWhatIsNoJail) {
  JailSpec as_root = spec({"--version"});
  as_root.uid = 0;
  EXPECT_EQ(spawn_jailed(as_root).error().code, Code::invalid);
  JailSpec low_number = spec({"--version"});
  low_number.pass_fds = {{.fd = stderr_.get(), .as = 2}};
  EXPECT_EQ(spawn_jailed(low_number).error().code, Code::invalid);
  JailSpec twice = spec({"--version"});
  twice.pass_fds = {{.fd = stderr_.get(), .as = 5}, {.fd = stderr_.get(), .as = 5}};
  EXPECT_EQ(spawn_jailed(twice).error().code, Code::invalid);
}

// The child shares our memory for a moment: nothing of what it does to itself may reach us.
TEST_F(JailTest, SpawningChangesNothingOfTheCaller) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, nullptr), 0);
  const auto status_of_caller = [] {
    std::map<std::string, std::string> fields;
    const std::string text = *sys::read_file("/proc/self/status");
    for (std::string_view line : split(text, '\n')) {
      const auto colon = line.find(':');
      const std::string name(line.substr(0, colon));
      if (name.starts_with("Cap") || (name.starts_with("Sig") && name != "SigQ") || name == "Uid" ||
          name == "Gid" || name == "Groups" || name == "NoNewPrivs" || name == "Umask" ||
          name == "FDSize")
        fields[name] = std::string(line);
    }
    return fields;
  };
  const auto before = status_of_caller();
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 3; ++round) {
        const auto process = spawn_jailed(spec({"--version"}));
        ASSERT_TRUE(process) << process.error().text();
        EXPECT_EQ(process->wait(Deadline::in(seconds(20)))->code, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(status_of_caller(), before);
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), dumpable);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
}

}  // namespace
}  // namespace firebreak::machine
