// What an image says about how it is run, as its Dockerfile set it. Value; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace firebreak::image {

using EnvList = std::vector<std::pair<std::string, std::string>>;  // in order, each name once

struct Healthcheck {
  std::vector<std::string> test;  // {"NONE"}, {"CMD", ...} or {"CMD-SHELL", text}
  std::chrono::nanoseconds interval{};
  std::chrono::nanoseconds timeout{};
  std::chrono::nanoseconds start_period{};
  std::chrono::nanoseconds start_interval{};
  std::uint32_t retries = 0;
  friend bool operator==(const Healthcheck&, const Healthcheck&) = default;
};

struct ImageConfig {
  EnvList env;
  std::string user;     // empty: root
  std::string workdir;  // empty: /
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> shell;          // empty: /bin/sh -c
  std::vector<std::string> exposed_ports;  // "8080/tcp", in the order of the instructions
  std::map<std::string, std::string> labels;
  std::vector<std::string> volumes;
  std::string stop_signal;  // empty: SIGTERM
  std::optional<Healthcheck> healthcheck;
  std::vector<std::string> onbuild;  // instructions for builds that stand on this image
  std::string author;
  friend bool operator==(const ImageConfig&, const ImageConfig&) = default;
};

}  // namespace firebreak::image
