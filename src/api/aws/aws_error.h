// Errors as AWS clients know them. Handlers fail with the project's own Error, or with a name that
// the service's model has; each service writes them in its own protocol. Values; any thread.
#pragma once

#include <expected>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace firebreak::api {

// Why a signature was not accepted; every service has its own names for these.
enum class AuthFailure {
  missing,
  malformed,
  skewed,
  expired,
  mismatch,
  unknown_key,
  ended_session
};

struct AwsError {
  // By its code; the service chooses the name.
  AwsError(Error error) : error(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  AwsError(std::string name, int status, std::string message)
      : name(std::move(name)), status(status), error{Code::invalid, std::move(message), {}} {}
  AwsError(AuthFailure failure, std::string message)
      : auth(failure), error{Code::unauthenticated, std::move(message), {}} {}

  std::string name;  // empty: by error.code
  int status = 0;
  std::optional<AuthFailure> auth;
  Error error;
  json::object members;  // more of the body
};

template <class T = void>
using AwsResult = std::expected<T, AwsError>;

inline std::unexpected<AwsError> refuse(std::string name, int status, std::string message) {
  return std::unexpected(AwsError(std::move(name), status, std::move(message)));
}

// How an error is told: name and status, by a service's own tables.
struct AwsErrorName {
  std::string name;
  int status = 500;
};
// The names that most services share for refused signatures; `status` differs.
AwsErrorName auth_error_name(AuthFailure failure, int status);

std::string xml_escape(std::string_view text);

}  // namespace firebreak::api
