// Routes of images.
#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "control/version_config.h"

namespace firebreak::api {
namespace {

constexpr auto kBuildDeadline = std::chrono::minutes(30);

json::object to_json(const core::ImageVersion& version) {
  json::object object{{"version", core::version_text(version.number)},
                      {"state", to_string(version.state)},
                      {"active", version.active},
                      {"memoryMib", version.memory_mib},
                      {"engine", version.engine},
                      {"isolation", core::to_string(version.isolation)},
                      {"createdAt", core::to_unix_ms(version.created)}};
  if (!version.state_reason.empty()) object["stateReason"] = version.state_reason;
  if (auto preload = control::preload_of(version)) object["preload"] = *std::move(preload);
  return object;
}

json::object to_json(const core::Image& image) {
  json::object tags;
  for (const auto& [key, value] : image.tags) tags[key] = value;
  return {{"id", image.id.str()},
          {"name", image.name},
          {"state", to_string(image.state)},
          {"system", image.tenant == core::kSystemTenant},
          {"tags", std::move(tags)},
          {"createdAt", core::to_unix_ms(image.created)}};
}

Result<control::BaseImageRequest> parse_build(const json::object& body) {
  JsonReader reader(body);
  control::BaseImageRequest request;
  request.name = reader.string("name");
  request.memory_mib = static_cast<std::uint32_t>(reader.u64_or("memoryMib", 512));
  request.env = reader.string_map_or_empty("env");
  request.tags = reader.string_map_or_empty("tags");
  request.python_context = reader.boolean_or("pythonContext", false);
  if (const json::object* app = reader.object("app", false)) {
    JsonReader inner(*app, "app.");
    machine::AppSpec spec;
    spec.argv = inner.strings_or_empty("argv");
    if (spec.argv.empty()) inner.reject("argv", "is needed");
    spec.env = inner.string_map_or_empty("env");
    spec.cwd = inner.string_or("cwd", "/");
    spec.user = inner.string_or("user", "root");
    request.app_is_pid1 = inner.boolean_or("pid1", true);
    FB_TRY(inner.result());
    request.app = std::move(spec);
  }
  const json::object* hooks = reader.object("hooks", false);
  const json::object* preload = reader.object("preload", false);
  FB_TRY(reader.result());
  if (preload != nullptr) {
    FB_TRY_ASSIGN(request.preload, core::preload_from_json(*preload));
  }
  if (hooks != nullptr) {
    FB_TRY_ASSIGN(request.hooks, parse_hooks(*hooks));
  }
  return request;
}

net::Task<Result<>> build(control::Images& images, Call& call) {
  FB_CO_TRY_ASSIGN(const json::object body, co_await call.json_body());
  FB_CO_TRY_ASSIGN(control::BaseImageRequest request, parse_build(body));
  FB_CO_TRY_ASSIGN(
      const core::ImageVersion version,
      co_await images.build_from_base(call.tenant(), call.caller.tenant.limits, std::move(request),
                                      nullptr, Deadline::in(kBuildDeadline)));
  co_return co_await call.reply_json(201, to_json(version));
}

void add_bytes(json::object& object, const control::SnapshotBytes& occupied) {
  object["diskBytes"] = occupied.disk;
  object["memoryBytes"] = occupied.memory;
}

net::Task<Result<>> show(control::Images& images, Call& call) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await images.find(call.tenant(), call.param("image")));
  FB_CO_TRY_ASSIGN(const auto versions, co_await images.versions(image));
  json::array list;
  for (const core::ImageVersion& version : versions) {
    json::object item = to_json(version);
    add_bytes(item, images.occupied(version));
    list.push_back(std::move(item));
  }
  json::object answer = to_json(image);
  add_bytes(answer, images.occupied(versions));
  answer["versions"] = std::move(list);
  co_return co_await call.reply_json(200, answer);
}

net::Task<Result<>> list(control::Supervisor& supervisor, control::Images& images, Call& call) {
  store::PageRequest page{.size = 1000, .token = call.query("pageToken")};
  std::map<core::ImageId, std::vector<core::ImageVersion>> versions;
  using Images = store::Page<core::Image>;
  FB_CO_TRY_ASSIGN(
      const Images found,
      co_await supervisor.services().db.run([&](const store::Store& store) -> Result<Images> {
        FB_TRY_ASSIGN(Images images_found,
                      store.list_images(call.tenant(), call.query("name"), page));
        for (const core::Image& image : images_found.items) {
          FB_TRY_ASSIGN(versions[image.id], store.list_versions(image.id));
        }
        return images_found;
      }));
  json::array items;
  for (const core::Image& image : found.items) {
    json::object item = to_json(image);
    add_bytes(item, images.occupied(versions.at(image.id)));
    items.push_back(std::move(item));
  }
  json::object answer{{"items", std::move(items)}};
  if (!found.next.empty()) answer["nextPageToken"] = found.next;
  co_return co_await call.reply_json(200, answer);
}

}  // namespace

void NativeApi::add_image_routes() {
  router_.add({"GET", "/v1/images", "List images: your own and the system's", false,
               Carries::nothing, [this](Call& call) { return list(supervisor_, images_, call); }});
  router_.add({"POST", "/v1/images", "Make an image from the base; answers when built", false,
               Carries::guest_bytes, [this](Call& call) { return build(images_, call); }});
  router_.add({"GET", "/v1/images/{image}", "One image with its versions", false,
               Carries::guest_bytes, [this](Call& call) { return show(images_, call); }});
  router_.add({"DELETE", "/v1/images/{image}", "Remove an image and its snapshots", false,
               Carries::nothing, [this](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY(
                     co_await images_.remove(call.tenant(), call.param("image"), call.deadline));
                 co_return co_await call.reply_json(200, json::object{});
               }});
}

}  // namespace firebreak::api
