// Names of things in the Lambda MicroVMs API: ARNs of images and network connectors, base images
// and the places they stand for. Pure; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/aws/aws_error.h"
#include "core/model.h"

namespace firebreak::api::lambda {

// Managed images have the account "aws".
inline constexpr std::string_view kManagedAccount = "aws";

struct ArnScope {
  std::string region;
  std::string account;
};

std::string image_arn(const ArnScope& place, const core::Image& image);
std::string image_arn(const ArnScope& place, std::string_view account, std::string_view name);
// What a program finds in its environment beside its own, as on AWS.
std::map<std::string, std::string> platform_env(const ArnScope& place, const std::string& image,
                                                std::uint64_t version);

struct ImageName {
  std::string name;
  bool managed = false;  // named with the account "aws"
};
// A full ARN of this region and account (or of the account "aws"), or a bare name. An ARN of
// another account is denied, whether or not there is such an image.
AwsResult<ImageName> parse_image_identifier(const ArnScope& place, const std::string& text);

enum class Direction { ingress, egress };

// Managed ones are "HTTP_INGRESS" and so on; others are names from the configuration.
struct Connector {
  std::string name;
  bool managed = true;
};
std::string connector_arn(const ArnScope& place, const Connector& connector);
// By a name as it is kept.
Connector connector_named(std::string name);
AwsResult<Connector> parse_connector(const ArnScope& place, const std::string& arn,
                                     Direction direction);

inline constexpr std::string_view kHttpIngress = "HTTP_INGRESS";
inline constexpr std::string_view kAllIngress = "ALL_INGRESS";
inline constexpr std::string_view kShellIngress = "SHELL_INGRESS";

// Base images under which an image can be built: one guest system, under its own name and under
// the one AWS uses.
struct BaseImage {
  std::string_view name;
  std::string_view version;
};
std::span<const BaseImage> base_images();

}  // namespace firebreak::api::lambda
