// The front of the AWS façades: which service a request is for, whether its signature holds, and
// errors in the service's own protocol. Owned by the program; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/aws/aws_call.h"
#include "obs/log.h"
#include "obs/metrics.h"

namespace firebreak::api {

class AwsApi final : public Facade {
 public:
  AwsApi(control::KeyRing& keys, control::Roles& roles, const core::Clock& clock, obs::Log& log,
         obs::Metrics& metrics)
      : keys_(keys), roles_(roles), clock_(clock), log_(log), metrics_(metrics) {}

  // By the service's name in the scope of a signature: "lambda", "s3".
  void add(const std::string& name, std::unique_ptr<AwsService> service);

  std::string_view name() const override { return "aws"; }
  // Signed, or below a path that only AWS clients use.
  bool claims(const net::HttpRequest& request, const net::Target& target) const override;
  net::Task<void> handle(net::HttpExchange& exchange, net::Target target) override;
  std::vector<Surface> surface() const override;

 private:
  AwsService& service_for(const std::string& name, const net::Target& target);
  // Checks the signature and fills in the call.
  net::Task<AwsResult<>> admit(AwsService& service, const wire::SigV4Request& request,
                               AwsCall& call);
  net::Task<AwsResult<>> read_body(AwsService& service, AwsCall& call);

  control::KeyRing& keys_;
  control::Roles& roles_;
  const core::Clock& clock_;
  obs::Log& log_;
  obs::Metrics& metrics_;
  std::map<std::string, std::unique_ptr<AwsService>> services_;
};

}  // namespace firebreak::api
