#include "image/image_config_json.h"

#include "base/text.h"

namespace firebreak::image {
namespace {

json::array strings(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& text : list) out.emplace_back(text);
  return out;
}

// A set, as the specification has it: an object with empty members. Order is lost there, so the
// order of ports is kept beside it.
json::object set_of(const std::vector<std::string>& list) {
  json::object out;
  for (const std::string& text : list) out[text] = json::object();
  return out;
}

std::vector<std::string> members(const json::object* object) {
  std::vector<std::string> out;
  if (object == nullptr) return out;
  for (const auto& [key, value] : *object) out.emplace_back(key);
  return out;
}

json::object to_json(const Healthcheck& check) {
  return {{"Test", strings(check.test)},
          {"Interval", check.interval.count()},
          {"Timeout", check.timeout.count()},
          {"StartPeriod", check.start_period.count()},
          {"StartInterval", check.start_interval.count()},
          {"Retries", check.retries}};
}

Result<Healthcheck> healthcheck_from(const json::object& object) {
  JsonReader reader(object, "Healthcheck.");
  using std::chrono::nanoseconds;
  Healthcheck check;
  check.test = reader.strings_or_empty("Test");
  check.interval = nanoseconds(reader.u64_or("Interval", 0));
  check.timeout = nanoseconds(reader.u64_or("Timeout", 0));
  check.start_period = nanoseconds(reader.u64_or("StartPeriod", 0));
  check.start_interval = nanoseconds(reader.u64_or("StartInterval", 0));
  check.retries =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(reader.u64_or("Retries", 0), UINT32_MAX));
  FB_TRY(reader.result());
  return check;
}

}  // namespace

json::object to_json(const ImageConfig& config) {
  json::array env;
  for (const auto& [name, value] : config.env) env.emplace_back(name + "=" + value);
  json::object labels;
  for (const auto& [name, value] : config.labels) labels[name] = value;
  json::object out{{"Env", std::move(env)},
                   {"User", config.user},
                   {"WorkingDir", config.workdir},
                   {"Entrypoint", strings(config.entrypoint)},
                   {"Cmd", strings(config.cmd)},
                   {"Shell", strings(config.shell)},
                   {"ExposedPorts", set_of(config.exposed_ports)},
                   {"Labels", std::move(labels)},
                   {"Volumes", set_of(config.volumes)},
                   {"StopSignal", config.stop_signal},
                   {"OnBuild", strings(config.onbuild)},
                   {"Author", config.author}};
  if (config.healthcheck) out["Healthcheck"] = to_json(*config.healthcheck);
  return out;
}

Result<ImageConfig> config_from_json(const json::object& object) {
  JsonReader reader(object);
  ImageConfig config;
  for (const std::string& line : reader.strings_or_empty("Env")) {
    const auto at = line.find('=');
    config.env.emplace_back(line.substr(0, at), at == std::string::npos ? "" : line.substr(at + 1));
  }
  config.user = reader.string_or("User", "");
  config.workdir = reader.string_or("WorkingDir", "");
  config.entrypoint = reader.strings_or_empty("Entrypoint");
  config.cmd = reader.strings_or_empty("Cmd");
  config.shell = reader.strings_or_empty("Shell");
  config.exposed_ports = members(reader.object("ExposedPorts", false));
  config.labels = reader.string_map_or_empty("Labels");
  config.volumes = members(reader.object("Volumes", false));
  config.stop_signal = reader.string_or("StopSignal", "");
  config.onbuild = reader.strings_or_empty("OnBuild");
  config.author = reader.string_or("Author", "");
  const json::object* check = reader.object("Healthcheck", false);
  FB_TRY(reader.result());
  if (check != nullptr) {
    FB_TRY_ASSIGN(config.healthcheck, healthcheck_from(*check));
  }
  return config;
}

std::vector<std::string> command_of(const ImageConfig& config) {
  std::vector<std::string> argv = config.entrypoint;
  argv.insert(argv.end(), config.cmd.begin(), config.cmd.end());
  return argv;
}

std::uint16_t first_port(const ImageConfig& config) {
  for (const std::string& port : config.exposed_ports) {
    if (!port.ends_with("/tcp")) continue;
    const auto number = parse_u64(std::string_view(port).substr(0, port.find_first_of("-/")));
    if (number && *number > 0 && *number < 65536) return static_cast<std::uint16_t>(*number);
  }
  return 0;
}

}  // namespace firebreak::image
