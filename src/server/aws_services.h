// The AWS façades, wired: Lambda MicroVMs, S3, STS and CloudWatch Logs behind one front.
#pragma once

#include <functional>
#include <memory>

#include "api/aws/aws_api.h"
#include "api/lambda/artifacts.h"
#include "control/builds.h"
#include "control/images.h"
#include "control/key_ring.h"
#include "control/supervisor.h"
#include "ingress/endpoint_tokens.h"
#include "object/object_store.h"
#include "server/server_config.h"

namespace firebreak::server {

struct AwsParts {
  control::Supervisor& supervisor;
  control::Images& images;
  control::Builds& builds;
  control::KeyRing& keys;
  object::ObjectStore& objects;
  api::Artifacts& artifacts;
  net::asio::thread_pool& pool;
  ingress::EndpointTokens& tokens;
  std::function<std::string(const core::Microvm&)> endpoint;
};

Result<std::unique_ptr<api::AwsApi>> make_aws_api(const ServerConfig& config, AwsParts parts);

}  // namespace firebreak::server
