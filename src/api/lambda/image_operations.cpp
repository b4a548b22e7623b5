// Operations on images, their versions, builds and managed images.
#include "api/lambda/lambda_api.h"
#include "api/lambda/lambda_json.h"
#include "store/walk.h"

namespace firebreak::api {
namespace {

using core::ImageState;
using lambda::ArnScope;

constexpr core::Seconds kTokenLife{24 * 3600};

std::unexpected<AwsError> invalid(std::string message) {
  return refuse("ValidationException", 400, std::move(message));
}

std::unexpected<AwsError> conflict(const ArnScope& place, const core::Image& image,
                                   const std::string& why) {
  AwsError error(Error{
      Code::conflict, "The MicroVM image " + lambda::image_arn(place, image) + " " + why, {}});
  error.members["resourceId"] = lambda::image_arn(place, image);
  error.members["resourceType"] = "MicrovmImage";
  return std::unexpected(std::move(error));
}

bool in_transition(const core::Image& image) {
  return image.state == ImageState::creating || image.state == ImageState::updating ||
         image.state == ImageState::deleting;
}

// Keys that sort as the numbers they stand for.
std::string sortable(std::uint64_t number) {
  std::string text = std::to_string(number);
  return std::string(20 - text.size(), '0') + text;
}

// The answer of create and update: the image, and the version as it was ordered.
json::object ordered_json(const ArnScope& place, const control::NewVersion& ordered) {
  json::object out = lambda::version_json(place, ordered.image, ordered.version);
  out.erase("status");
  out["name"] = ordered.image.name;
  out["state"] = to_string(ordered.image.state);
  out["createdAt"] = epoch_seconds(ordered.image.created);
  return out;
}

json::object tags_json(const core::Tags& tags) {
  json::object out;
  for (const auto& [key, value] : tags) out[key] = value;
  return out;
}

}  // namespace

net::Task<AwsResult<core::Image>> LambdaApi::find_image(Input& in, std::string identifier,
                                                        bool any) {
  FB_CO_TRY_ASSIGN(const lambda::ImageName named,
                   lambda::parse_image_identifier(in.place, identifier));
  const core::TenantId owner = named.managed ? core::kSystemTenant : in.tenant();
  FB_CO_TRY_ASSIGN(const auto found, co_await db().run([&](const store::Store& store) {
    return store.find_image_by_name(owner, named.name);
  }));
  const bool own = found && found->tenant == in.tenant();
  // One of the system's is not reached by an ARN of the caller's account.
  const bool named_own = !named.managed && identifier.starts_with("arn:");
  if (!found || (!own && (!any || named_own))) {
    co_return std::unexpected(
        Error{Code::not_found, "There is no MicroVM image " + identifier, {}});
  }
  co_return *found;
}

net::Task<AwsResult<core::ImageVersion>> LambdaApi::find_version(core::Image image,
                                                                 std::string text) {
  const auto number = core::parse_version(text);
  if (!number) co_return invalid("imageVersion must be like 1.0");
  FB_CO_TRY_ASSIGN(const auto found, co_await db().run([&](const store::Store& store) {
    return store.find_version(image.id, *number);
  }));
  if (!found) {
    co_return std::unexpected(
        Error{Code::not_found, "The MicroVM image " + image.name + " has no version " + text, {}});
  }
  co_return *found;
}

// ------------------------------------------------------------------------------- create and update

AwsResult<> LambdaApi::read_base(const Input& in, ImageOrder& order) {
  const std::string arn = in.text("baseImageArn");
  FB_TRY_ASSIGN(const lambda::ImageName base, lambda::parse_image_identifier(in.place, arn));
  const auto known = std::ranges::find(lambda::base_images(), base.name, &lambda::BaseImage::name);
  if (!base.managed || known == lambda::base_images().end()) {
    std::string names;
    for (const lambda::BaseImage& each : lambda::base_images())
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    return invalid("baseImageArn " + arn +
                   " is not a managed MicroVM image that others are built on; those are " + names);
  }
  const std::string version = in.text("baseImageVersion");
  if (!version.empty() && version != known->version &&
      version != std::string(known->version) + ".0")
    return invalid("baseImageVersion " + version + " of " + arn + " does not exist");
  order.base_version = known->version;
  return {};
}

// Size, CPU, hooks, capabilities, network.
AwsResult<> LambdaApi::read_machine(const Input& in, ImageOrder& order) const {
  if (const json::array* resources = in.list("resources"); resources && !resources->empty()) {
    const std::int64_t wanted = resources->front().at("minimumMemoryInMiB").as_int64();
    auto size = core::size_for(static_cast<std::uint64_t>(wanted));
    if (!size)
      return invalid("minimumMemoryInMiB " + std::to_string(wanted) +
                     " is not supported by the base image " + in.text("baseImageArn") +
                     "; supported values are 512, 1024, 2048, 4096, 8192");
    order.build.memory_mib = size->memory_mib;
  }
  if (const json::array* cpus = in.list("cpuConfigurations")) {
    for (const json::value& cpu : *cpus) {
      if (cpu.at("architecture").as_string() == "ARM_64" && !options_.arm_alias)
        return invalid(
            "The architecture ARM_64 is not available on this host; leave cpuConfigurations out, "
            "ask for X86_64, or start the server with --lambda-arm-alias");
    }
  }
  if (const json::object* hooks = in.object("hooks")) {
    FB_TRY_ASSIGN(order.build.hooks, lambda::read_hooks(*hooks));
  }
  if (const json::array* capabilities = in.list("additionalOsCapabilities"))
    order.build.all_capabilities = !capabilities->empty();
  if (const json::array* egress = in.list("egressNetworkConnectors"); egress && !egress->empty()) {
    FB_TRY_ASSIGN(const json::array names, connectors(in, *egress, lambda::Direction::egress));
    order.build.egress = order.build.build_egress = names.front().as_string();
  }
  return {};
}

AwsResult<ImageOrder> LambdaApi::read_order(const Input& in) const {
  ImageOrder order;
  order.build.name = in.text("name");
  FB_TRY(read_base(in, order));
  FB_TRY(read_machine(in, order));
  const std::string uri = in.text_in("codeArtifact", "uri").substr(std::string("s3://").size());
  order.code.bucket = uri.substr(0, uri.find('/'));
  order.code.key = uri.substr(uri.find('/') + 1);
  order.code.role = build_role(in);
  order.build.env = in.strings("environmentVariables");
  order.build.tags = in.strings("tags");

  json::object kept;
  for (const char* member : {"baseImageArn", "buildRoleArn", "codeArtifact", "description",
                             "logging", "egressNetworkConnectors", "cpuConfigurations",
                             "additionalOsCapabilities", "clientToken"}) {
    if (in.has(member)) kept[member] = in.body.at(member);
  }
  kept["baseImageVersion"] = order.base_version + ".0";
  kept["requestHash"] = wire::sha256_hex(lambda::canonical_json(in.body));
  order.build.lambda = json::serialize(kept);
  return order;
}

// One of ours, or an egress policy of that name.
net::Task<AwsResult<>> LambdaApi::check_egress(Input& in, std::string name) {
  if (name.empty()) co_return AwsResult<>();
  if (auto found = co_await parts_.supervisor.egress().find(in.tenant(), name); !found)
    co_return invalid("The network connector " + name + " does not exist");
  co_return AwsResult<>();
}

// What the client token made before: it names one request of the last day, whatever it was for.
net::Task<AwsResult<std::optional<control::NewVersion>>> LambdaApi::find_replay(Input& in,
                                                                                std::string hash) {
  const std::string token = in.text("clientToken");
  std::optional<control::NewVersion> found;
  if (token.empty()) co_return found;
  const core::Time oldest = parts_.supervisor.services().clock.now() - kTokenLife;
  const core::TenantId& tenant = in.tenant();
  FB_CO_TRY(co_await db().run([&](const store::Store& store) -> Result<> {
    const auto look = [&](const core::Image& image, const core::ImageVersion& version) -> Result<> {
      const json::object kept = lambda::kept(version.config);
      const json::value* known = kept.if_contains("clientToken");
      if (known != nullptr && version.created > oldest && *known == json::value(token))
        found = control::NewVersion{.image = image, .version = version, .build = {}};
      return {};
    };
    return store::for_each_version(store, tenant, look);
  }));
  if (found && lambda::kept(found->version.config).at("requestHash") != json::value(hash))
    co_return conflict(in.place, found->image,
                       "was made with the same clientToken and other parameters");
  co_return found;
}

net::Task<Result<control::NewVersion>> LambdaApi::place_order(Input& in, ImageOrder order) {
  control::BuildRequest& build = order.build;
  build.platform_env = [place = in.place, image = build.name](std::uint64_t version) {
    return lambda::platform_env(place, image, version);
  };
  build.fetch = [this, tenant = in.tenant(), code = std::move(order.code)](Deadline deadline) {
    return parts_.artifacts.fetch(tenant, code, deadline);
  };
  co_return co_await parts_.build(in.call.caller.tenant, std::move(build));
}

LambdaApi::Answer LambdaApi::create_image(Input& in) {
  FB_CO_TRY_ASSIGN(ImageOrder order, read_order(in));
  FB_CO_TRY(allow_order(in, order));
  FB_CO_TRY(co_await check_egress(in, order.build.egress));
  const std::string hash = wire::sha256_hex(lambda::canonical_json(in.body));
  FB_CO_TRY_ASSIGN(std::optional<control::NewVersion> ordered, co_await find_replay(in, hash));
  if (!ordered) {
    const std::string name = order.build.name;
    auto existing = co_await db().run(
        [&](const store::Store& store) { return store.find_image_by_name(in.tenant(), name); });
    if (!existing) co_return std::unexpected(existing.error());
    const std::string taken = "A MicroVM image named " + name + " already exists";
    if (*existing && (*existing)->tenant == in.tenant()) co_return invalid(taken);
    auto made = co_await place_order(in, std::move(order));
    if (!made && made.error().code == Code::conflict) co_return invalid(taken);
    if (!made) co_return std::unexpected(made.error());
    ordered = *std::move(made);
  }
  json::object answer = ordered_json(in.place, *ordered);
  if (!ordered->image.tags.empty()) answer["tags"] = tags_json(ordered->image.tags);
  co_return answer;
}

LambdaApi::Answer LambdaApi::update_image(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(ImageOrder order, read_order(in));
  FB_CO_TRY(allow_order(in, order));
  FB_CO_TRY(co_await check_egress(in, order.build.egress));
  order.build.name = image.name;
  const std::string hash = wire::sha256_hex(lambda::canonical_json(in.body));
  FB_CO_TRY_ASSIGN(std::optional<control::NewVersion> ordered, co_await find_replay(in, hash));
  if (!ordered) {
    if (in_transition(image) || image.state == ImageState::create_failed)
      co_return conflict(in.place, image,
                         "is " + std::string(to_string(image.state)) + " and cannot be updated");
    FB_CO_TRY_ASSIGN(ordered, co_await place_order(in, std::move(order)));
  }
  json::object answer = ordered_json(in.place, *ordered);
  answer["updatedAt"] = epoch_seconds(ordered->version.created);
  co_return answer;
}

// ------------------------------------------------------------------------------------------ images

LambdaApi::Answer LambdaApi::get_image(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const auto versions, co_await parts_.images.versions(image));
  json::object answer = lambda::image_json(in.place, image, versions);
  if (!image.tags.empty()) answer["tags"] = tags_json(image.tags);
  if (image.updated) answer["updatedAt"] = epoch_seconds(*image.updated);
  co_return answer;
}

