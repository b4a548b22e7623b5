#include "serve_command.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>

namespace firebreak::cli {
namespace {

constexpr const char* kFooter =
    R"(The first start makes the tenant 'default' and writes its keys to DATA-DIR/credentials.json (0600).
When it serves it prints "listening on URL ENDPOINTURL" and writes DATA-DIR/server.json. MicroVMs keep running
when the server ends, however it ends; the next one takes them over.

Every option can also be set in the file given by --config (TOML: listen = "127.0.0.1:7070") or as
an environment variable (FIREBREAK_LISTEN).)";

}  // namespace

Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments) {
  std::string file;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) file = arguments[i + 1];
    if (arguments[i].starts_with("--config=")) file = arguments[i].substr(9);
  }
  if (file.empty()) return arguments;
  std::ifstream text(file);
  if (!text) return fail(Code::invalid, "cannot read the configuration " + file);
  // Options before the command are not its own.
  const std::vector<std::string> given(std::ranges::find(arguments, "serve"), arguments.end());
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      const std::string name = "--" + item.name;
      std::string variable = "FIREBREAK_" + item.name;
      for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
      const bool set = std::getenv(variable.c_str()) != nullptr ||
                       std::ranges::any_of(given, [&name](const std::string& word) {
                         return word == name || word.starts_with(name + "=");
                       });
      if (!item.parents.empty() || item.inputs.size() != 1)
        return fail(Code::invalid, file + ": '" + item.fullname() + "' is not an option of serve");
      if (!set) arguments.push_back(name + "=" + item.inputs.front());
    }
  } catch (const CLI::Error& error) {
    return fail(Code::invalid, file + ": " + error.what());
  }
  return arguments;
}

