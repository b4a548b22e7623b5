// One signed AWS request whose signature has been checked, and what a service of AWS is to the
// front. A call lives as long as its handler; one executor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/aws/aws_error.h"
#include "api/facade.h"
#include "control/key_ring.h"
#include "control/roles.h"
#include "net/http.h"
#include "wire/sigv4.h"

namespace firebreak::api {

struct AwsCall {
  net::HttpExchange& exchange;
  net::Target target;
  control::Caller caller;
  control::RolePtr role;  // of a caller with short-lived credentials
  wire::SigV4Claim claim;
  std::string signing_key;  // for signatures inside the body
  std::string request_id;
  std::string body;  // of services that read it whole
  Deadline deadline;

  const core::TenantId& tenant() const { return caller.tenant.id; }
  const std::string& region() const { return claim.region; }
  std::string_view header(std::string_view name) const {
    return wire::find_header(exchange.request().headers, name);
  }

  // "arn:aws:iam::ACCOUNT:user/NAME", "arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION".
  std::string caller_arn() const;
  // A tenant's key may do everything with what is the tenant's; a session what its role allows.
  AwsResult<> allow(std::string_view action, std::string_view resource,
                    std::optional<std::string_view> prefix = std::nullopt) const;
  AwsError denied(std::string_view action, std::string_view resource,
                  core::RoleVerdict verdict) const;
};

struct AwsReply {
  int status = 200;
  wire::Headers headers;
  std::string body;
};

class AwsService {
 public:
  virtual ~AwsService() = default;
  // Answers, or says what is wrong and leaves the answer to the front.
  virtual net::Task<AwsResult<>> handle(AwsCall& call) = 0;
  virtual AwsReply render(const AwsError& error, const std::string& request_id) const = 0;
  // Its operations.
  virtual std::vector<Surface> surface() const = 0;
  // The body's limit when it is read whole before the handler; 0: the handler reads it.
  virtual std::size_t body_limit() const = 0;
};

// JSON with numbers in plain decimals: 1757949542.026.
std::string aws_json(const json::value& value);
// The time as AWS's JSON has it: seconds, with milliseconds as a fraction.
inline double epoch_seconds(core::Time time) {
  return static_cast<double>(core::to_unix_ms(time)) / 1000;
}
// Headers every AWS answer has: the request's id, under both names.
wire::Headers aws_headers(const std::string& request_id, std::string_view content_type = {});
net::Task<Result<>> aws_reply(AwsCall& call, int status, std::string_view content_type,
                              std::string body);
net::Task<Result<>> aws_reply_json(AwsCall& call, int status, const json::value& body);

// "Tue, 15 Nov 1994 08:12:31 GMT"
std::string http_date(core::Time time);
// "2026-01-31T23:59:59.000Z"
std::string iso_date(core::Time time);

}  // namespace firebreak::api
