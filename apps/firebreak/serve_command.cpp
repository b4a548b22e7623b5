#include "serve_command.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include "client/output.h"

namespace firebreak::cli {
namespace {

constexpr const char* kFooter =
    R"(The first start makes the tenant 'default' and writes its keys to DATA-DIR/credentials.json (0600).
When it serves it prints "listening on URL ENDPOINTURL" and writes DATA-DIR/server.json. MicroVMs keep running
when the server ends, however it ends; the next one takes them over.

Every option can also be set in the file given by --config (TOML: listen = "127.0.0.1:7070") or as
an environment variable (FIREBREAK_LISTEN).)";

// Sockets, taps and logs of every microVM are open here: as many as the host allows.
void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

// "data-dir" is FIREBREAK_DATA_DIR.
std::string variable_of(const std::string& option) {
  std::string variable = "FIREBREAK_" + option;
  for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return variable;
}

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
      const bool set = std::getenv(variable_of(item.name).c_str()) != nullptr ||
                       std::ranges::any_of(given, [&name](const std::string& word) {
                         return word == name || word.starts_with(name + "=");
                       });
      const bool many = item.name == "build-env";
      if (!item.parents.empty() || (item.inputs.size() != 1 && !many))
        return fail(Code::invalid, file + ": '" + item.fullname() + "' is not an option of serve");
      if (set) continue;
      for (const std::string& value : item.inputs) arguments.push_back(name + "=" + value);
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
  const auto option = [serve](const std::string& name, auto& value, const char* help) {
    return serve->add_option("--" + name, value, help)
        ->envname(variable_of(name))
        ->capture_default_str();
  };
  option("data-dir", config.data_dir, "Where everything is kept");
  option("listen", config.listen, "Address of the APIs; port 0 picks one");
  serve
      ->add_flag("--tls", config.tls,
                 "Serve the APIs over TLS with a certificate of a local CA, made on first use")
      ->envname(variable_of("tls"));
  option("tls-certificate", config.tls_certificate, "PEM file: serve the APIs over TLS");
  option("tls-key", config.tls_key, "PEM file of its key");
  serve
      ->add_flag("--insecure-listen", config.insecure_listen,
                 "Serve the APIs without TLS to other hosts; keys can be read on the way")
      ->envname(variable_of("insecure-listen"));
  option("endpoint-listen", config.endpoint_listen,
         "Address of microVMs' endpoints, always TLS; port 0 picks one");
  option("endpoint-certificate", config.endpoint_certificate,
         "PEM file for endpoints; default: a certificate of a local CA");
  option("endpoint-key", config.endpoint_key, "PEM file of its key");
  option("endpoint-host", config.endpoint_host,
         "HOST or HOST:PORT that clients use for endpoints; default: the address listened on");
  option("endpoint-domain", config.endpoint_domain,
         "Name endpoints {endpointId}.DOMAIN; DNS must lead *.DOMAIN here");
  option("endpoint-limits", config.endpoint_limits,
         "Limit requests and bandwidth of each endpoint by the microVM's size");
  option("guest-dir", config.guest_dir, "Holds vmlinux, initramfs.cpio and the disks of the bases");
  option("log-format", config.log_format, "text or json")->check(CLI::IsMember({"text", "json"}));
  option("log-level", config.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  option("memory-mib", config.memory_mib, "Memory for microVMs; 0: all but the reserve");
  option("reserve-mib", config.reserve_mib, "Memory left to the host");
  option("overcommit", config.overcommit, "Sum of baselines, as a multiple of the memory")
      ->check(CLI::Range(1, 64));
  option("pool-least", config.pool_least, "Parked clones per image, at least");
  option("pool-most", config.pool_most, "Parked clones per image, at most");
  option("suspend-under-pressure", config.suspend_under_pressure,
         "Suspend the longest unused microVM when memory runs out");
  option("tick-ms", config.tick_ms, "How often idle policies and deadlines are looked at")
      ->check(CLI::Range(10, 60000));
  option("keep-history-days", config.keep_history_days,
         "How long events and the usage of each ended microVM are kept; then only sums by day")
      ->check(CLI::Range(1, 36500));
  option("egress-policies", config.egress_policies,
         "JSON file: egress policies for all tenants, {NAME: POLICY, ...}");
  option("roles", config.roles,
         "JSON file: roles for all tenants, {NAME: POLICY, ...}, policies as of IAM");
  option("credential-seconds", config.credential_seconds,
         "How long credentials of a microVM's role live; replaced after half of it")
      ->check(CLI::Range(4, 43200));
  option("dns-servers", config.dns_servers,
         "Name servers that resolve for microVMs, ADDRESS:PORT,...; default: the host's");
  option("networks", config.networks, "Networks for microVMs, where the host can");
  option("python-image", config.python_image, "Make the image 'python' when it is missing");
  option("base-aliases", config.base_aliases,
         "What FROM may name beside images and bases: NAME=BASE,...");
  option("registries", config.registries,
         "Registries that FROM may name: HOST[:PORT],...; http://HOST:PORT is without TLS");
  option("registry-auth", config.registry_auth,
         "File with keys for those registries, as of 'skopeo login'; readable by its owner alone");
  option("apt-mirror", config.apt_mirror, "Where apt looks for packages, in builds and guests");
  option("apt-security-mirror", config.apt_security_mirror, "Where it looks for security updates");
  option("pip-index", config.pip_index, "Where pip looks for packages, in builds and guests");
  option("guest-ca", config.guest_ca,
         "Certificates that builds and guests trust beside Debian's: host, none or a PEM file");
  option("build-env", config.build_env,
         "Variable for the RUN steps of builds, as NAME=VALUE, or NAME for the server's own value; "
         "may be given again. In the environment variable one a line")
      ->allow_extra_args(false);
  option("build-egress", config.build_egress,
         "Egress policy of builds that name none; default: the tenant's default for runs");
  option("build-seconds", config.build_seconds, "The longest time of a build")
      ->check(CLI::Range(1, 86400));
  option("parallel-builds", config.parallel_builds, "Builds that run at a time; others wait")
      ->check(CLI::Range(1, 64));
  option("build-cache-mib", config.build_cache_mib, "Layers of builds kept for each tenant");
  option("build-cache-mounts-mib", config.build_cache_mounts_mib,
         "What RUN --mount=type=cache keeps for later builds of each tenant; 0: nothing");
  option("lambda-extensions", config.lambda_extensions,
         "Lambda API: longer lives and shorter idle times than AWS allows");
  option("lambda-arm-alias", config.lambda_arm_alias,
         "Lambda API: take ARM_64 as this host's architecture instead of refusing it");
  option("aws-rates", config.aws_rates,
         "Lambda API: calls a second per tenant, as RunMicrovm=5,SuspendMicrovm=2");
  option("object-quota-mib", config.object_quota_mib, "S3 API: what a tenant may keep");
  option("object-max-mib", config.object_max_mib, "S3 API: the largest object");
  option("s3-endpoint", config.s3_endpoint,
         "S3 service elsewhere that artifacts of images are read from: http(s)://HOST[:PORT]");
  option("s3-region", config.s3_region, "Its region");
  option("s3-credentials", config.s3_credentials,
         "File with the keys for it, profile default, as ~/.aws/credentials");
  option("s3-buckets", config.s3_buckets,
         "Who may read what there: ACCOUNT=BUCKET/FOLDER,... or *=BUCKET/{account}");
  option("cgroup", config.cgroup, "Name of the parent cgroup");
  option("uid-first", config.uid_first, "First of the uids given to machines");
  option("uid-count", config.uid_count, "How many of them");
  serve->footer(kFooter);
  return serve;
}

int run_serve(ServerConfig config) {
  raise_open_files();
  config.data_dir = std::filesystem::absolute(config.data_dir).string();
  config.guest_dir = std::filesystem::absolute(config.guest_dir).string();
  auto served = serve(config);
  if (served) return 0;
  client::print_error(served.error().text());
  return 1;
}

}  // namespace firebreak::cli
