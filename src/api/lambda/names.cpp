#include "api/lambda/names.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "core/egress.h"

namespace firebreak::api::lambda {
namespace {

constexpr std::string_view kManagedConnector = "aws-network-connector";

struct ManagedConnector {
  std::string_view name;
  Direction direction;
};
constexpr std::array<ManagedConnector, 6> kConnectors{{
    {kHttpIngress, Direction::ingress},
    {kAllIngress, Direction::ingress},
    {kShellIngress, Direction::ingress},
    {"NO_INGRESS", Direction::ingress},
    {core::kInternetEgress, Direction::egress},
    {core::kNoEgress, Direction::egress},
}};

constexpr std::array<BaseImage, 2> kBaseImages{{{"al2023-1", "1"}, {"debian-12", "1"}}};

std::unexpected<AwsError> invalid(std::string message) {
  return refuse("ValidationException", 400, std::move(message));
}

// arn:aws:lambda:REGION:ACCOUNT:REST, without REST's own colons taken apart.
struct Arn {
  std::string_view region;
  std::string_view account;
  std::vector<std::string_view> rest;
};

std::optional<Arn> parse_arn(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() < 7 || parts[0] != "arn" || !parts[1].starts_with("aws") || parts[2] != "lambda")
    return std::nullopt;
  return Arn{parts[3], parts[4], {parts.begin() + 5, parts.end()}};
}

AwsResult<> check_region(const ArnScope& place, const Arn& arn, const std::string& text) {
  if (arn.region == place.region) return {};
  return invalid("The ARN " + text + " is of another region than the request's (" + place.region +
                 ")");
}

}  // namespace

std::string image_arn(const ArnScope& place, std::string_view account, std::string_view name) {
  return "arn:aws:lambda:" + place.region + ":" + std::string(account) +
         ":microvm-image:" + std::string(name);
}

std::map<std::string, std::string> platform_env(const ArnScope& place, const std::string& image,
                                                std::uint64_t version) {
  return {{"AWS_REGION", place.region},
          {"AWS_LAMBDA_MICROVM_IMAGE_NAME", image},
          {"AWS_LAMBDA_MICROVM_IMAGE_ARN", image_arn(place, place.account, image)},
          {"AWS_LAMBDA_MICROVM_IMAGE_VERSION", core::version_text(version)}};
}

std::string image_arn(const ArnScope& place, const core::Image& image) {
  return image_arn(place, image.tenant == core::kSystemTenant ? kManagedAccount : place.account,
                   image.name);
}

AwsResult<ImageName> parse_image_identifier(const ArnScope& place, const std::string& text) {
  if (core::check_image_name(text)) return ImageName{text, false};
  const auto arn = parse_arn(text);
  if (!arn || arn->rest.size() != 2 || arn->rest[0] != "microvm-image" ||
      !core::check_image_name(arn->rest[1]))
    return invalid("Invalid ARN format: " + text +
                   "; it must be arn:aws:lambda:REGION:ACCOUNT:microvm-image:NAME");
  if (auto region = check_region(place, *arn, text); !region)
    return std::unexpected(region.error());
  if (arn->account != place.account && arn->account != kManagedAccount)
    return refuse("AccessDeniedException", 403,
                  "User of account " + place.account +
                      " is not authorized to perform this action on resource: " + text);
  return ImageName{std::string(arn->rest[1]), arn->account == kManagedAccount};
}

std::string connector_arn(const ArnScope& place, const Connector& connector) {
  const std::string prefix = "arn:aws:lambda:" + place.region + ":";
  if (connector.managed)
    return prefix + "aws:network-connector:" + std::string(kManagedConnector) + ":" +
           connector.name;
  return prefix + place.account + ":network-connector:" + connector.name;
}

Connector connector_named(std::string name) {
  const bool managed = std::ranges::find(kConnectors, std::string_view(name),
                                         &ManagedConnector::name) != kConnectors.end();
  return {std::move(name), managed};
}

AwsResult<Connector> parse_connector(const ArnScope& place, const std::string& text,
                                     Direction direction) {
  const auto arn = parse_arn(text);
  if (!arn || arn->rest[0] != "network-connector")
    return invalid("Malformed network connector ARN: " + text);
  if (auto region = check_region(place, *arn, text); !region)
    return std::unexpected(region.error());
  if (arn->account == kManagedAccount && arn->rest.size() == 3 &&
      arn->rest[1] == kManagedConnector) {
    const auto at = std::ranges::find(kConnectors, arn->rest[2], &ManagedConnector::name);
    if (at == kConnectors.end())
      return invalid("Unrecognized managed network connector ARN: " + text);
    if (at->direction != direction)
      return invalid("The network connector " + text + " cannot be used for " +
                     (direction == Direction::ingress ? "ingress" : "egress"));
    return Connector{std::string(at->name), true};
  }
  if (arn->rest.size() != 2 || arn->account == kManagedAccount)
    return invalid("Unrecognized managed network connector ARN: " + text);
  if (arn->account != place.account)
    return refuse(
        "AccessDeniedException", 403,
        "User of account " + place.account +
            " is not authorized to perform: lambda:PassNetworkConnector on resource: " + text);
  if (direction == Direction::ingress)
    return invalid("The network connector " + text + " cannot be used for ingress");
  return Connector{std::string(arn->rest[1]), false};
}

std::span<const BaseImage> base_images() {
  return kBaseImages;
}

}  // namespace firebreak::api::lambda
