#include "serve_command.h"

#include <cctype>
#include <filesystem>
#include <memory>

#include <sys/resource.h>

#include "commands.h"
#include "config_file.h"
#include "server.h"

namespace firebreak::cli {
namespace {

constexpr const char* kAbout =
    R"(The first start makes the tenant 'default' and writes its keys to DATA-DIR/credentials.json (0600).
When it serves it prints "listening on URL ENDPOINTURL" and writes DATA-DIR/server.json. MicroVMs
keep running when the server ends, however it ends; the next one takes them over.

Every option can also be set in the file given by --config (TOML: listen = "127.0.0.1:7070") or as
an environment variable (FIREBREAK_LISTEN). Words come first, then the environment, then the file.)";

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

// Adds options that can also be set by environment variables of their name.
class ServerOptions {
 public:
  explicit ServerOptions(Command& serve) : serve_(serve) {}

  Option& operator()(const std::string& name, Binding variable, std::string value,
                     std::string help) {
    Option& option =
        serve_.option("--" + name, std::move(variable), std::move(value), std::move(help));
    option.variable = variable_of(name);
    option.names_variable = false;  // said once for all of them
    return option;
  }

 private:
  Command& serve_;
};

void add_listeners(ServerOptions& option, ServerConfig& config) {
  option("listen", config.listen, "ADDRESS", "Address of the APIs; port 0 picks one");
  option("tls", config.tls, "",
         "Serve the APIs over TLS with a certificate of a local CA, made on first use");
  option("tls-certificate", config.tls_certificate, "FILE", "PEM file: serve the APIs over TLS")
      .kind(ValueKind::file);
  option("tls-key", config.tls_key, "FILE", "PEM file of its key").kind(ValueKind::file);
  option("insecure-listen", config.insecure_listen, "",
         "Serve the APIs without TLS to other hosts; keys can be read on the way");
  option("endpoint-listen", config.endpoint_listen, "ADDRESS",
         "Address of microVMs' endpoints, always TLS; port 0 picks one");
  option("endpoint-certificate", config.endpoint_certificate, "FILE", "PEM file for endpoints")
      .kind(ValueKind::file)
      .fallback("a certificate of a local CA");
  option("endpoint-key", config.endpoint_key, "FILE", "PEM file of its key").kind(ValueKind::file);
  option("endpoint-host", config.endpoint_host, "HOST[:PORT]", "What clients use for endpoints")
      .fallback("the address listened on");
  option("endpoint-domain", config.endpoint_domain, "DOMAIN",
         "Name endpoints {endpointId}.DOMAIN; DNS must lead *.DOMAIN here");
  option("endpoint-limits", config.endpoint_limits, "BOOL",
         "Limit requests and bandwidth of each endpoint by the microVM's size");
}

void add_capacity(ServerOptions& option, ServerConfig& config) {
  option("guest-dir", config.guest_dir, "DIR",
         "Holds vmlinux, initramfs.cpio and the disks of the bases")
      .kind(ValueKind::directory)
      .fallback("'guest' beside the program");
  option("log-format", config.log_format, "FORMAT", "How the log is written")
      .one_of({"text", "json"});
  option("log-level", config.log_level, "LEVEL", "The least that is logged")
      .one_of({"debug", "info", "warn", "error"});
  option("memory-mib", config.memory_mib, "MIB", "Memory for microVMs; 0: all but the reserve");
  option("reserve-mib", config.reserve_mib, "MIB", "Memory left to the host");
  option("overcommit", config.overcommit, "N", "Sum of baselines, as a multiple of the memory")
      .range(1, 64);
  option("pool-least", config.pool_least, "N", "Parked clones per image, at least");
  option("pool-most", config.pool_most, "N", "Parked clones per image, at most");
  option("suspend-under-pressure", config.suspend_under_pressure, "BOOL",
         "Suspend the longest unused microVM when memory runs out");
  option("tick-ms", config.tick_ms, "MS", "How often idle policies and deadlines are looked at")
      .range(10, 60000);
  option("keep-history-days", config.keep_history_days, "DAYS",
         "How long events and the usage of each ended microVM are kept; then only sums by day")
      .range(1, 36500);
  option("cgroup", config.cgroup, "NAME", "Name of the parent cgroup");
  option("uid-first", config.uid_first, "UID", "First of the uids given to machines");
  option("uid-count", config.uid_count, "N", "How many of them");
}

void add_rules(ServerOptions& option, ServerConfig& config) {
  option("egress-policies", config.egress_policies, "FILE",
         "JSON file: egress policies for all tenants, {NAME: POLICY, ...}")
      .kind(ValueKind::file);
  option("roles", config.roles, "FILE",
         "JSON file: roles for all tenants, {NAME: POLICY, ...}, policies as of IAM")
      .kind(ValueKind::file);
  option("credential-seconds", config.credential_seconds, "SECONDS",
         "How long credentials of a microVM's role live; replaced after half of it")
      .range(4, 43200);
  option("dns-servers", config.dns_servers, "ADDRESS:PORT,...",
         "Name servers that resolve for microVMs")
      .fallback("the host's");
  option("networks", config.networks, "BOOL", "Networks for microVMs, where the host can");
}

void add_builds(ServerOptions& option, ServerConfig& config) {
  option("python-image", config.python_image, "BOOL", "Make the image 'python' when it is missing");
  option("base-aliases", config.base_aliases, "NAME=BASE,...",
         "What FROM may name beside images and bases");
  option("registries", config.registries, "HOST[:PORT],...",
         "Registries that FROM may name; http://HOST:PORT is without TLS");
  option("registry-auth", config.registry_auth, "FILE",
         "Keys for those registries, as of 'skopeo login'; readable by its owner alone")
      .kind(ValueKind::file);
  option("apt-mirror", config.apt_mirror, "URL",
         "Where apt looks for packages, in builds and guests");
  option("apt-security-mirror", config.apt_security_mirror, "URL",
         "Where it looks for security updates");
  option("pip-index", config.pip_index, "URL",
         "Where pip looks for packages, in builds and guests");
  option("guest-ca", config.guest_ca, "host|none|FILE",
         "Certificates that builds and guests trust beside Debian's")
      .kind(ValueKind::file);
  option("build-env", config.build_env, "NAME[=VALUE]",
         "Variable for the RUN steps of builds; NAME alone has the server's own value. In the "
         "environment variable one a line");
  option("build-egress", config.build_egress, "NAME", "Egress policy of builds that name none")
      .fallback("the tenant's default for runs");
  option("build-seconds", config.build_seconds, "SECONDS", "The longest time of a build")
      .range(1, 86400);
  option("parallel-builds", config.parallel_builds, "N", "Builds that run at a time; others wait")
      .range(1, 64);
  option("build-cache-mib", config.build_cache_mib, "MIB", "Layers of builds kept for each tenant");
  option("build-cache-mounts-mib", config.build_cache_mounts_mib, "MIB",
         "What RUN --mount=type=cache keeps for later builds of each tenant; 0: nothing");
}

void add_aws(ServerOptions& option, ServerConfig& config) {
  option("lambda-extensions", config.lambda_extensions, "BOOL",
         "Lambda API: longer lives and shorter idle times than AWS allows");
  option("lambda-arm-alias", config.lambda_arm_alias, "BOOL",
         "Lambda API: take ARM_64 as this host's architecture instead of refusing it");
  option("aws-rates", config.aws_rates, "CALL=N,...",
         "Lambda API: calls a second per tenant, as RunMicrovm=5,SuspendMicrovm=2");
  option("object-quota-mib", config.object_quota_mib, "MIB", "S3 API: what a tenant may keep");
  option("object-max-mib", config.object_max_mib, "MIB", "S3 API: the largest object");
  option("s3-endpoint", config.s3_endpoint, "URL",
         "S3 service elsewhere that artifacts of images are read from: http(s)://HOST[:PORT]");
  option("s3-region", config.s3_region, "REGION", "Its region");
  option("s3-credentials", config.s3_credentials, "FILE",
         "The keys for it, profile default, as ~/.aws/credentials")
      .kind(ValueKind::file);
  option("s3-buckets", config.s3_buckets, "ACCOUNT=BUCKET/FOLDER,...",
         "Who may read what there; *=BUCKET/{account} for all");
}

// Sets what neither words nor the environment have set.
Result<> read_configuration(Command& serve, const std::string& file) {
  if (file.empty()) return {};
  FB_TRY_ASSIGN(const std::vector<ConfigEntry> entries, read_config_file(file));
  std::vector<std::string> known;
  for (const auto& option : serve.options) known.push_back(option->long_name.substr(2));
  for (const auto& [name, values] : entries) {
    Option* option = serve.find_option("--" + name);
    if (option == nullptr || (values.size() != 1 && !option->binding.repeats)) {
      const auto near = closest_word(name, known);
      return fail(Code::invalid,
                  file + ": '" + name + "' is not an option of serve" +
                      (near && *near != name ? "; did you mean '" + *near + "'?" : ""));
    }
    if (option->given) continue;
    for (const std::string& value : values) {
      if (auto set = set_option(*option, value); !set) return fail(set.error(), file);
    }
  }
  return {};
}

int run_serve(ServerConfig config) {
  raise_open_files();
  config.data_dir = std::filesystem::absolute(config.data_dir).string();
  config.guest_dir = std::filesystem::absolute(config.guest_dir).string();
  auto served = serve(config);
  if (served) return 0;
  print_error(served.error().text());
  return 1;
}

}  // namespace

void add_serve_command(Command& root, const ServerChoice& choice, const std::string& program_dir) {
  auto config = std::make_shared<ServerConfig>();
  config->guest_dir = program_dir + "/guest";
  config->holder = program_dir + "/firebreak-holder";
  Command& serve = root.add("serve", "Serve the API").group(kServerGroup).about(kAbout);
  serve.option("--config", config->config_file, "FILE", "Read options from this TOML file")
      .kind(ValueKind::file);
  ServerOptions option(serve);
  add_listeners(option, *config);
  add_capacity(option, *config);
  add_rules(option, *config);
  add_builds(option, *config);
  add_aws(option, *config);
  serve.example("firebreak serve --listen 127.0.0.1:7070", "until Ctrl-C or SIGTERM");
  serve.example("firebreak serve --config /etc/firebreak.toml", "options from a file");
  serve.check([config, &serve] { return read_configuration(serve, config->config_file); });
  serve.run([config, &choice] {
    config->data_dir = choice.data_dir;
    return run_serve(*config);
  });
}

}  // namespace firebreak::cli
