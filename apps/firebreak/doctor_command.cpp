#include "doctor_command.h"

#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

#include <unistd.h>

#include "base/json.h"
#include "commands.h"
#include "machine/deep_check.h"
#include "machine/host_probe.h"

namespace firebreak::cli {
namespace {

using machine::Accelerator;
using machine::Check;
using machine::CheckStatus;
using machine::DeepStep;
using machine::HostReport;

constexpr int kStatusWidth = 10;
constexpr int kNameWidth = 14;

constexpr const char* kAbout =
    R"(Each line says ok, degraded (microVMs run, but slower, weaker or with less on offer) or missing
(no microVM runs), and the command that repairs it follows after "->".

The accelerator is found by booting a small guest on KVM for at most 5 seconds, because a /dev/kvm
that opens may still not run guests. The verdict is kept in DATA-DIR/probe.json until the kernel,
QEMU, the CPU or the guest files change.

Exit status: 0 nothing is missing, 1 something is missing, 2 wrong usage.)";

struct DoctorOptions {
  std::string guest_dir;
  bool json = false;
  bool deep = false;
  bool fresh = false;
};

class Table {
 public:
  Table() : colour_(::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {}

  void line(const Check& check) const {
    std::cout << status(check.status) << std::left << std::setw(kNameWidth) << check.name
              << check.text << "\n";
    if (!check.repair.empty())
      std::cout << std::string(kStatusWidth + kNameWidth, ' ') << "-> " << check.repair << "\n";
    std::cout << std::flush;
  }

  void line(const DeepStep& step) const {
    Check check = step.check;
    const std::string took = std::to_string(step.took.count()) + " ms";
    check.text = check.text.empty() ? took : took + ": " + check.text;
    line(check);
  }

  void summary(const std::string& text, bool good) const {
    std::cout << "\n" << painted(text, good ? "32" : "31") << "\n";
  }

 private:
  std::string painted(const std::string& text, const char* paint) const {
    return colour_ ? "\x1b[" + std::string(paint) + "m" + text + "\x1b[0m" : text;
  }

  std::string status(CheckStatus status) const {
    std::string word(to_string(status));
    const std::string padding(kStatusWidth - word.size(), ' ');
    switch (status) {
      case CheckStatus::ok:
        return painted(word, "32") + padding;
      case CheckStatus::degraded:
        return painted(word, "33") + padding;
      case CheckStatus::missing:
        break;
    }
    return painted(word, "31") + padding;
  }

  bool colour_;
};

json::object to_json(const Check& check) {
  json::object object{
      {"name", check.name}, {"status", to_string(check.status)}, {"text", check.text}};
  if (!check.repair.empty()) object["repair"] = check.repair;
  return object;
}

json::object to_json(const HostReport& report, const std::vector<DeepStep>& deep, bool ok) {
  json::array checks;
  for (const Check& check : report.checks) checks.push_back(to_json(check));
  json::array steps;
  for (const DeepStep& step : deep) {
    json::object object = to_json(step.check);
    object["ms"] = step.took.count();
    steps.push_back(std::move(object));
  }
  return {{"ok", ok},
          {"version", FIREBREAK_VERSION},
          {"accelerator", to_string(report.accelerator)},
          {"isolation", to_string(isolation_of(report.accelerator))},
          {"checks", std::move(checks)},
          {"deep", std::move(steps)}};
}

std::string summary_of(const HostReport& report, const std::vector<DeepStep>& deep) {
  std::string failed;
  const auto note = [&failed](const Check& check) {
    if (check.status == CheckStatus::missing) failed += (failed.empty() ? "" : ", ") + check.name;
  };
  for (const Check& check : report.checks) note(check);
  for (const DeepStep& step : deep) note(step.check);
  if (!failed.empty()) return "this host cannot run microVMs yet; see " + failed;
  return std::string("this host can run microVMs with ") +
         (report.accelerator == Accelerator::kvm ? "KVM" : "TCG") + " (" +
         std::string(to_string(isolation_of(report.accelerator))) + " isolation)";
}

int run_doctor(const DoctorOptions& options, const std::string& data_dir,
               const std::string& program_dir) {
  machine::ProbeConfig config;
  config.paths = {.data_dir = std::filesystem::absolute(data_dir).string(),
                  .guest_dir = std::filesystem::absolute(options.guest_dir).string(),
                  .holder = program_dir + "/firebreak-holder"};
  config.fresh = options.fresh;
  const Table table;
  const auto print = [&](const auto& item) {
    if (!options.json) table.line(item);
  };
  const HostReport report = machine::probe_host(config, print);
  std::vector<DeepStep> deep;
  if (options.deep) {
    if (!options.json) std::cout << "\n";
    deep = machine::run_deep_check(config.paths, report.accelerator, print);
  }
  bool ok = !any_missing(report.checks);
  for (const DeepStep& step : deep) ok = ok && step.check.status != CheckStatus::missing;
  if (options.json) {
    std::cout << json::serialize(to_json(report, deep, ok)) << "\n";
  } else {
    table.summary(summary_of(report, deep), ok);
  }
  return ok ? 0 : 1;
}

}  // namespace

void add_doctor_command(Command& root, const std::string& data_dir,
                        const std::string& program_dir) {
  auto options = std::make_shared<DoctorOptions>();
  options->guest_dir = program_dir + "/guest";
  Command& doctor = root.add("doctor", "Check what this host can do for microVMs");
  doctor.group(kServerGroup).about(kAbout);
  doctor.flag("--deep", options->deep,
              "Also run a microVM through its whole life, and check that nothing is left");
  doctor.flag("--fresh", options->fresh, "Try KVM again, whatever was found before");
  doctor.flag("--json", options->json, "Print JSON");
  doctor
      .option("--guest-dir", options->guest_dir, "DIR",
              "Holds vmlinux, initramfs.cpio and base.ext4")
      .fallback("'guest' beside the program")
      .environment("FIREBREAK_GUEST_DIR")
      .kind(ValueKind::directory);
  doctor.example("firebreak doctor", "look");
  doctor.example("firebreak doctor --deep", "look, then boot, suspend, resume and fork a microVM");
  doctor.run(
      [options, &data_dir, program_dir] { return run_doctor(*options, data_dir, program_dir); });
}

}  // namespace firebreak::cli
