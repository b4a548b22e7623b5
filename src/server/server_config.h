// The settings of a server, as the command line, the environment and the file give them. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace firebreak::server {

struct ServerConfig {
  std::string config_file;
  std::string data_dir = "/var/lib/firebreak";
  std::string guest_dir;
  std::string holder;
  std::string listen = "127.0.0.1:7070";
  bool tls = false;  // with a certificate of the local CA, unless one is given
  std::string tls_certificate;
  std::string tls_key;
  bool insecure_listen = false;  // without TLS beyond this host
  std::string endpoint_listen = "127.0.0.1:7443";
  std::string endpoint_certificate;  // else one of the local CA
  std::string endpoint_key;
  std::string endpoint_host;     // what clients call it, with the port; else where it listens
  std::string endpoint_domain;   // of host style; empty: path style
  bool endpoint_limits = false;  // by size
  std::string log_format = "text";
  std::string log_level = "info";
  std::string cgroup = "firebreak";
  std::uint32_t uid_first = 700000;
  std::uint32_t uid_count = 4096;
  std::uint64_t memory_mib = 0;  // for microVMs; 0: what the host has, less the reserve
  std::uint64_t reserve_mib = 2048;
  std::uint32_t overcommit = 4;
  std::uint32_t pool_least = 1;
  std::uint32_t pool_most = 8;
  bool suspend_under_pressure = true;
  std::uint32_t tick_ms = 1000;
  std::uint32_t keep_history_days = 90;     // usage of each microVM that ended, events
  std::string egress_policies;              // JSON file of the operator's policies
  std::string roles;                        // JSON file of the operator's roles
  std::uint32_t credential_seconds = 3300;  // life of a guest's credentials
  std::string dns_servers;                  // instead of the host's
  bool networks = true;                     // microVMs may have one, where the host can
  bool python_image = true;                 // make the image `python` when it is missing
  bool lambda_extensions = false;
  bool lambda_arm_alias = false;
  std::string base_aliases;   // "NAME=BASE,...": beside the usual ones
  std::string registries;     // "HOST,...": that FROM may name; the first is the default
  std::string registry_auth;  // file with keys for them
  std::string apt_mirror;     // addresses, written into the bases; empty: as they are
  std::string apt_security_mirror;
  std::string pip_index;
  std::string guest_ca = "host";       // or "none", or a PEM file
  std::vector<std::string> build_env;  // "NAME=VALUE", or "NAME" of the server's own environment
  std::string build_egress;  // policy of builds that name none; empty: the tenant's default
  std::uint32_t build_seconds = 1800;
  std::uint32_t parallel_builds = 2;
  std::uint64_t build_cache_mib = 20480;        // layers kept for each tenant
  std::uint64_t build_cache_mounts_mib = 4096;  // what its RUN --mount=type=cache keeps
  std::string aws_rates;  // "RunMicrovm=5,SuspendMicrovm=2": calls a second per tenant
  std::uint64_t object_quota_mib = 10240;
  std::uint64_t object_max_mib = 5120;
  std::string s3_endpoint;              // an S3 service elsewhere, for artifacts of images
  std::string s3_region = "us-east-1";  // of it
  std::string s3_credentials;           // file, as ~/.aws/credentials
  std::string s3_buckets;               // "ACCOUNT=BUCKET/FOLDER,...": who may read what there
};

}  // namespace firebreak::server
