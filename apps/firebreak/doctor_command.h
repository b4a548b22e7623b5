// `firebreak doctor`: what this host can do for microVMs, and what to do about what it cannot.
// Owned by main; one thread.
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace firebreak::cli {

struct DoctorOptions {
  std::string data_dir = "/var/lib/firebreak";
  std::string guest_dir;
  bool json = false;
  bool deep = false;
  bool fresh = false;
};

// `options` must outlive the parsing. `program_dir`: where the program lies.
CLI::App* add_doctor(CLI::App& app, DoctorOptions& options, const std::string& program_dir);
// The exit status: 0 when nothing is missing, else 1.
int run_doctor(const DoctorOptions& options, const std::string& program_dir);

}  // namespace firebreak::cli
