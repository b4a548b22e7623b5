// Routes of builds from a Dockerfile: a context is uploaded, the log followed, the outcome read.
#include <algorithm>

#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "base/text.h"
#include "base/words.h"
#include "control/version_config.h"
#include "core/request_fields.h"
#include "image/context_upload.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

constexpr auto kUploadDeadline = std::chrono::hours(2);
constexpr auto kFollowDeadline = std::chrono::hours(6);

struct Found {
  core::Image image;
  core::ImageVersion version;
  core::Build build;
};

// "/health:8080"
Result<> read_ready(const std::string& text, control::BuildRequest& request) {
  if (text.empty()) return {};
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : parse_u64(std::string_view(text).substr(colon + 1));
  if (!port || *port == 0 || *port > 65535 || text.front() != '/')
    return fail(Code::invalid, "ready must be PATH:PORT, such as /health:8080");
  request.ready_path = text.substr(0, colon);
  request.ready_port = static_cast<std::uint16_t>(*port);
  return {};
}

// Secrets are in headers, because addresses end up in logs.
Result<> read_secrets(const wire::Headers& headers, control::BuildRequest& request) {
  for (const auto& header : headers) {
    if (header.name != "x-build-secret") continue;
    FB_TRY_ASSIGN(const auto secret, parse_pair(header.value, "x-build-secret"));
    const auto value = wire::from_base64(secret.value);
    if (!value) return fail(Code::invalid, "x-build-secret must be ID=BASE64");
    request.secrets[secret.name] = *value;
  }
  return {};
}

Result<control::BuildRequest> read_request(const Call& call) {
  control::BuildRequest request;
  request.reuse_version = true;
  request.prune_versions = call.flag("pruneVersions");
  request.name = call.param("image");
  request.file = call.target.has_query("file") ? call.query("file") : "Dockerfile";
  request.target = call.query("target");
  request.no_cache = call.flag("noCache");
  request.python_context = call.flag("pythonContext");
  request.egress = call.query("egress");
  request.build_egress = call.query("buildEgress");
  request.memory_mib = static_cast<std::uint32_t>(call.number("memoryMib").value_or(512));
  for (const auto& [name, value] : call.target.query) {
    if (name == "arg") {
      FB_TRY_ASSIGN(const NameValue arg, parse_pair(value, "arg"));
      request.args[arg.name] = arg.value;
    } else if (name == "env") {
      FB_TRY_ASSIGN(const NameValue env, parse_pair(value, "env"));
      request.env[env.name] = env.value;
    } else if (name == "preload") {
      FB_TRY(core::add_preload(request.preload, value));
    }
  }
  if (call.target.has_query("hooks")) {
    FB_TRY_ASSIGN(const json::object hooks, parse_json_object(call.query("hooks")));
    FB_TRY(check_object(hooks, core::hook_fields(), "hooks."));
    FB_TRY_ASSIGN(request.hooks, parse_hooks(hooks));
  }
  FB_TRY(read_ready(call.query("ready"), request));
  FB_TRY(read_secrets(call.exchange.request().headers, request));
  return request;
}

net::Task<Result<control::BuildRequest::Context>> read_context(Call& call,
                                                               const std::string& directory,
                                                               net::asio::thread_pool& pool) {
  const Deadline deadline = Deadline::in(kUploadDeadline);
  FB_CO_TRY_ASSIGN(auto upload, image::ContextUpload::create(directory));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await call.exchange.read(deadline));
    if (bytes.empty()) break;
    auto feed = [&]() { return upload->feed(bytes); };
    FB_CO_TRY(co_await net::run_blocking(pool, feed));
  }
  auto finish = [&]() { return upload->finish(); };
  FB_CO_TRY_ASSIGN(auto context, co_await net::run_blocking(pool, finish));
  co_return control::BuildRequest::Context(std::move(context));
}

json::array numbers_of(const std::vector<core::ImageVersion>& versions) {
  json::array numbers;
  for (const core::ImageVersion& version : versions)
    numbers.emplace_back(core::version_text(version.number));
  return numbers;
}

json::object to_json(const control::NewVersion& made) {
  json::object object{{"image", made.image.name},
                      {"version", core::version_text(made.version.number)},
                      {"build", made.build.id.str()},
                      {"state", to_string(made.version.state)}};
  if (made.unchanged) object["unchanged"] = true;
  if (!made.removed.empty()) object["removed"] = numbers_of(made.removed);
  return object;
}

