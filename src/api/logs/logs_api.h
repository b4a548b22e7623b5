// The part of CloudWatch Logs that reads: groups, streams, events, over the logs of microVMs and
// builds. Owned by the AwsApi; one executor.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "api/aws/aws_call.h"
#include "api/logs/log_events.h"
#include "control/builds.h"
#include "control/supervisor.h"

namespace firebreak::api {

class LogsApi final : public AwsService {
 public:
  LogsApi(control::Supervisor& supervisor, control::Builds& builds)
      : supervisor_(supervisor), builds_(builds) {}

  net::Task<AwsResult<>> handle(AwsCall& call) override;
  AwsReply render(const AwsError& error, const std::string& request_id) const override;
  std::vector<Surface> surface() const override;
  std::size_t body_limit() const override { return 1UL << 20; }

 private:
  using Answer = net::Task<AwsResult<json::object>>;
  struct Action {
    std::string_view name;
    Carries carries;
    Answer (LogsApi::*handler)(AwsCall& call, const json::object& input);
  };
  static std::span<const Action> actions();

  Answer describe_groups(AwsCall& call, const json::object& input);
  Answer describe_streams(AwsCall& call, const json::object& input);
  Answer get_events(AwsCall& call, const json::object& input);
  Answer filter_events(AwsCall& call, const json::object& input);
  // Every stream of the tenant, by group and name.
  net::Task<Result<std::map<std::string, std::map<std::string, LogStream>>>> streams(
      core::TenantId tenant);
  net::Task<AwsResult<std::map<std::string, LogStream>>> group(core::TenantId tenant,
                                                               const json::object& input);

  Result<std::vector<LogEvent>> events_of(const LogStream& stream) const;

  control::Supervisor& supervisor_;
  control::Builds& builds_;
};

}  // namespace firebreak::api