LambdaApi::Answer LambdaApi::list_images(Input& in) {
  const store::PageRequest page{.size = in.page_size(), .token = in.text("nextToken")};
  json::object answer;
  FB_CO_TRY(co_await db().run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto found, store.list_images(in.tenant(), in.text("nameFilter"), page));
    json::array items;
    for (const core::Image& image : found.items) {
      if (image.tenant != in.tenant()) continue;  // those of the system are listed as managed
      FB_TRY_ASSIGN(const auto versions, store.list_versions(image.id));
      items.push_back(lambda::image_json(in.place, image, versions));
    }
    answer["items"] = std::move(items);
    if (!found.next.empty()) answer["nextToken"] = found.next;
    return {};
  }));
  co_return answer;
}

LambdaApi::Answer LambdaApi::delete_image(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  if (in_transition(image))
    co_return conflict(in.place, image,
                       "is " + std::string(to_string(image.state)) + " and cannot be deleted");
  FB_CO_TRY(co_await parts_.images.remove(in.tenant(), image.id.str(), in.call.deadline));
  co_return json::object{{"imageIdentifier", lambda::image_arn(in.place, image)},
                         {"state", "DELETING"}};
}

// ---------------------------------------------------------------------------------------- versions

LambdaApi::Answer LambdaApi::get_version(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const core::ImageVersion version,
                   co_await find_version(image, in.text("imageVersion")));
  json::object answer = lambda::version_json(in.place, image, version);
  if (!image.tags.empty()) answer["tags"] = tags_json(image.tags);
  co_return answer;
}