net::Task<Result<>> build(control::Builds& builds, net::asio::thread_pool& pool, Call& call) {
  FB_CO_TRY_ASSIGN(control::BuildRequest request, read_request(call));
  // Before the first byte of it: an upload costs the host as much as a build that waits.
  FB_CO_TRY_ASSIGN(control::Builds::Ticket ticket, builds.admit(call.tenant()));
  FB_CO_TRY_ASSIGN(request.context, co_await read_context(call, builds.directory(), pool));
  FB_CO_TRY_ASSIGN(
      const control::NewVersion made,
      co_await builds.order(call.caller.tenant, std::move(request), std::move(ticket)));
  co_return co_await call.reply_json(made.unchanged ? 200 : 202, to_json(made));
}

// What nobody uses, and what that frees: a snapshot that several versions have goes with the last.
net::Task<Result<>> prune(control::Images& images, Call& call) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await images.find(call.tenant(), call.param("image")));
  FB_CO_TRY_ASSIGN(const auto before, co_await images.versions(image));
  const control::SnapshotBytes held = images.occupied(before);
  FB_CO_TRY_ASSIGN(const auto removed,
                   co_await images.prune(call.tenant(), call.param("image"), call.deadline));
  FB_CO_TRY_ASSIGN(const auto after, co_await images.versions(image));
  const control::SnapshotBytes left = images.occupied(after);
  co_return co_await call.reply_json(
      200, json::object{{"image", image.name},
                        {"removed", numbers_of(removed)},
                        {"diskBytes", held.disk - std::min(held.disk, left.disk)},
                        {"memoryBytes", held.memory - std::min(held.memory, left.memory)}});
}

net::Task<Result<Found>> find(control::Images& images, store::Database& db, Call& call) {
  Found found;
  FB_CO_TRY_ASSIGN(found.image, co_await images.find(call.tenant(), call.param("image")));
  FB_CO_TRY_ASSIGN(const auto versions, co_await images.versions(found.image));
  const std::string text = call.param("version");
  const auto number = core::parse_version(text);
  const core::ImageVersion* chosen = nullptr;
  for (const core::ImageVersion& version : versions) {
    const bool latest = chosen == nullptr || version.number > chosen->number;
    if (text == "latest" ? latest : number && version.number == *number) chosen = &version;
  }
  if (chosen == nullptr)
    co_return fail(Code::not_found, Reason{"version_not_found"},
                   "image " + found.image.name + " has no version " + text);
  found.version = *chosen;
  FB_CO_TRY_ASSIGN(const auto builds, co_await db.run([&](const store::Store& store) {
    return store.list_builds(found.image.id, found.version.number);
  }));
  if (!builds.empty()) found.build = builds.back();
  co_return found;
}

json::object to_json(const Found& found, const control::SnapshotBytes& occupied) {
  const core::ImageVersion& version = found.version;
  json::object out{
      {"image", found.image.name},         {"version", core::version_text(version.number)},
      {"state", to_string(version.state)}, {"active", version.active},
      {"memoryMib", version.memory_mib},   {"createdAt", core::to_unix_ms(version.created)},
      {"diskBytes", occupied.disk},        {"memoryBytes", occupied.memory},
      {"engine", version.engine},          {"isolation", core::to_string(version.isolation)}};
  if (!version.state_reason.empty()) out["stateReason"] = version.state_reason;
  if (auto preload = control::preload_of(version)) out["preload"] = *std::move(preload);
  if (!found.build.id.empty()) out["build"] = found.build.id.str();
  if (found.build.finished) out["finishedAt"] = core::to_unix_ms(*found.build.finished);
  if (auto config = parse_json_object(version.config.empty() ? "{}" : version.config)) {
    for (const auto& [from, to] : {std::pair("image", "config"), std::pair("steps", "steps"),
                                   std::pair(control::kGuestCa, "guestCa")})
      if (const json::value* value = config->if_contains(from)) out[to] = *value;
  }
  return out;
}

// Text as server-sent events: one `data` line a line, `event: end` with the state at the end.
std::string as_event(std::string_view text) {
  std::string out = "event: log\n";
  for (const std::string_view line : split(text, '\n')) out += "data: " + std::string(line) + "\n";
  return out + "\n";
}

