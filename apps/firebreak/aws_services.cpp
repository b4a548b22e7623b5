#include "aws_services.h"

#include "api/lambda/lambda_api.h"
#include "api/logs/logs_api.h"
#include "api/s3/s3_api.h"
#include "api/sts/sts_api.h"
#include "base/text.h"

namespace firebreak::cli {
namespace {

using net::Task;

Result<std::map<std::string, std::uint32_t>> parse_rates(const std::string& text) {
  std::map<std::string, std::uint32_t> rates;
  for (std::string_view part : split(text, ',')) {
    if (part.empty()) continue;
    const auto at = part.find('=');
    const auto rate = at == std::string_view::npos ? std::nullopt : parse_u64(part.substr(at + 1));
    const auto known = api::lambda::operations();
    if (!rate || *rate == 0 || *rate > 100'000 ||
        std::ranges::find(known, part.substr(0, at), &api::lambda::Operation::name) == known.end())
      return fail(Code::invalid,
                  "--aws-rates: '" + std::string(part) +
                      "' must be the name of an operation, '=' and a number above 0");
    rates[std::string(part.substr(0, at))] = static_cast<std::uint32_t>(*rate);
  }
  return rates;
}

// What a program finds in its environment beside its own, as on AWS.
std::map<std::string, std::string> platform_env(const api::lambda::Place& place,
                                                const std::string& image, std::uint64_t version) {
  return {{"AWS_REGION", place.region},
          {"AWS_LAMBDA_MICROVM_IMAGE_NAME", image},
          {"AWS_LAMBDA_MICROVM_IMAGE_ARN", api::lambda::image_arn(place, place.account, image)},
          {"AWS_LAMBDA_MICROVM_IMAGE_VERSION", core::version_text(version)}};
}

Task<Result<api::OrderedImage>> order_image(AwsParts parts, core::Tenant tenant,
                                            api::ImageOrder order) {
  FB_CO_TRY_ASSIGN(control::Builds::Ticket ticket, parts.builds.admit(tenant.id));
  control::BuildRequest request;
  request.name = order.name;
  request.memory_mib = order.memory_mib;
  request.hooks = order.hooks;
  request.env = order.env;
  request.platform_env = [place = api::lambda::Place{order.region, tenant.id.str()},
                          image = order.name](std::uint64_t version) {
    return platform_env(place, image, version);
  };
  request.tags = order.tags;
  request.all_capabilities = order.all_capabilities;
  request.egress = order.egress;
  request.build_egress = order.egress;
  request.lambda = order.config;
  request.fetch = [&artifacts = parts.artifacts, id = tenant.id, order](Deadline deadline) {
    return artifacts.fetch(id, order, deadline);
  };
  FB_CO_TRY_ASSIGN(
      control::NewVersion made,
      co_await parts.builds.order(std::move(tenant), std::move(request), std::move(ticket)));
  co_return api::OrderedImage{std::move(made.image), std::move(made.version)};
}

Task<Result<std::string>> issue(ingress::EndpointTokens& tokens, core::Microvm microvm,
                                api::TokenGrant grant) {
  ingress::TokenRequest request{
      .kind = grant.shell ? core::TokenKind::shell : core::TokenKind::endpoint,
      .ports = {},
      .life = grant.life};
  for (const api::TokenGrant::Range& range : grant.ports)
    request.ports.ranges.push_back({range.first, range.last});
  FB_CO_TRY_ASSIGN(const ingress::IssuedToken issued,
                   co_await tokens.issue(microvm.tenant, microvm.id, std::move(request)));
  co_return issued.token;
}

}  // namespace

Result<std::unique_ptr<api::AwsApi>> make_aws_api(const ServerConfig& config, AwsParts parts) {
  control::Services& services = parts.supervisor.services();
  auto front = std::make_unique<api::AwsApi>(parts.keys, parts.supervisor.roles(), services.clock,
                                             services.log, services.metrics);
  FB_TRY_ASSIGN(auto rates, parse_rates(config.aws_rates));
  front->add(
      "lambda",
      std::make_unique<api::LambdaApi>(
          api::LambdaParts{.supervisor = parts.supervisor,
                           .images = parts.images,
                           .create_image =
                               [parts](const core::Tenant& tenant, const api::ImageOrder& order) {
                                 return order_image(parts, tenant, order);
                               },
                           .update_image =
                               [parts](const core::Tenant& tenant, const core::Image&,
                                       const api::ImageOrder& order) {
                                 return order_image(parts, tenant, order);
                               },
                           .issue_token =
                               [tokens = &parts.tokens](const core::Microvm& microvm,
                                                        const api::TokenGrant& grant) {
                                 return issue(*tokens, microvm, grant);
                               },
                           .endpoint = parts.endpoint},
          api::LambdaOptions{.extensions = config.lambda_extensions,
                             .arm_alias = config.lambda_arm_alias,
                             .rates = std::move(rates)}));
  front->add("s3", std::make_unique<api::S3Api>(parts.objects, parts.pool));
  front->add("sts", std::make_unique<api::StsApi>(parts.keys, parts.supervisor.roles()));
  front->add("logs", std::make_unique<api::LogsApi>(parts.supervisor, parts.builds));
  return front;
}

}  // namespace firebreak::cli
