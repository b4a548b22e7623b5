// Tags of images, through the paths of classic Lambda.
#include "api/lambda/lambda_api.h"

namespace firebreak::api {
namespace {

constexpr std::size_t kMostTags = 50;

using Change = std::function<Result<>(core::Tags&)>;

// Reads, changes and writes in one transaction.
net::Task<AwsResult<core::Tags>> change_tags(store::Database& db, core::TenantId tenant,
                                             std::string name, std::string arn, Change change) {
  core::Tags tags;
  FB_CO_TRY(co_await db.run([&](store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(auto image, store.find_image_by_name(tenant, name));
    if (!image || image->tenant != tenant)
      return fail(Code::not_found, "The resource " + arn + " does not exist");
    if (change) {
      FB_TRY(change(image->tags));
      FB_TRY(store.update_image(*image));
    }
    tags = image->tags;
    return {};
  }));
  co_return tags;
}

AwsResult<std::string> tagged_image(const lambda::ArnScope& place, const std::string& arn) {
  // Functions, layers and the rest can be named, but there are none.
  if (arn.find(":microvm-image:") == std::string::npos)
    return refuse("ResourceNotFoundException", 404, "The resource " + arn + " does not exist");
  FB_TRY_ASSIGN(const lambda::ImageName named, lambda::parse_image_identifier(place, arn));
  if (named.managed)
    return refuse("AccessDeniedException", 403, "Managed images cannot be tagged: " + arn);
  return named.name;
}

}  // namespace

LambdaApi::Answer LambdaApi::tag_resource(Input& in) {
  const std::string arn = in.text("Resource");
  FB_CO_TRY_ASSIGN(const std::string name, tagged_image(in.place, arn));
  const json::object* added = in.object("Tags");
  const Change change = [added](core::Tags& tags) -> Result<> {
    for (const auto& tag : *added)
      tags[std::string(tag.key())] = std::string(tag.value().as_string());
    if (tags.size() > kMostTags) return fail(Code::invalid, "A resource has at most 50 tags");
    return {};
  };
  FB_CO_TRY(co_await change_tags(db(), in.tenant(), name, arn, change));
  co_return json::object{};
}

LambdaApi::Answer LambdaApi::untag_resource(Input& in) {
  const std::string arn = in.text("Resource");
  FB_CO_TRY_ASSIGN(const std::string name, tagged_image(in.place, arn));
  const json::array* keys = in.list("tagKeys");
  const Change change = [keys](core::Tags& tags) -> Result<> {
    for (const json::value& key : *keys) tags.erase(std::string(key.as_string()));
    return {};
  };
  FB_CO_TRY(co_await change_tags(db(), in.tenant(), name, arn, change));
  co_return json::object{};
}

LambdaApi::Answer LambdaApi::list_tags(Input& in) {
  const std::string arn = in.text("Resource");
  FB_CO_TRY_ASSIGN(const std::string name, tagged_image(in.place, arn));
  FB_CO_TRY_ASSIGN(const core::Tags tags,
                   co_await change_tags(db(), in.tenant(), name, arn, nullptr));
  json::object out;
  for (const auto& [key, value] : tags) out[key] = value;
  co_return json::object{{"Tags", std::move(out)}};
}

}  // namespace firebreak::api
