#include "bench/build_bench.h"

#include <filesystem>
#include <fstream>

#include <stdlib.h>

#include "server/server_process.h"

namespace firebreak::bench {
namespace {

using testing_support::ServerProcess;
namespace fs = std::filesystem;

// Removes itself.
class Directory {
 public:
  Directory() {
    char path[] = "/tmp/fb-bench-XXXXXX";
    if (::mkdtemp(path) != nullptr) path_ = path;
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr const char* kDockerfile = R"(FROM firebreak/python:3.11
RUN head -c 20M /dev/urandom > /early
WORKDIR /srv
COPY data .
RUN cp data copy
EXPOSE 8080
CMD ["python3", "-m", "http.server", "8080"]
)";

Result<double> build(ServerProcess& server, const std::string& name, const Directory& context,
                     std::vector<std::string> more = {}, std::string* log = nullptr) {
  std::vector<std::string> words{"image", "build", name, context.path()};
  words.insert(words.end(), more.begin(), more.end());
  const Timer timer;
  const auto done = server.cli(words);
  if (done.status != 0) return fail(Code::internal, "image build: " + done.err);
  const double took = timer.ms();
  if (log != nullptr) *log = done.err;
  return took;
}

// Of the log of a build: how long its layers took to become one disk.
Result<double> flatten_ms(const std::string& log) {
  constexpr std::string_view kBefore = ", flatten ";
  const auto at = log.rfind(kBefore);
  if (at == std::string::npos) return fail(Code::internal, "the build's log names no flattening");
  return std::strtod(log.c_str() + at + kBefore.size(), nullptr);
}

// Megabytes a second, reading a file of the image's disk past the page cache of the guest.
Result<double> read_speed(ServerProcess& server, const std::string& image) {
  std::string id = server.cli({"run", image}).out;
  while (id.ends_with('\n')) id.pop_back();
  constexpr const char* kRead =
      "import os,time\n"
      "fd = os.open('/early', os.O_RDONLY | os.O_DIRECT)\n"
      "import mmap\n"
      "room = mmap.mmap(-1, 1 << 20)\n"
      "began = time.monotonic()\n"
      "total = 0\n"
      "while (n := os.readv(fd, [room])) > 0: total += n\n"
      "print(total / (time.monotonic() - began) / 1e6)\n";
  const auto done = server.cli({"exec", id, "--", "python3", "-c", kRead});
  server.cli({"kill", id});
  if (done.status != 0) return fail(Code::internal, "reading in the guest: " + done.err);
  return std::stod(done.out);
}

Result<> bench_depth(Report& report, ServerProcess& server) {
  for (const int layers : {1, 20}) {
    const Directory context;
    std::string text = "FROM firebreak/python:3.11\nRUN head -c 40M /dev/urandom > /early\n";
    for (int i = 1; i < layers; ++i) text += "RUN echo " + std::to_string(i) + " >> /steps\n";
    context.put("Dockerfile", text);
    const std::string name = "layers" + std::to_string(layers);
    FB_TRY(build(server, name, context));
    FB_TRY_ASSIGN(const double speed, read_speed(server, name));
    report.value("disk_read_" + std::to_string(layers) + "_layers", speed, "MB/s in a clone");
  }
  report.require("disk read of an image of 1 layer / of 20 layers",
                 report.get("disk_read_1_layers") / report.get("disk_read_20_layers"), 1.25);
  return {};
}

}  // namespace

Result<> bench_builds(Report& report, int count) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0", "--pool-least=0"});
  if (!server.start()) return fail(Code::internal, "the server does not start", server.log());
  const Directory context;
  context.put("Dockerfile", kDockerfile);
  context.put("data", "first\n");
  FB_TRY(build(server, "warm", context));  // freezes the kernel that build machines start from
  Samples cold;
  Samples cached;
  Samples changed;
  Samples first;
  Samples flatten;
  for (int i = 0; i < count; ++i) {
    std::string log;
    FB_TRY_ASSIGN(const double cold_ms, build(server, "bench", context, {"--no-cache"}, &log));
    cold.add(cold_ms);
    FB_TRY_ASSIGN(const double flatten_took, flatten_ms(log));
    flatten.add(flatten_took);
    // An order that is the same to the byte would make nothing at all.
    context.put("unused", "same " + std::to_string(i) + "\n");
    FB_TRY_ASSIGN(const double same_ms, build(server, "bench", context));
    (void)same_ms;  // stands on the layers of the build without cache
    context.put("unused", "cached " + std::to_string(i) + "\n");
    FB_TRY_ASSIGN(const double cached_ms, build(server, "bench", context));
    cached.add(cached_ms);
    context.put("data", "changed " + std::to_string(i) + "\n");
    FB_TRY_ASSIGN(const double changed_ms, build(server, "bench", context));
    changed.add(changed_ms);
    const Timer timer;
    std::string id = server.cli({"run", "bench"}).out;
    first.add(timer.ms());
    while (id.ends_with('\n')) id.pop_back();
    server.cli({"kill", id});
  }
  report.time("build_cold", cold);
  report.time("build_cached", cached);
  report.time("build_one_file_changed", changed);
  report.time("ready_to_first_launch", first);
  report.time("build_flatten", flatten);
  FB_TRY_ASSIGN(const json::object shown,
                parse_json_object(server.cli({"image", "show", "bench:1.0"}).out));
  if (const json::value* bytes = shown.if_contains("diskBytes"))
    report.value("build_flatten_mb", bytes->to_number<double>() / 1e6, "MB written");
  report.require("build_cached, ms", cached.p50(), 1000);
  report.require("build_one_file_changed / build_cold", changed.p50() / cold.p50(), 1);
  return bench_depth(report, server);
}

}  // namespace firebreak::bench