LambdaApi::Answer LambdaApi::list_versions(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const auto versions, co_await parts_.images.versions(image));
  Rows rows;
  for (const core::ImageVersion& version : versions)
    rows[sortable(version.number)] = lambda::version_json(in.place, image, version);
  co_return page(in, rows);
}

LambdaApi::Answer LambdaApi::update_version(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const core::ImageVersion version,
                   co_await find_version(image, in.text("imageVersion")));
  if (in_transition(image))
    co_return conflict(in.place, image, "is " + std::string(to_string(image.state)));
  const bool active = in.text("status") == "ACTIVE";
  if (active && version.state != core::VersionState::successful)
    co_return conflict(in.place, image,
                       "has a version " + core::version_text(version.number) + " that is " +
                           std::string(to_string(version.state)) + "; it cannot be ACTIVE");
  FB_CO_TRY_ASSIGN(const core::ImageVersion changed,
                   co_await parts_.images.set_active(image.id, version.number, active));
  co_return lambda::version_json(in.place, image, changed);
}

LambdaApi::Answer LambdaApi::delete_version(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const core::ImageVersion version,
                   co_await find_version(image, in.text("imageVersion")));
  if (in_transition(image))
    co_return conflict(
        in.place, image,
        "is " + std::string(to_string(image.state)) + "; its versions cannot be deleted now");
  FB_CO_TRY(co_await parts_.images.remove_version(image, version, in.call.deadline));
  co_return json::object{{"imageIdentifier", lambda::image_arn(in.place, image)},
                         {"imageVersion", core::version_text(version.number)},
                         {"state", "DELETING"}};
}

