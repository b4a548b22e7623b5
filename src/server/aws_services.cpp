#include "server/aws_services.h"

#include "api/lambda/lambda_api.h"
#include "api/logs/logs_api.h"
#include "api/s3/s3_api.h"
#include "api/sts/sts_api.h"
#include "base/text.h"
#include "base/words.h"

namespace firebreak::server {
namespace {

Result<std::map<std::string, std::uint32_t>> parse_rates(const std::string& text) {
  std::map<std::string, std::uint32_t> rates;
  for (std::string_view part : split(text, ',')) {
    if (part.empty()) continue;
    const auto pair = split_pair(part);
    const auto rate = pair ? parse_u64(pair->value) : std::nullopt;
    const auto known = api::lambda::operations();
    if (!rate || *rate == 0 || *rate > 100'000 ||
        std::ranges::find(known, pair->name, &api::lambda::Operation::name) == known.end())
      return fail(Code::invalid,
                  "--aws-rates: '" + std::string(part) +
                      "' must be the name of an operation, '=' and a number above 0");
    rates[pair->name] = static_cast<std::uint32_t>(*rate);
  }
  return rates;
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
          api::LambdaParts{
              .supervisor = parts.supervisor,
              .images = parts.images,
              .artifacts = parts.artifacts,
              .tokens = parts.tokens,
              .build =
                  [&builds = parts.builds](core::Tenant tenant, control::BuildRequest request) {
                    return builds.order_now(std::move(tenant), std::move(request));
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

}  // namespace firebreak::server