net::Task<Result<>> log(control::Images& images, control::Builds& builds, store::Database& db,
                        Call& call) {
  FB_CO_TRY_ASSIGN(Found found, co_await find(images, db, call));
  if (found.build.id.empty())
    co_return fail(Code::not_found, "this version was not built from a Dockerfile");
  const bool events =
      wire::find_header(call.exchange.request().headers, "accept").contains("text/event-stream");
  const bool follow = call.flag("follow");
  const Deadline deadline = Deadline::in(kFollowDeadline);
  FB_CO_TRY(co_await call.exchange.start(
      200,
      {{"content-type", events ? "text/event-stream" : "text/plain; charset=utf-8"},
       {"cache-control", "no-store"}},
      call.deadline));
  std::uint64_t position = 0;
  while (!deadline.passed()) {
    const std::uint64_t seen = builds.log().changed().count();
    // Looked at before the log is: what is printed until the end is then read as well.
    FB_CO_TRY_ASSIGN(const auto now, co_await db.run([&](const store::Store& store) {
      return store.find_build(found.build.image, found.build.version, found.build.id);
    }));
    if (now) found.build = *now;
    FB_CO_TRY_ASSIGN(const std::string text, builds.log().read(found.build.id, position));
    if (!text.empty()) {
      position += text.size();
      FB_CO_TRY(co_await call.exchange.write(events ? as_event(text) : text, deadline));
      continue;
    }
    if (!follow || !now || now->finished) break;
    if (events) FB_CO_TRY(co_await call.exchange.write(": \n\n", deadline));
    (void)co_await builds.log().changed().wait(Deadline::in(std::chrono::seconds(15)), seen);
  }
  if (events)
    FB_CO_TRY(co_await call.exchange.write(
        "event: end\ndata: " + std::string(to_string(found.build.state)) + "\n\n", deadline));
  co_return co_await call.exchange.finish(deadline);
}

net::Task<Result<>> list_bases(control::Builds& builds, Call& call) {
  FB_CO_TRY_ASSIGN(const auto bases, co_await builds.bases().list(call.deadline));
  json::array items;
  for (const control::ManagedBase& base : bases) {
    items.push_back(
        json::object{{"name", base.name},
                     {"version", base.disk.version},
                     {"digest", base.disk.digest},
                     {"diskBytes", base.disk.bytes},
                     {"aliases", json::array(base.aliases.begin(), base.aliases.end())}});
  }
  co_return co_await call.reply_json(200, json::object{{"items", std::move(items)}});
}

}  // namespace

void NativeApi::add_build_routes() {
  store::Database& db = supervisor_.services().db;
  router_.add({"GET", "/v1/bases",
               "The bases that FROM can name on every server, their versions and other names",
               false, Carries::nothing, [this](Call& call) { return list_bases(builds_, call); }});
  router_.add(
      {"GET", "/v1/build-cache", "What builds keep for your next ones, in bytes", false,
       Carries::nothing, [this](Call& call) -> net::Task<Result<>> {
         FB_CO_TRY_ASSIGN(const control::CacheUse use, co_await builds_.cache_use(call.tenant()));
         co_return co_await call.reply_json(200, json::object{{"layers", use.layers},
                                                              {"layerBytes", use.layer_bytes},
                                                              {"mountBytes", use.mount_bytes}});
       }});
  router_.add(
      {"POST", "/v1/images/{image}/builds",
       "Build from a Dockerfile; the body is the context as tar or zip, secrets are headers "
       "x-build-secret: ID=BASE64",
       false, Carries::nothing, [this](Call& call) { return build(builds_, pool_, call); }});
  router_.add({"POST", "/v1/images/{image}/prune",
               "Remove all versions but the newest that can run and those whose microVMs live",
               false, Carries::nothing, [this](Call& call) { return prune(images_, call); }});
  router_.add({"GET", "/v1/images/{image}/versions/{version}",
               "One version, or latest: how it was made, what it runs, what it occupies", false,
               Carries::guest_bytes, [this, &db](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const Found found, co_await find(images_, db, call));
                 co_return co_await call.reply_json(
                     200, to_json(found, images_.occupied(found.version)));
               }});
  router_.add({"GET", "/v1/images/{image}/versions/{version}/log",
               "What its build printed, as text, or as server-sent events if those are accepted",
               false, Carries::guest_bytes,
               [this, &db](Call& call) { return log(images_, builds_, db, call); }});
  router_.add({"POST", "/v1/images/{image}/versions/{version}/cancel", "End its build", false,
               Carries::nothing, [this, &db](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const Found found, co_await find(images_, db, call));
                 if (found.image.tenant != call.tenant())
                   co_return fail(Code::denied, "this image is the system's");
                 FB_CO_TRY(builds_.cancel(found.build.id));
                 co_return co_await call.reply_json(200, json::object{});
               }});
  router_.add({"DELETE", "/v1/images/{image}/versions/{version}",
               "Remove one version; the last one goes with its image", false, Carries::nothing,
               [this, &db](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const Found found, co_await find(images_, db, call));
                 if (found.image.tenant != call.tenant())
                   co_return fail(Code::denied, "this image is the system's");
                 FB_CO_TRY(
                     co_await images_.remove_version(found.image, found.version, call.deadline));
                 co_return co_await call.reply_json(200, json::object{});
               }});
}

}  // namespace firebreak::api