// ------------------------------------------------------------------------------------------ builds

LambdaApi::Answer LambdaApi::get_build(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const core::ImageVersion version,
                   co_await find_version(image, in.text("imageVersion")));
  const core::BuildId id(in.text("buildId"));
  FB_CO_TRY_ASSIGN(const auto build, co_await db().run([&](const store::Store& store) {
    return store.find_build(image.id, version.number, id);
  }));
  if (!build)
    co_return std::unexpected(Error{Code::not_found, "There is no build " + id.str(), {}});
  json::object answer = lambda::build_json(in.place, image, *build);
  if (build->state == core::BuildState::successful)
    answer["snapshotBuild"] = json::object{{"memorySnapshotSizeInBytes", build->memory_bytes},
                                           {"codeInstallSizeInBytes", build->disk_bytes},
                                           {"diskSnapshotSizeInBytes", build->disk_bytes}};
  co_return answer;
}

LambdaApi::Answer LambdaApi::list_builds(Input& in) {
  FB_CO_TRY_ASSIGN(const core::Image image,
                   co_await find_image(in, in.text("imageIdentifier"), false));
  FB_CO_TRY_ASSIGN(const core::ImageVersion version,
                   co_await find_version(image, in.text("imageVersion")));
  FB_CO_TRY_ASSIGN(const auto builds, co_await db().run([&](const store::Store& store) {
    return store.list_builds(image.id, version.number);
  }));
  const auto wants = [&in](std::string_view name, std::string_view value) {
    return !in.has(name) || in.text(name) == value;
  };
  Rows rows;
  if (wants("architecture", lambda::kArchitecture) && wants("chipset", lambda::kChipset) &&
      wants("chipsetGeneration", lambda::kChipsetGeneration)) {
    for (const core::Build& build : builds)
      rows[sortable(static_cast<std::uint64_t>(core::to_unix_ms(build.created))) + build.id.str()] =
          lambda::build_json(in.place, image, build);
  }
  co_return page(in, rows);
}

