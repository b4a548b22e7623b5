// `firebreak doctor` as users run it: the real program, its answers, its exit status, its time, and
// what it leaves on the host.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/deadline.h"
#include "base/json.h"
#include "base/sys.h"
#include "support/environment.h"

namespace firebreak {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::environment_or_die;

// On a host where KVM hangs guests the trial takes its whole five seconds.
constexpr std::chrono::seconds kQuick{10};
constexpr std::chrono::seconds kInstant{3};

struct Finished {
  int status = 0;  // of waitpid
  std::string output;
  std::chrono::nanoseconds took{};

  int exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  int signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
};

// Standard output and standard error together. `interrupt_at`: sends SIGINT once this was printed.
Finished run(const std::vector<std::string>& command, const std::string& interrupt_at = "") {
  Finished result;
  const auto began = Deadline::Clock::now();
  auto pipe = sys::pipe();
  if (!pipe) return result;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->second.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->second.get(), STDERR_FILENO);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << command[0];
  if (error != 0) return result;
  pipe->second.reset();
  bool interrupted = interrupt_at.empty();
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(pipe->first.get(), buffer, sizeof buffer)) > 0) {
    result.output.append(buffer, static_cast<std::size_t>(n));
    if (!interrupted && result.output.find(interrupt_at) != std::string::npos) {
      // Into the middle of what comes next.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(pid, SIGINT);
      interrupted = true;
    }
  }
  ::waitpid(pid, &result.status, 0);
  result.took = Deadline::Clock::now() - began;
  return result;
}

