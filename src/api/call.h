// One API request on its way through a façade: the exchange, the caller, the path's parameters.
// Lives as long as the handler; one executor.
#pragma once

#include <map>
#include <string>

#include "api/facade.h"
#include "api/fields.h"
#include "base/json.h"
#include "control/key_ring.h"
#include "control/supervisor.h"
#include "net/http.h"

namespace firebreak::api {

inline constexpr std::size_t kMaxJsonBody = 1UL << 20;

struct Call {
  net::HttpExchange& exchange;
  net::Target target;
  std::map<std::string, std::string> params;  // of the path, decoded
  control::Caller caller;
  Deadline deadline;
  Carries carries;                    // what its route says
  const CallFields* takes = nullptr;  // the same; the query was checked by it

  const std::string& param(const std::string& name) const { return params.at(name); }
  std::string query(std::string_view name) const { return std::string(target.query_value(name)); }
  // A query value that the table says is an integer.
  std::optional<std::uint64_t> number(std::string_view name) const;
  bool flag(std::string_view name) const {
    const std::string_view value = target.query_value(name);
    return value == "1" || value == "true";
  }
  const core::TenantId& tenant() const { return caller.tenant.id; }
  // The body as a JSON object, checked by the route's table; an empty body is an empty object.
  net::Task<Result<json::object>> json_body();
  net::Task<Result<>> reply_json(int status, const json::value& body);
};

int http_status(Code code);
// {code, message, reason?, repair?, resetsAt?} and the error's data.
json::object error_json(const Error& error);
// Answers with the error, unless an answer has begun.
net::Task<void> reply_error(net::HttpExchange& exchange, const Error& error);
// 405: the path exists, with these methods.
net::Task<Result<>> reply_wrong_method(net::HttpExchange& exchange,
                                       const std::vector<std::string>& methods);

}  // namespace firebreak::api
