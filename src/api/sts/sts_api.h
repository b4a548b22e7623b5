// The part of STS that programs call before anything else: who am I, and credentials with an end.
// Owned by the AwsApi; one executor.
#pragma once

#include <map>
#include <string>

#include "api/aws/aws_call.h"

namespace firebreak::api {

class StsApi final : public AwsService {
 public:
  StsApi(control::KeyRing& keys, control::Roles& roles) : keys_(keys), roles_(roles) {}

  net::Task<AwsResult<>> handle(AwsCall& call) override;
  AwsReply render(const AwsError& error, const std::string& request_id) const override;
  std::vector<Surface> surface() const override {
    return {{"GetCallerIdentity", Carries::nothing}, {"AssumeRole", Carries::nothing}};
  }
  std::size_t body_limit() const override { return 64UL * 1024; }

 private:
  using Form = std::map<std::string, std::string>;
  AwsResult<std::string> assume_role(const AwsCall& call, const Form& form) const;

  control::KeyRing& keys_;
  control::Roles& roles_;
};

}  // namespace firebreak::api
