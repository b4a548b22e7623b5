#include "server_options.h"

#include <cctype>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "config_file.h"

namespace firebreak::cli {
namespace {

using Member =
    std::variant<std::string ServerConfig::*, bool ServerConfig::*, std::uint32_t ServerConfig::*,
                 std::uint64_t ServerConfig::*, std::vector<std::string> ServerConfig::*>;

struct ServerOption {
  const char* name;  // "data-dir": --data-dir, FIREBREAK_DATA_DIR, data-dir = ... in the file
  Member member;
  const char* value = "";  // what stands for its value in the help; "" of a flag
  const char* help;
  const char* page = "";      // more, for the page about operations
  const char* fallback = "";  // what holds when it is not given, in words
  ValueKind kind = ValueKind::text;
  std::optional<std::pair<double, double>> range = {};
  std::vector<std::string> choices = {};
};

using C = ServerConfig;
constexpr ValueKind kFile = ValueKind::file;

const std::vector<ServerOption>& all_options() {
  static const std::vector<ServerOption> options{
      // ---- listeners
      {.name = "listen",
       .member = &C::listen,
       .value = "ADDRESS",
       .help = "Address of the APIs; port 0 picks one",
       .page = "`[::1]:7070` for IPv6"},
      {.name = "tls",
       .member = &C::tls,
       .help = "Serve the APIs over TLS with a certificate of a local CA, made on first use",
       .page = "see [TLS](#tls)"},
      {.name = "tls-certificate",
       .member = &C::tls_certificate,
       .value = "FILE",
       .help = "PEM file: serve the APIs over TLS",
       .page = "goes before `--tls`",
       .kind = kFile},
      {.name = "tls-key",
       .member = &C::tls_key,
       .value = "FILE",
       .help = "PEM file of its key",
       .kind = kFile},
      {.name = "insecure-listen",
       .member = &C::insecure_listen,
       .help = "Serve the APIs without TLS to other hosts; keys can be read on the way"},
      {.name = "endpoint-listen",
       .member = &C::endpoint_listen,
       .value = "ADDRESS",
       .help = "Address of microVMs' endpoints, always TLS; port 0 picks one",
       .page = "see [endpoints.md](endpoints.md)"},
      {.name = "endpoint-certificate",
       .member = &C::endpoint_certificate,
       .value = "FILE",
       .help = "PEM file for endpoints",
       .fallback = "a certificate of a local CA",
       .kind = kFile},
      {.name = "endpoint-key",
       .member = &C::endpoint_key,
       .value = "FILE",
       .help = "PEM file of its key",
       .kind = kFile},
      {.name = "endpoint-host",
       .member = &C::endpoint_host,
       .value = "HOST[:PORT]",
       .help = "What clients use for endpoints",
       .fallback = "the address listened on"},
      {.name = "endpoint-domain",
       .member = &C::endpoint_domain,
       .value = "DOMAIN",
       .help = "Name endpoints {endpointId}.DOMAIN; DNS must lead *.DOMAIN here"},
      {.name = "endpoint-limits",
       .member = &C::endpoint_limits,
       .value = "BOOL",
       .help = "Limit requests and bandwidth of each endpoint by the microVM's size"},
      // ---- capacity
      {.name = "guest-dir",
       .member = &C::guest_dir,
       .value = "DIR",
       .help = "Holds vmlinux, initramfs.cpio and the disks of the bases",
       .page = "`base.ext4` (python), `debian.ext4`, `scratch.ext4`",
       .fallback = "'guest' beside the program",
       .kind = ValueKind::directory},
      {.name = "log-format",
       .member = &C::log_format,
       .value = "FORMAT",
       .help = "How the log is written",
       .choices = {"text", "json"}},
      {.name = "log-level",
       .member = &C::log_level,
       .value = "LEVEL",
       .help = "The least that is logged",
       .choices = {"debug", "info", "warn", "error"}},
      {.name = "memory-mib",
       .member = &C::memory_mib,
       .value = "MIB",
       .help = "Memory for microVMs; 0: all but the reserve"},
      {.name = "reserve-mib",
       .member = &C::reserve_mib,
       .value = "MIB",
       .help = "Memory left to the host"},
      {.name = "overcommit",
       .member = &C::overcommit,
       .value = "N",
       .help = "Sum of baselines, as a multiple of the memory",
       .range = {{1, 64}}},
      {.name = "pool-least",
       .member = &C::pool_least,
       .value = "N",
       .help = "Parked clones per image, at least",
       .page =
           "within the bounds the busiest five seconds of the last ten minutes decide. An image "
           "of a tenant has none after an hour without a launch. No clone is made when memory "
           "for one more launch would not be left"},
      {.name = "pool-most",
       .member = &C::pool_most,
       .value = "N",
       .help = "Parked clones per image, at most"},
      {.name = "suspend-under-pressure",
       .member = &C::suspend_under_pressure,
       .value = "BOOL",
       .help = "Suspend the longest unused microVM when memory runs out",
       .page = "of the tenant that holds most"},
      {.name = "tick-ms",
       .member = &C::tick_ms,
       .value = "MS",
       .help = "How often idle policies and deadlines are looked at",
       .range = {{10, 60000}}},
      {.name = "keep-history-days",
       .member = &C::keep_history_days,
       .value = "DAYS",
       .help =
           "How long events and the usage of each ended microVM are kept; then only sums by day",
       .range = {{1, 36500}}},
      {.name = "cgroup",
       .member = &C::cgroup,
       .value = "NAME",
       .help = "Name of the parent cgroup"},
      {.name = "uid-first",
       .member = &C::uid_first,
       .value = "UID",
       .help = "First of the uids given to machines",
       .page = "nobody else on the host may use them, other Firebreak servers included, nor the "
               "uid after them, which `skopeo` uses"},
      {.name = "uid-count", .member = &C::uid_count, .value = "N", .help = "How many of them"},
      // ---- rules
      {.name = "egress-policies",
       .member = &C::egress_policies,
       .value = "FILE",
       .help = "JSON file: egress policies for all tenants, {NAME: POLICY, ...}",
       .page = "see [egress.md](egress.md)",
       .kind = kFile},
      {.name = "roles",
       .member = &C::roles,
       .value = "FILE",
       .help = "JSON file: roles for all tenants, {NAME: POLICY, ...}, policies as of IAM",
       .page = "see [aws.md](aws.md#roles)",
       .kind = kFile},
      {.name = "credential-seconds",
       .member = &C::credential_seconds,
       .value = "SECONDS",
       .help = "How long credentials of a microVM's role live; replaced after half of it",
       .range = {{4, 43200}}},
      {.name = "dns-servers",
       .member = &C::dns_servers,
       .value = "ADDRESS:PORT,...",
       .help = "Name servers that resolve for microVMs",
       .fallback = "the host's"},
      {.name = "networks",
       .member = &C::networks,
       .value = "BOOL",
       .help = "Networks for microVMs, where the host can",
       .page = "see [egress.md](egress.md)"},
      // ---- builds
      {.name = "python-image",
       .member = &C::python_image,
       .value = "BOOL",
       .help = "Make the image 'python' when it is missing",
       .page = "also when it cannot be loaded any more, or trusts other certificates than "
               "`--guest-ca` says"},
      {.name = "base-aliases",
       .member = &C::base_aliases,
       .value = "NAME=BASE,...",
       .help = "What FROM may name beside images and bases",
       .page = "BASE may be `oci:/PATH` or `oci-archive:/PATH`"},
      {.name = "registries",
       .member = &C::registries,
       .value = "HOST[:PORT],...",
       .help = "Registries that FROM may name; http://HOST:PORT is without TLS",
       .page =
           "the first is the default. Every tenant can make the server read from them, and from "
           "where they redirect to. Needs the package `skopeo`"},
      {.name = "registry-auth",
       .member = &C::registry_auth,
       .value = "FILE",
       .help = "Keys for those registries, as of 'skopeo login'; readable by its owner alone",
       .page = "see [keys for registries](#keys-for-registries)",
       .kind = kFile},
      {.name = "apt-mirror",
       .member = &C::apt_mirror,
       .value = "URL",
       .help = "Where apt looks for packages, in builds and guests",
       .fallback = "the one of the host that made the bases"},
      {.name = "apt-security-mirror",
       .member = &C::apt_security_mirror,
       .value = "URL",
       .help = "Where it looks for security updates",
       .fallback = "the one of the host that made the bases"},
      {.name = "pip-index",
       .member = &C::pip_index,
       .value = "URL",
       .help = "Where pip looks for packages, in builds and guests",
       .fallback = "pip's own"},
      {.name = "guest-ca",
       .member = &C::guest_ca,
       .value = "host|none|FILE",
       .help = "Certificates that builds and guests trust beside Debian's",
       .page = "see [images.md](images.md#certificates)",
       .kind = kFile},
      {.name = "build-env",
       .member = &C::build_env,
       .value = "NAME[=VALUE]",
       .help =
           "Variable for the RUN steps of builds; NAME alone has the server's own value. In the "
           "environment variable one a line",
       .page = "a list in the file; see [images.md](images.md#behind-a-proxy)"},
      {.name = "build-egress",
       .member = &C::build_egress,
       .value = "NAME",
       .help = "Egress policy of builds that name none",
       .fallback = "the tenant's default for runs"},
      {.name = "build-seconds",
       .member = &C::build_seconds,
       .value = "SECONDS",
       .help = "The longest time of a build",
       .page = "from its turn on",
       .range = {{1, 86400}}},
      {.name = "parallel-builds",
       .member = &C::parallel_builds,
       .value = "N",
       .help = "Builds that run at a time; others wait",
       .page = "tenants in turn",
       .range = {{1, 64}}},
      {.name = "build-cache-mib",
       .member = &C::build_cache_mib,
       .value = "MIB",
       .help = "Layers of builds kept for each tenant"},
      {.name = "build-cache-mounts-mib",
       .member = &C::build_cache_mounts_mib,
       .value = "MIB",
       .help = "What RUN --mount=type=cache keeps for later builds of each tenant; 0: nothing",
       .page = "see [images.md](images.md#cache-mounts)"},
      // ---- APIs of AWS
      {.name = "lambda-extensions",
       .member = &C::lambda_extensions,
       .value = "BOOL",
       .help = "Lambda API: longer lives and shorter idle times than AWS allows"},
      {.name = "lambda-arm-alias",
       .member = &C::lambda_arm_alias,
       .value = "BOOL",
       .help = "Lambda API: take ARM_64 as this host's architecture instead of refusing it"},
      {.name = "aws-rates",
       .member = &C::aws_rates,
       .value = "CALL=N,...",
       .help = "Lambda API: calls a second per tenant, as RunMicrovm=5,SuspendMicrovm=2"},
      {.name = "object-quota-mib",
       .member = &C::object_quota_mib,
       .value = "MIB",
       .help = "S3 API: what a tenant may keep"},
      {.name = "object-max-mib",
       .member = &C::object_max_mib,
       .value = "MIB",
       .help = "S3 API: the largest object"},
      {.name = "s3-endpoint",
       .member = &C::s3_endpoint,
       .value = "URL",
       .help = "S3 service elsewhere that artifacts of images are read from: http(s)://HOST[:PORT]",
       .page = "see [aws.md](aws.md#artifacts-in-an-s3-service-elsewhere)"},
      {.name = "s3-region", .member = &C::s3_region, .value = "REGION", .help = "Its region"},
      {.name = "s3-credentials",
       .member = &C::s3_credentials,
       .value = "FILE",
       .help = "The keys for it, profile default, as ~/.aws/credentials",
       .page = "read for each artifact",
       .kind = kFile},
      {.name = "s3-buckets",
       .member = &C::s3_buckets,
       .value = "ACCOUNT=BUCKET/FOLDER,...",
       .help = "Who may read what there; *=BUCKET/{account} for all"},
  };
  return options;
}

// "data-dir" is FIREBREAK_DATA_DIR.
std::string variable_of(const std::string& option) {
  std::string variable = "FIREBREAK_" + option;
  for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return variable;
}

Binding bind(const Member& member, ServerConfig& config) {
  return std::visit([&config](auto which) { return Binding(config.*which); }, member);
}

// What stands in the page's column of defaults.
std::string default_of(const ServerOption& row) {
  if (*row.fallback != 0) return row.fallback;
  ServerConfig config;
  const std::string text = bind(row.member, config).default_text;
  return text.empty() ? "none" : "`" + text + "`";
}

// A cell of a table has no '|' of its own.
std::string cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, 1, '\\');
  return text;
}

}  // namespace