// ----------------------------------------------------------------------------------------- managed

// Base images to build on, and images of the system that can be run as they are.
LambdaApi::Answer LambdaApi::list_managed(Input& in) {
  Rows rows;
  FB_CO_TRY(co_await db().run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(const auto system, store.find_tenant(core::kSystemTenant));
    for (const lambda::BaseImage& base : lambda::base_images())
      rows[std::string(base.name)] = {
          {"imageArn", lambda::image_arn(in.place, lambda::kManagedAccount, base.name)},
          {"createdAt", epoch_seconds(system ? system->created : core::Time{})}};
    FB_TRY_ASSIGN(const auto images, store.list_images(core::kSystemTenant, "", {.size = 1000}));
    for (const core::Image& image : images.items) {
      json::object row{{"imageArn", lambda::image_arn(in.place, image)},
                       {"createdAt", epoch_seconds(image.created)}};
      if (image.updated) row["updatedAt"] = epoch_seconds(*image.updated);
      rows[image.name] = std::move(row);
    }
    return {};
  }));
  co_return page(in, rows);
}

LambdaApi::Answer LambdaApi::list_managed_versions(Input& in) {
  const std::string identifier = in.text("imageIdentifier");
  FB_CO_TRY_ASSIGN(const lambda::ImageName named,
                   lambda::parse_image_identifier(in.place, identifier));
  const auto row = [&in, &named](std::string_view version, core::Time created) -> json::object {
    return {{"imageArn", lambda::image_arn(in.place, lambda::kManagedAccount, named.name)},
            {"imageVersion", version},
            {"createdAt", epoch_seconds(created)},
            {"status", "AVAILABLE"}};
  };
  Rows rows;
  FB_CO_TRY(co_await db().run([&](const store::Store& store) -> Result<> {
    for (const lambda::BaseImage& base : lambda::base_images()) {
      if (base.name != named.name) continue;
      FB_TRY_ASSIGN(const auto system, store.find_tenant(core::kSystemTenant));
      rows[sortable(1)] = row(base.version, system ? system->created : core::Time{});
    }
    FB_TRY_ASSIGN(const auto image, store.find_image_by_name(core::kSystemTenant, named.name));
    if (!image) return {};
    FB_TRY_ASSIGN(const auto versions, store.list_versions(image->id));
    for (const core::ImageVersion& version : versions) {
      if (core::runnable(version))
        rows[sortable(version.number)] = row(core::version_text(version.number), version.created);
    }
    return {};
  }));
  if (rows.empty())
    co_return std::unexpected(
        Error{Code::not_found, "There is no managed MicroVM image " + identifier, {}});
  co_return page(in, rows);
}

}  // namespace firebreak::api
