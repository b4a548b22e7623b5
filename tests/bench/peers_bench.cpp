#include "bench/peers_bench.h"

#include <memory>

#include <sys/mount.h>

#include "base/json.h"
#include "base/sys.h"
#include "bench/commands.h"

namespace firebreak::bench {
namespace {

// The base disk mounted read-only for the time of the measurement.
class MountedDisk {
 public:
  static Result<std::unique_ptr<MountedDisk>> mount(const std::string& disk,
                                                    const std::string& at) {
    FB_TRY(sys::mkdirs(at, 0755));
    FB_TRY(time_command({"mount", "-o", "loop,ro", disk, at}));
    return std::unique_ptr<MountedDisk>(new MountedDisk(at));
  }
  MountedDisk(const MountedDisk&) = delete;
  MountedDisk& operator=(const MountedDisk&) = delete;
  ~MountedDisk() { ::umount2(at_.c_str(), MNT_DETACH); }
  const std::string& at() const { return at_; }

 private:
  explicit MountedDisk(std::string at) : at_(std::move(at)) {}
  std::string at_;
};

Result<Samples> time_runsc(const std::string& root, const std::string& scratch,
                           const json::array& argv, int count) {
  const std::string bundle = scratch + "/bundle";
  FB_TRY(sys::mkdirs(bundle, 0755));
  const json::object config{
      {"ociVersion", "1.0.2"},
      {"process",
       {{"terminal", false},
        {"user", {{"uid", 0}, {"gid", 0}}},
        {"args", argv},
        {"env", {"PATH=/usr/bin:/bin"}},
        {"cwd", "/"}}},
      {"root", {{"path", root}, {"readonly", false}}},
      {"hostname", "peer"},
      {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
      {"linux",
       {{"namespaces",
         {{{"type", "pid"}},
          {{"type", "ipc"}},
          {{"type", "uts"}},
          {{"type", "mount"}},
          {{"type", "network"}}}}}}};
  FB_TRY(sys::swap_file(bundle + "/config.json", json::serialize(config), 0644));
  Samples samples;
  for (int i = 0; i <= count; ++i) {
    const std::string id = "peer-" + std::to_string(i) + "-" + sys::random_hex(3);
    FB_TRY_ASSIGN(const double ms,
                  time_command({"runsc", "--root", scratch + "/runsc", "--network", "none",
                                "--ignore-cgroups", "--platform", "systrap",
                                "--overlay2=root:memory", "run", "-bundle", bundle, id}));
    if (i > 0) samples.add(ms);
  }
  return samples;
}

std::vector<std::string> bwrap(const std::string& root, std::vector<std::string> argv) {
  std::vector<std::string> line{"bwrap", "--unshare-all", "--ro-bind", root,      "/",   "--proc",
                                "/proc", "--dev",         "/dev",      "--tmpfs", "/tmp"};
  line.insert(line.end(), argv.begin(), argv.end());
  return line;
}

}  // namespace

Result<> bench_peers(Report& report, const std::string& base_disk, const std::string& scratch,
                     int count) {
  FB_TRY_ASSIGN(auto disk, MountedDisk::mount(base_disk, scratch + "/root"));
  FB_TRY_ASSIGN(const Samples runsc_true, time_runsc(disk->at(), scratch, {"/bin/true"}, count));
  report.time("runsc_true", runsc_true);
  FB_TRY_ASSIGN(const Samples runsc_python,
                time_runsc(disk->at(), scratch, {"/usr/bin/python3", "-c", "1"}, count));
  report.time("runsc_python", runsc_python);
  FB_TRY_ASSIGN(const Samples bwrap_true, time_commands(bwrap(disk->at(), {"/bin/true"}), count));
  report.time("bwrap_true", bwrap_true);
  FB_TRY_ASSIGN(const Samples bwrap_python,
                time_commands(bwrap(disk->at(), {"/usr/bin/python3", "-c", "1"}), count));
  report.time("bwrap_python", bwrap_python);
  return {};
}

}  // namespace firebreak::bench