void add_server_options(Command& command, ServerConfig& config) {
  for (const ServerOption& row : all_options()) {
    Option& option =
        command.option("--" + std::string(row.name), bind(row.member, config), row.value, row.help);
    option.variable = variable_of(row.name);
    option.names_variable = false;  // said once for all of them
    option.kind(row.kind).fallback(row.fallback).one_of(row.choices);
    if (row.range) option.range(row.range->first, row.range->second);
  }
}

Result<> read_configuration(Command& command, const std::string& file) {
  if (file.empty()) return {};
  FB_TRY_ASSIGN(const std::vector<ConfigEntry> entries, read_config_file(file));
  std::vector<std::string> known;
  for (const auto& option : command.options) known.push_back(option->long_name.substr(2));
  for (const auto& [name, values] : entries) {
    Option* option = command.find_option("--" + name);
    if (option == nullptr || (values.size() != 1 && !option->binding.repeats)) {
      return fail(Code::invalid, file + ": '" + name + "' is not an option of serve",
                  Repair{option == nullptr ? did_you_mean(name, known) : ""});
    }
    if (option->given) continue;
    for (const std::string& value : values) {
      if (auto set = set_option(*option, value); !set) return fail(set.error(), file);
    }
  }
  return {};
}

std::string server_options_page() {
  std::string out = "| option | default | is |\n|---|---|---|\n";
  for (const ServerOption& row : all_options()) {
    std::string about = row.help;
    if (!row.choices.empty()) {
      about += ":";
      for (const std::string& choice : row.choices)
        about += (about.ends_with(":") ? " `" : ", `") + choice + "`";
    }
    if (row.range)
      about += "; " + std::to_string(static_cast<int>(row.range->first)) + " to " +
               std::to_string(static_cast<int>(row.range->second));
    if (*row.page != 0) about += "; " + std::string(row.page);
    const std::string value = *row.value == 0 ? "" : " " + std::string(row.value);
    out += "| `--" + std::string(row.name) + cell(value) + "` | " + default_of(row) + " | " +
           cell(about) + " |\n";
  }
  return out;
}

}  // namespace firebreak::cli
