#include "store/conformance.h"

namespace firebreak::store {

using core::MicrovmState;
using core::Seconds;

void ImageConformance::SetUp() {
  StoreConformance::SetUp();
  a_ = sample_tenant(1);
  b_ = sample_tenant(2);
  ASSERT_DONE(store().create_tenant(a_));
  ASSERT_DONE(store().create_tenant(b_));
  ASSERT_DONE(store().create_tenant(
      {.id = core::kSystemTenant, .name = "system", .limits = {}, .created = at(0)}));
}

core::Time at(std::int64_t seconds) {
  return core::from_unix_ms(1'800'000'000'000) + Seconds(seconds);
}

core::Tenant sample_tenant(int n) {
  return {.id = core::TenantId(std::to_string(100'000'000'000 + n)),
          .name = "tenant-" + std::to_string(n),
          .limits = {.microvms = 50,
                     .memory_mib = 100'000,
                     .images = 7,
                     .versions_per_image = 3,
                     .launches_per_second = 9},
          .created = at(n)};
}

core::Key sample_key(int n, const core::TenantId& tenant) {
  return {.id = core::KeyId("AKIA" + std::to_string(n)),
          .tenant = tenant,
          .name = "key; DROP TABLE keys; --",
          .sealed_secret = std::string("\0\xff binary \x01", 11) + std::to_string(n),
          .api_key_hash = "hash-" + std::to_string(n),
          .kind = n % 2 == 1 ? core::KeyKind::agent : core::KeyKind::auditor,
          .agent = n % 2 == 1 ? "agent-" + std::to_string(n) : "",
          .created = at(n),
          .revoked = std::nullopt};
}

core::Image sample_image(int n, const core::TenantId& tenant) {
  return {.id = core::ImageId("image-" + std::to_string(n)),
          .tenant = tenant,
          .name = "name-" + std::to_string(n),
          .state = core::ImageState::created,
          .tags = {{"team", "a"}, {"quote\"'", "ü\\"}},
          .created = at(n),
          .updated = at(n + 1)};
}

core::ImageVersion sample_version(const core::ImageId& image, std::uint32_t number) {
  core::Hooks hooks;
  hooks.port = 9000;
  hooks[core::Hook::run] = {.enabled = true, .timeout = Seconds(5)};
  hooks[core::Hook::suspend] = {.enabled = false, .timeout = Seconds(2)};
  return {.image = image,
          .number = number,
          .state = core::VersionState::successful,
          .active = true,
          .state_reason = "because",
          .memory_mib = 512,
          .hooks = hooks,
          .env = {{"PATH", "/bin"}, {"EMPTY", ""}},
          .snapshot = "snap-1",
          .config = R"({"a":1})",
          .engine = "other",
          .isolation = core::Isolation::userspace_kernel,
          .created = at(number),
          .updated = at(number + 5)};
}

core::Build sample_build(int n, const core::ImageId& image, std::uint32_t version) {
  return {.id = core::BuildId("build-" + std::to_string(n)),
          .image = image,
          .version = version,
          .state = core::BuildState::in_progress,
          .state_reason = "step 3",
          .memory_bytes = 1UL << 35,
          .disk_bytes = 1UL << 40,
          .created = at(n),
          .finished = at(n + 1)};
}

core::Microvm sample_microvm(int n, const core::TenantId& tenant) {
  core::Microvm microvm;
  microvm.id = core::MicrovmId("microvm-" + std::to_string(n));
  microvm.tenant = tenant;
  microvm.endpoint = core::EndpointId("endpoint-" + std::to_string(n));
  microvm.image = core::ImageId("image-1");
  microvm.image_name = "name-1";
  microvm.image_version = 3;
  microvm.memory_mib = 1024;
  microvm.intent = core::Intent::launch;
  microvm.state_reason = "asked";
  microvm.idle = core::IdlePolicy{.max_idle = Seconds(60),
                                  .suspended = Seconds(600),
                                  .auto_resume = false,
                                  .rule = core::IdleRule::traffic};
  microvm.max_duration = Seconds(7200);
  microvm.payload = "secret payload";
  microvm.generation = 4;
  microvm.parent = core::MicrovmId("microvm-parent");
  microvm.request_hash = "request";
  microvm.tags = {{"color", n % 2 == 0 ? "red" : "blue"}, {"k\"\\é", "v'\n\xF0\x9F\x94\xA5"}};
  microvm.config = R"({"role":"x"})";
  microvm.egress = "policy";
  microvm.role = "role";
  microvm.name = "name-" + std::to_string(n);
  microvm.env = {{"TOKEN", "s'e\"cret"}, {"EMPTY", ""}};
  microvm.engine = "other";
  microvm.isolation = core::Isolation::hardware;
  microvm.started = at(n);
  microvm.state_since = at(n);
  return microvm;
}

UsageRow sample_usage(int n, const core::TenantId& tenant) {
  const auto base = static_cast<std::uint64_t>(n) * 100;
  return {.microvm = core::MicrovmId("microvm-" + std::to_string(n)),
          .tenant = tenant,
          .meter = {.total = {.running_ms = base + 1,
                              .cpu_usec = base + 2,
                              .cpu_over_usec = base + 3,
                              .memory_mib_ms = base + (1UL << 60),
                              .suspended_mib_ms = base + 5,
                              .snapshot_read_bytes = base + 6,
                              .snapshot_written_bytes = base + 7,
                              .bytes_in = base + 8,
                              .bytes_out = base + 9},
                    .until = at(n),
                    .cpu_counter = base + 10}};
}

core::Role sample_role(int n) {
  return {.name = "role-" + std::to_string(n),
          .id = "AROA" + std::to_string(n),
          .policy = {{{.sid = "s\"id",
                       .allow = n % 2 == 0,
                       .actions = {"s3:Get*", "lambda:*"},
                       .resources = {"arn:aws:s3:::b/ü/*"},
                       .prefixes = {"p/*"}}}},
          .created = at(n)};
}

core::AccessToken sample_token(int n, const core::Microvm& microvm) {
  return {
      .id = core::TokenId("token-" + std::to_string(n)),
      .tenant = microvm.tenant,
      .microvm = microvm.id,
      .kind = core::TokenKind::shell,
      .ports = {.all = false, .ranges = {{80, 80}, {9000, static_cast<std::uint16_t>(9000 + n)}}},
      .created = at(n),
      .expires = at(n + 3600),
      .revoked = at(n + 1)};
}

core::Microvm walk(Store& store, core::Microvm microvm, const std::vector<MicrovmState>& states) {
  for (MicrovmState state : states) {
    auto changed = store.change({.id = microvm.id,
                                 .expected = microvm.revision,
                                 .state = state,
                                 .at = microvm.state_since + Seconds(1)});
    if (!changed) {
      ADD_FAILURE() << changed.error().text();
      return microvm;
    }
    microvm = *changed;
  }
  return microvm;
}

}  // namespace firebreak::store