class Doctor : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    program() = environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak";
    data_dir() = std::filesystem::temp_directory_path() / ("firebreak-cli-" + sys::random_hex(4));
    environment_or_die("FIREBREAK_GUEST_DIR");
    // Left by others, for example by a killed test: not ours.
    cgroups_before() = doctor_cgroups();
  }
  static void TearDownTestSuite() { (void)sys::remove_tree(data_dir()); }

  void TearDown() override {
    // The verdict and QEMU's runtime copy are kept on purpose.
    if (const auto names = sys::list_dir(data_dir())) {
      EXPECT_THAT(*names, testing::IsSubsetOf({"probe.json", "runtime"}));
    }
    expect_no_cgroup_left();
  }

  // Servers and doctors of other programs have such cgroups too, for seconds. What ours left stays.
  static void expect_no_cgroup_left() {
    const Deadline deadline = Deadline::in(std::chrono::seconds(60));
    for (;;) {
      const auto found = doctor_cgroups();
      const bool none = std::ranges::includes(cgroups_before(), found);
      if (none) return;
      if (deadline.passed()) {
        ADD_FAILURE() << "left: " << testing::PrintToString(found);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  static std::vector<std::string> doctor_cgroups() {
    std::vector<std::string> found;
    const std::string root = "/sys/fs/cgroup";
    std::vector<std::string> parents{root};
    if (const auto names = sys::list_dir(root))
      for (const std::string& name : *names) parents.push_back(root + "/" + name);
    for (const std::string& parent : parents) {
      const auto names = sys::list_dir(parent);
      if (!names) continue;
      for (const std::string& name : *names)
        if (name.starts_with("firebreak-doctor-") || name.starts_with("firebreak-probe-"))
          found.push_back(std::filesystem::path(parent) / name);
    }
    std::ranges::sort(found);
    return found;
  }

  static std::string& program() {
    static std::string path;
    return path;
  }
  static std::string& data_dir() {
    static std::string path;
    return path;
  }
  static std::vector<std::string>& cgroups_before() {
    static std::vector<std::string> paths;
    return paths;
  }

  static Finished doctor(std::vector<std::string> options) {
    std::vector<std::string> command{program(), "doctor", "--data-dir", data_dir()};
    command.insert(command.end(), options.begin(), options.end());
    return run(command);
  }
  // In a mount namespace of its own, after `prepare`.
  static Finished doctor_after(const std::string& prepare, const std::string& options) {
    return run(
        {"unshare", "-m", "sh", "-c",
         prepare + " && exec " + program() + " doctor --data-dir " + data_dir() + " " + options});
  }
  static json::object parsed(const Finished& result) {
    auto object = parse_json_object(result.output);
    EXPECT_TRUE(object) << result.output;
    return object ? *object : json::object();
  }
  static std::string text(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
  }
};

TEST_F(Doctor, FindsTheAcceleratorInSecondsAndRemembersIt) {
  const Finished first = doctor({"--json"});
  EXPECT_LT(first.took, kQuick);
  const json::object report = parsed(first);
  ASSERT_EQ(first.exit_code(), 0) << first.output;
  EXPECT_THAT(text(report, "accelerator"), testing::AnyOf("kvm", "tcg"));
  EXPECT_EQ(text(report, "isolation"),
            text(report, "accelerator") == "kvm" ? "hardware" : "emulated");

  const Finished second = doctor({"--json"});
  EXPECT_LT(second.took, kInstant);
  EXPECT_EQ(text(parsed(second), "accelerator"), text(report, "accelerator"));
}

TEST_F(Doctor, JsonHasEveryCheckAndARepairForEachThatFails) {
  const Finished result = doctor({"--json"});
  const json::object report = parsed(result);
  const json::value* ok = report.if_contains("ok");
  ASSERT_TRUE(ok != nullptr && ok->is_bool());
  EXPECT_EQ(result.exit_code(), ok->as_bool() ? 0 : 1);
  std::vector<std::string> names;
  for (const json::value& value : report.at("checks").as_array()) {
    const json::object& check = value.as_object();
    names.push_back(text(check, "name"));
    EXPECT_THAT(text(check, "status"), testing::AnyOf("ok", "degraded", "missing"));
    EXPECT_NE(text(check, "text"), "");
    EXPECT_EQ(text(check, "repair").empty(), text(check, "status") == "ok") << names.back();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "architecture", "kernel", "privileges", "namespaces", "cgroup", "memfd",
                         "memory", "disk", "packages", "nftables", "tun", "forwarding", "qemu",
                         "guest", "holder", "accelerator"));
  EXPECT_THAT(report.at("deep").as_array(), IsEmpty());
}

TEST_F(Doctor, TableEndsWithASummaryAndHasNoColourInAPipe) {
  const Finished result = doctor({});
  EXPECT_EQ(result.exit_code(), 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\nthis host can run microVMs with "));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("\x1b")));
}

TEST_F(Doctor, DeepRunsAWholeLifeAndLeavesNothing) {
  const Finished result = doctor({"--deep", "--json"});
  EXPECT_EQ(result.exit_code(), 0) << result.output;
  const json::object report = parsed(result);
  std::vector<std::string> names;
  for (const json::value& value : report.at("deep").as_array()) {
    const json::object& step = value.as_object();
    names.push_back(text(step, "name"));
    EXPECT_EQ(text(step, "status"), "ok") << names.back() << ": " << text(step, "text");
    EXPECT_TRUE(step.contains("ms"));
  }
  EXPECT_THAT(names, testing::ElementsAre("boot", "exec", "snapshot", "clone", "suspend", "resume",
                                          "fork", "terminate", "leaks"));
}

TEST_F(Doctor, InterruptedItCleansUpFirst) {
  // The line before the trial on KVM, before the boot, and before a resume.
  struct Moment {
    std::string option;
    std::string after;
  };
  std::vector<Moment> moments{{"--deep", " accelerator "}, {"--deep", "ok        suspend "}};
  const Finished fresh = doctor({"--fresh"});
  if (fresh.took > std::chrono::seconds(2)) moments.push_back({"--fresh", " holder "});
  for (const Moment& moment : moments) {
    const Finished result =
        run({program(), "doctor", moment.option, "--data-dir", data_dir()}, moment.after);
    EXPECT_EQ(result.signal(), SIGINT) << moment.after << "\n" << result.output;
    const auto names = sys::list_dir(data_dir());
    ASSERT_TRUE(names);
    EXPECT_THAT(*names, testing::IsSubsetOf({"probe.json", "runtime"})) << moment.after;
  }
}

TEST_F(Doctor, MissingGuestFilesAreNamedWithTheirRepair) {
  const Finished result = doctor({"--guest-dir", "/nonexistent", "--deep", "--json"});
  EXPECT_EQ(result.exit_code(), 1);
  const json::object report = parsed(result);
  EXPECT_FALSE(report.at("ok").as_bool());
  for (const json::value& value : report.at("checks").as_array()) {
    const json::object& check = value.as_object();
    if (text(check, "name") != "guest") continue;
    EXPECT_EQ(text(check, "status"), "missing");
    EXPECT_THAT(text(check, "repair"), HasSubstr("./dev build"));
  }
}

TEST_F(Doctor, ADeviceThatCannotBeOpenedMeansTcgAtOnce) {
  if (!sys::exists("/dev/kvm")) GTEST_SKIP() << "there is no /dev/kvm to take away";
  const Finished result = doctor_after(
      "mount --bind /dev/kvm /dev/kvm && mount -o remount,bind,nodev /dev/kvm", "--fresh --json");
  EXPECT_LT(result.took, kInstant);
  EXPECT_EQ(result.exit_code(), 0) << result.output;
  EXPECT_EQ(text(parsed(result), "accelerator"), "tcg");
}

TEST_F(Doctor, ADeviceThatIsNoKvmMeansTcgAndIsNotRemembered) {
  if (!sys::exists("/dev/kvm")) GTEST_SKIP() << "there is no /dev/kvm to replace";
  const auto before = sys::read_file(data_dir() + "/probe.json");
  const Finished result = doctor_after("mount --bind /dev/null /dev/kvm", "--fresh --json");
  EXPECT_LT(result.took, kQuick);
  EXPECT_EQ(result.exit_code(), 0) << result.output;
  EXPECT_EQ(text(parsed(result), "accelerator"), "tcg");
  const auto after = sys::read_file(data_dir() + "/probe.json");
  EXPECT_EQ(before.has_value(), after.has_value());
  if (before && after) EXPECT_EQ(*before, *after);
}

// What microVMs' networks need: without it the rest works, and each line says the repair.
TEST_F(Doctor, SaysWhatNetworksLack) {
  const auto line = [](const Finished& result, std::string_view name) {
    for (const json::value& value : parsed(result).at("checks").as_array())
      if (text(value.as_object(), "name") == name) return value.as_object();
    return json::object();
  };
  const Finished without_tun = doctor_after(
      "mount --bind /dev/net/tun /dev/net/tun && mount -o remount,bind,nodev /dev/net/tun",
      "--json");
  EXPECT_EQ(without_tun.exit_code(), 0) << without_tun.output;
  EXPECT_EQ(text(line(without_tun, "tun"), "status"), "degraded");
  EXPECT_THAT(text(line(without_tun, "tun"), "repair"), HasSubstr("--device=/dev/net/tun"));

  // In a network namespace of its own, because it is switched off there.
  const Finished read_only = run({"unshare", "-n", "-m", "sh", "-c",
                                  "echo 0 >/proc/sys/net/ipv4/ip_forward && mount --bind /proc/sys "
                                  "/proc/sys && mount -o remount,bind,ro /proc/sys && exec " +
                                      program() + " doctor --json --data-dir " + data_dir()});
  EXPECT_EQ(read_only.exit_code(), 0) << read_only.output;
  EXPECT_EQ(text(line(read_only, "forwarding"), "status"), "degraded");
  EXPECT_THAT(text(line(read_only, "forwarding"), "repair"), HasSubstr("ip_forward=1"));

  const Finished without_capability =
      run({"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", program(), "doctor",
           "--json", "--data-dir", data_dir()});
  EXPECT_EQ(without_capability.exit_code(), 0) << without_capability.output;
  EXPECT_EQ(text(line(without_capability, "privileges"), "status"), "degraded");
  EXPECT_THAT(text(line(without_capability, "privileges"), "repair"), HasSubstr("NET_ADMIN"));
  EXPECT_EQ(text(line(without_capability, "tun"), "status"), "degraded");
}

TEST_F(Doctor, WrongUsageIsTwo) {
  EXPECT_EQ(run({program()}).exit_code(), 2);
  EXPECT_EQ(run({program(), "frobnicate"}).exit_code(), 2);
  EXPECT_EQ(run({program(), "doctor", "--frobnicate"}).exit_code(), 2);
  EXPECT_EQ(run({program(), "doctor", "--data-dir"}).exit_code(), 2);
}

TEST_F(Doctor, HelpAndVersionAreZero) {
  const Finished help = run({program(), "--help"});
  EXPECT_EQ(help.exit_code(), 0);
  EXPECT_THAT(help.output, HasSubstr("doctor"));
  const Finished doctor_help = run({program(), "doctor", "--help"});
  EXPECT_EQ(doctor_help.exit_code(), 0);
  EXPECT_THAT(doctor_help.output, HasSubstr("Exit status"));
  const Finished version = run({program(), "--version"});
  EXPECT_EQ(version.exit_code(), 0);
  EXPECT_THAT(version.output, testing::StartsWith("firebreak "));
}

}  // namespace
}  // namespace firebreak