CLI::App* add_serve(CLI::App& app, ServerConfig& config, const std::string& program_dir) {
  config.guest_dir = program_dir + "/guest";
  config.holder = program_dir + "/firebreak-holder";
  CLI::App* serve = app.add_subcommand("serve", "Serve the API");
  serve->add_option("--config", config.config_file, "Read options from this TOML file");
  const auto option = [serve](const char* name, auto& value, const char* help, const char* env) {
    return serve->add_option(name, value, help)->envname(env)->capture_default_str();
  };
  option("--data-dir", config.data_dir, "Where everything is kept", "FIREBREAK_DATA_DIR");
  option("--listen", config.listen, "Address of the APIs; port 0 picks one", "FIREBREAK_LISTEN");
  serve->add_flag("--tls", config.tls,
                  "Serve the APIs over TLS with a certificate of a local CA, made on first use");
  option("--tls-certificate", config.tls_certificate, "PEM file: serve the APIs over TLS",
         "FIREBREAK_TLS_CERTIFICATE");
  option("--tls-key", config.tls_key, "PEM file of its key", "FIREBREAK_TLS_KEY");
  option("--endpoint-listen", config.endpoint_listen,
         "Address of microVMs' endpoints, always TLS; port 0 picks one",
         "FIREBREAK_ENDPOINT_LISTEN");
  option("--endpoint-certificate", config.endpoint_certificate,
         "PEM file for endpoints; default: a certificate of a local CA",
         "FIREBREAK_ENDPOINT_CERTIFICATE");
  option("--endpoint-key", config.endpoint_key, "PEM file of its key", "FIREBREAK_ENDPOINT_KEY");
  option("--endpoint-host", config.endpoint_host,
         "HOST or HOST:PORT that clients use for endpoints; default: the address listened on",
         "FIREBREAK_ENDPOINT_HOST");
  option("--endpoint-domain", config.endpoint_domain,
         "Name endpoints {endpointId}.DOMAIN; DNS must lead *.DOMAIN here",
         "FIREBREAK_ENDPOINT_DOMAIN");
  option("--endpoint-limits", config.endpoint_limits,
         "Limit requests and bandwidth of each endpoint by the microVM's size",
         "FIREBREAK_ENDPOINT_LIMITS");
  option("--guest-dir", config.guest_dir, "Holds vmlinux, initramfs.cpio and base.ext4",
         "FIREBREAK_GUEST_DIR");
  option("--log-format", config.log_format, "text or json", "FIREBREAK_LOG_FORMAT")
      ->check(CLI::IsMember({"text", "json"}));
  option("--log-level", config.log_level, "debug, info, warn or error", "FIREBREAK_LOG_LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  option("--memory-mib", config.memory_mib, "Memory for microVMs; 0: all but the reserve",
         "FIREBREAK_MEMORY_MIB");
  option("--reserve-mib", config.reserve_mib, "Memory left to the host", "FIREBREAK_RESERVE_MIB");
  option("--overcommit", config.overcommit, "Sum of baselines, as a multiple of the memory",
         "FIREBREAK_OVERCOMMIT")
      ->check(CLI::Range(1, 64));
  option("--pool-least", config.pool_least, "Parked clones per image, at least",
         "FIREBREAK_POOL_LEAST");
  option("--pool-most", config.pool_most, "Parked clones per image, at most",
         "FIREBREAK_POOL_MOST");
  option("--suspend-under-pressure", config.suspend_under_pressure,
         "Suspend the longest unused microVM when memory runs out",
         "FIREBREAK_SUSPEND_UNDER_PRESSURE");
  option("--tick-ms", config.tick_ms, "How often idle policies and deadlines are looked at",
         "FIREBREAK_TICK_MS")
      ->check(CLI::Range(10, 60000));
  option("--egress-policies", config.egress_policies,
         "JSON file: egress policies for all tenants, {NAME: POLICY, ...}",
         "FIREBREAK_EGRESS_POLICIES");
  option("--dns-servers", config.dns_servers,
         "Name servers that resolve for microVMs, ADDRESS:PORT,...; default: the host's",
         "FIREBREAK_DNS_SERVERS");
  option("--networks", config.networks, "Networks for microVMs, where the host can",
         "FIREBREAK_NETWORKS");
  option("--python-image", config.python_image, "Make the image 'python' when it is missing",
         "FIREBREAK_PYTHON_IMAGE");
  option("--lambda-extensions", config.lambda_extensions,
         "Lambda API: longer lives and shorter idle times than AWS allows",
         "FIREBREAK_LAMBDA_EXTENSIONS");
  option("--lambda-arm-alias", config.lambda_arm_alias,
         "Lambda API: take ARM_64 as this host's architecture instead of refusing it",
         "FIREBREAK_LAMBDA_ARM_ALIAS");
  option("--aws-rates", config.aws_rates,
         "Lambda API: calls a second per tenant, as RunMicrovm=5,SuspendMicrovm=2",
         "FIREBREAK_AWS_RATES");
  option("--object-quota-mib", config.object_quota_mib, "S3 API: what a tenant may keep",
         "FIREBREAK_OBJECT_QUOTA_MIB");
  option("--object-max-mib", config.object_max_mib, "S3 API: the largest object",
         "FIREBREAK_OBJECT_MAX_MIB");
  option("--cgroup", config.cgroup, "Name of the parent cgroup", "FIREBREAK_CGROUP");
  option("--uid-first", config.uid_first, "First of the uids given to machines",
         "FIREBREAK_UID_FIRST");
  option("--uid-count", config.uid_count, "How many of them", "FIREBREAK_UID_COUNT");
  serve->footer(kFooter);
  return serve;
}

int run_serve(ServerConfig config) {
  config.data_dir = std::filesystem::absolute(config.data_dir).string();
  config.guest_dir = std::filesystem::absolute(config.guest_dir).string();
  auto served = serve(config);
  if (served) return 0;
  std::cerr << "firebreak: " << served.error().text() << "\n";
  return 1;
}

}  // namespace firebreak::cli
