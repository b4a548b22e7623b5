// What a caller with a role needs to be allowed for each operation, as on AWS: operations on
// microVMs are decided on their image, listings on "*".
#include "api/lambda/lambda_api.h"
#include "api/lambda/lambda_json.h"

namespace firebreak::api {

net::Task<AwsResult<bool>> LambdaApi::has_managed_image(core::Microvm microvm) {
  // Clients poll this: mostly no store is asked.
  if (const auto kept = lambda::kept_managed(microvm)) co_return *kept;
  FB_CO_TRY_ASSIGN(const auto image, co_await db().run([&microvm](const store::Store& store) {
    return store.find_image(core::kSystemTenant, microvm.image);
  }));
  co_return image.has_value();
}

net::Task<AwsResult<std::string>> LambdaApi::resource_of(Input& in) {
  if (in.has("Resource")) co_return in.text("Resource");
  if (in.operation.name.starts_with("List")) co_return std::string("*");
  if (in.has("microvmIdentifier")) {
    auto microvm = co_await parts_.supervisor.get(in.tenant(), in.microvm());
    if (!microvm && microvm.error().code == Code::not_found)
      co_return lambda::image_arn(in.place, in.place.account, "*");
    if (!microvm) co_return std::unexpected(microvm.error());
    FB_CO_TRY_ASSIGN(const bool managed, co_await has_managed_image(*microvm));
    co_return lambda::image_arn(in.place, managed ? lambda::kManagedAccount : in.place.account,
                                microvm->image_name);
  }
  if (in.has("name")) co_return lambda::image_arn(in.place, in.place.account, in.text("name"));
  const std::string identifier = in.text("imageIdentifier");
  // A bare name may be one of the system's.
  if (auto image = co_await find_image(in, identifier, true))
    co_return lambda::image_arn(in.place, *image);
  FB_CO_TRY_ASSIGN(const lambda::ImageName named,
                   lambda::parse_image_identifier(in.place, identifier));
  co_return lambda::image_arn(in.place, named.managed ? lambda::kManagedAccount : in.place.account,
                              named.name);
}

net::Task<AwsResult<>> LambdaApi::authorize(Input& in) {
  if (!in.call.role) co_return AwsResult<>();
  FB_CO_TRY_ASSIGN(const std::string resource, co_await resource_of(in));
  co_return in.call.allow("lambda:" + std::string(in.operation.name), resource);
}

AwsResult<> LambdaApi::allow_connectors(const Input& in, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    FB_TRY(in.call.allow("lambda:PassNetworkConnector",
                         lambda::connector_arn(in.place, lambda::connector_named(name))));
  return {};
}

// A caller with a role needs the right to pass the build role and to read the artifact. Otherwise a
// role could give itself more than it has.
AwsResult<> LambdaApi::allow_order(const Input& in, const ImageOrder& order) {
  if (!in.call.role) return {};
  FB_TRY(in.call.allow("iam:PassRole", in.text("buildRoleArn")));
  FB_TRY(in.call.allow("s3:GetObject", "arn:aws:s3:::" + order.code.bucket + "/" + order.code.key));
  if (order.build.egress.empty()) return {};
  return allow_connectors(in, {order.build.egress});
}

AwsResult<> LambdaApi::allow_run(const Input& in, std::vector<std::string> ingress,
                                 std::string egress) {
  if (!in.call.role) return {};
  if (in.has("executionRoleArn"))
    FB_TRY(in.call.allow("iam:PassRole", in.text("executionRoleArn")));
  ingress.push_back(std::move(egress));
  return allow_connectors(in, ingress);
}

AwsResult<std::string> LambdaApi::execution_role(const Input& in) const {
  if (!in.has("executionRoleArn")) return std::string();
  const std::string arn = in.text("executionRoleArn");
  const auto named = core::parse_role_arn(arn);
  if (named && named->tenant != in.tenant())
    return std::unexpected(in.call.denied("iam:PassRole", arn, core::RoleVerdict::not_allowed));
  if (!named || !parts_.supervisor.roles().find(in.tenant(), named->name))
    return refuse("ValidationException", 400,
                  "The execution role " + arn + " does not exist or cannot be assumed");
  return named->name;
}

// Programs name build roles that they made in IAM, which this server does not have. So a role that
// the server does not know limits nothing; a role that it knows limits what the build may read.
std::string LambdaApi::build_role(const Input& in) const {
  const auto named = core::parse_role_arn(in.text("buildRoleArn"));
  if (!named || named->tenant != in.tenant()) return {};
  return parts_.supervisor.roles().find(in.tenant(), named->name) ? named->name : std::string();
}

}  // namespace firebreak::api
