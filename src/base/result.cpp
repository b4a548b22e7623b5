#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace firebreak {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::invalid:
      return "invalid";
    case Code::unauthenticated:
      return "unauthenticated";
    case Code::denied:
      return "denied";
    case Code::not_found:
      return "not_found";
    case Code::conflict:
      return "conflict";
    case Code::exhausted:
      return "exhausted";
    case Code::unavailable:
      return "unavailable";
    case Code::timeout:
      return "timeout";
    case Code::corrupt:
      return "corrupt";
    case Code::guest:
      return "guest";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

std::string Error::text() const {
  return detail.empty() ? message : message + " (" + detail + ")";
}

std::unexpected<Error> fail(Code code, std::string message, Repair repair) {
  return fail(code, Reason{}, std::move(message), std::move(repair));
}

std::unexpected<Error> fail(Code code, Reason reason, std::string message, Repair repair) {
  Error error{.code = code, .message = std::move(message)};
  if (!repair.text.empty()) error.message += "; " + repair.text;
  error.reason = std::move(reason.word);
  error.repair = std::move(repair.text);
  return std::unexpected(std::move(error));
}

namespace {
Code code_of_errno(int err) {
  switch (err) {
    case ENOENT:
    case ENODEV:
    case ESRCH:
      return Code::not_found;
    case EEXIST:
    case EBUSY:
    case ENOTEMPTY:
    case EISDIR:
    case ENOTDIR:
      return Code::conflict;
    case EACCES:
    case EPERM:
    case EROFS:
    case EXDEV:
    case ELOOP:
      return Code::denied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::exhausted;
    case EINVAL:
    case ENAMETOOLONG:
      return Code::invalid;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return Code::unavailable;
    case ETIMEDOUT:
      return Code::timeout;
    default:
      return Code::internal;
  }
}

Reason reason_of_errno(int err) {
  if (err == ENOSPC || err == EDQUOT) return Reason{"disk_full"};
  if (err == EROFS) return Reason{"read_only"};
  return {};
}
}  // namespace

std::unexpected<Error> fail_errno(std::string_view doing, int err) {
  return fail(code_of_errno(err), reason_of_errno(err),
              std::string(doing) + ": " + std::strerror(err));
}

std::unexpected<Error> fail_errno(std::string_view doing) {
  return fail_errno(doing, errno);
}

}  // namespace firebreak
