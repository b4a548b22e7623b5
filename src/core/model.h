// The things Firebreak keeps: tenants, keys, images, versions, builds, microVMs. Plain values as
// the store returns them; nobody mutates a shared copy. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/egress.h"
#include "core/hooks.h"
#include "core/idle.h"
#include "core/ids.h"
#include "core/isolation.h"
#include "core/key_kind.h"
#include "core/lifecycle.h"
#include "core/limits.h"
#include "core/size.h"
#include "core/usage.h"

namespace firebreak::core {

// Names of egress policies.
struct EgressSettings {
  std::string run_default{
      kInternetEgress};                  // of runs that ask for none, from images that have none
  std::string maximum{kInternetEgress};  // no run gets more
  friend bool operator==(const EgressSettings&, const EgressSettings&) = default;
};

struct Tenant {
  TenantId id;
  std::string name;  // unique
  TenantLimits limits;
  Time created{};
  EgressSettings egress{};
  friend bool operator==(const Tenant&, const Tenant&) = default;
};

struct Key {
  KeyId id;  // access key id
  TenantId tenant;
  std::string name;
  std::string sealed_secret;  // secret access key, encrypted with the server's key file
  std::string api_key_hash;   // SHA-256 of the bearer key, hex
  KeyKind kind = KeyKind::owner;
  std::string agent;  // of an agent's key: the one agent it runs code for
  Time created{};
  std::optional<Time> revoked;
  bool admin() const { return kind == KeyKind::administrator; }
  friend bool operator==(const Key&, const Key&) = default;
};

enum class ImageState {
  creating,
  created,
  create_failed,
  updating,
  updated,
  update_failed,
  deleting,
  delete_failed
};
enum class VersionState { pending, in_progress, successful, failed, deleting, delete_failed };
enum class BuildState { pending, in_progress, successful, failed };
std::string_view to_string(ImageState state);    // "CREATING", ...
std::string_view to_string(VersionState state);  // "PENDING", ...
std::string_view to_string(BuildState state);
std::optional<ImageState> parse_image_state(std::string_view text);
std::optional<VersionState> parse_version_state(std::string_view text);
std::optional<BuildState> parse_build_state(std::string_view text);

using Tags = std::map<std::string, std::string>;

struct Image {
  ImageId id;
  TenantId tenant;
  std::string name;  // unique within the tenant
  ImageState state = ImageState::creating;
  Tags tags;
  Time created{};
  std::optional<Time> updated;
  friend bool operator==(const Image&, const Image&) = default;
};

// A snapshot, and the engine that made it: no other can use it.
struct SnapshotRef {
  std::string engine;
  std::string name;  // of its directory
  bool empty() const { return name.empty(); }
  friend auto operator<=>(const SnapshotRef&, const SnapshotRef&) = default;
};

// Records of servers that knew one engine only are of this one.
inline constexpr const char* kFirstEngine = "qemu";

struct ImageVersion {
  ImageId image;
  std::uint32_t number = 1;  // shown as "1.0"
  VersionState state = VersionState::pending;
  bool active = false;
  std::string state_reason;
  std::uint32_t memory_mib = kDefaultMemoryMib;
  Hooks hooks;
  std::map<std::string, std::string> env;
  std::string snapshot;  // its name; empty until successful
  std::string config;    // JSON of what a façade only echoes
  std::string egress;    // policy of runs that ask for none; empty: the tenant's default
  std::string engine{kFirstEngine};  // that makes its snapshot
  Isolation isolation = Isolation::emulated;
  Time created{};
  std::optional<Time> updated;
  friend bool operator==(const ImageVersion&, const ImageVersion&) = default;
};
std::string version_text(std::uint32_t number);                     // "2.0"
std::optional<std::uint32_t> parse_version(std::string_view text);  // "2.0" or "2"
bool runnable(const ImageVersion& version);
SnapshotRef snapshot_of(const ImageVersion& version);
// What a version's config says about its application; made by app_config.
bool has_application(const ImageVersion& version);
bool app_is_pid1(const ImageVersion& version);  // its end ends the microVM
std::string app_config(bool has_app, bool is_pid1);

struct Build {
  BuildId id;
  ImageId image;
  std::uint32_t version = 1;
  BuildState state = BuildState::pending;
  std::string state_reason;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  Time created{};
  std::optional<Time> finished;
  friend bool operator==(const Build&, const Build&) = default;
};

// Variables of an environment, by name.
using Environment = std::map<std::string, std::string>;
inline constexpr std::size_t kMaxEnvironment = 64;
inline constexpr std::size_t kMaxEnvironmentBytes = 32UL * 1024;  // names and values together
Result<> check_environment(const Environment& env);

struct Microvm {
  MicrovmId id;
  TenantId tenant;
  EndpointId endpoint;
  ImageId image;
  std::string image_name;
  std::uint32_t image_version = 1;
  std::uint32_t memory_mib = kDefaultMemoryMib;
  MicrovmState state = MicrovmState::pending;
  Intent intent = Intent::none;
  std::string state_reason;  // why it is not, or no longer, what it should be
  std::optional<IdlePolicy> idle;
  std::optional<Seconds> max_duration;
  std::string payload;           // for the run hook; sensitive; cleared once RUNNING
  std::uint64_t generation = 0;  // counts wakes
  MicrovmId parent;              // of a fork
  std::string client_token;      // idempotency
  std::string request_hash;      // of the request that carried it
  Tags tags;
  std::string config;             // JSON of what a façade only echoes (connectors, role, logging)
  std::string egress{kNoEgress};  // name of its policy
  std::string role;               // its execution role's name; empty: no credentials
  std::string name;               // unique among the tenant's that have not ended; may be empty
  Environment env;                // of execs; may be secret; forgotten at the end
  std::string engine{kFirstEngine};           // that runs it
  Isolation isolation = Isolation::emulated;  // of its machine
  Time started{};                             // when it was asked for
  Time state_since{};
  std::optional<Time> suspended_at;
  std::optional<Time> terminated;
  std::uint64_t revision = 0;  // grows with every write
  friend bool operator==(const Microvm&, const Microvm&) = default;
};
Aging aging_of(const Microvm& microvm);
// Moves it to another state with the times that belong to it; conflict when not in the table.
Result<> enter(Microvm& microvm, MicrovmState state, Time at);

// One line of history: every transition, in order.
struct Event {
  std::uint64_t sequence = 0;
  Time at{};
  TenantId tenant;
  MicrovmId microvm;
  MicrovmState from = MicrovmState::pending;  // equal to `to` for the first
  MicrovmState to = MicrovmState::pending;
  std::string reason;
  std::string engine{kFirstEngine};  // as the microVM had it then
  Isolation isolation = Isolation::emulated;
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace firebreak::core
