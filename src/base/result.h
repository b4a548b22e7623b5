// The one error type and the one result type of the project. Expected failures are values;
// exceptions mean a bug or no memory. Values, usable on any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firebreak {

enum class Code {
  invalid,          // the caller's input is wrong
  unauthenticated,  // who are you
  denied,           // you may not
  not_found,
  conflict,     // not in this state
  exhausted,    // a limit or the disk is full
  unavailable,  // try again, or the environment lacks something
  timeout,      // a deadline passed
  corrupt,      // stored or received data is damaged or foreign
  guest,        // the guest broke the protocol or its agent is gone
  internal,     // our fault
};

std::string_view to_string(Code code);

// Nobody reads meaning out of a message: programs compare `code` and `reason`, and show the rest.
struct Error {
  Code code = Code::internal;
  std::string message;  // safe to show a caller: what, why, and the repair if there is one
  std::string detail;   // for the log only: errno text, tail of stderr
  std::int64_t resets_at_ms = 0;  // of a limit: when to try again, Unix milliseconds; 0: unknown
  std::string reason;  // a stable word for programs: "launch_rate"; empty: the code says enough
  std::string repair;  // what the caller can do; the message ends with it
  std::vector<std::pair<std::string, std::string>> data;  // more for programs: {"dimension", ...}

  // "message (detail)": for logs and terminal output of the operator.
  std::string text() const;
};

// What the caller can do about an error.
struct Repair {
  std::string text;
};
// The stable word of an error.
struct Reason {
  std::string word;
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Code code, std::string message, std::string detail = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(detail)});
}

// The message becomes "message; repair".
std::unexpected<Error> fail(Code code, std::string message, Repair repair);
std::unexpected<Error> fail(Code code, Reason reason, std::string message, Repair repair = {});

// Passes an error on with what was being attempted: "starting vm: <message>".
inline std::unexpected<Error> fail(Error error, std::string_view doing) {
  error.message = std::string(doing) + ": " + error.message;
  return std::unexpected(std::move(error));
}

// An error from errno: message "<doing>: <strerror>", code chosen by errno.
std::unexpected<Error> fail_errno(std::string_view doing, int err);
std::unexpected<Error> fail_errno(std::string_view doing);

}  // namespace firebreak

// FB_TRY(expr): returns the error of a Result<> expression from the enclosing function.
// FB_TRY_ASSIGN(decl, expr): the same, and binds the value.  The co_ forms are for coroutines.
#define FB_CONCAT_INNER(a, b) a##b
#define FB_CONCAT(a, b) FB_CONCAT_INNER(a, b)
#define FB_TRY_IMPL(tmp, ret, expr) \
  if (auto tmp = (expr); !tmp) ret std::unexpected(std::move(tmp).error())
#define FB_TRY_ASSIGN_IMPL(tmp, ret, decl, expr)         \
  auto tmp = (expr);                                     \
  if (!tmp) ret std::unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
#define FB_TRY(expr) FB_TRY_IMPL(FB_CONCAT(fb_try_, __COUNTER__), return, expr)
#define FB_CO_TRY(expr) FB_TRY_IMPL(FB_CONCAT(fb_try_, __COUNTER__), co_return, expr)
#define FB_TRY_ASSIGN(decl, expr) \
  FB_TRY_ASSIGN_IMPL(FB_CONCAT(fb_try_, __COUNTER__), return, decl, expr)
#define FB_CO_TRY_ASSIGN(decl, expr) \
  FB_TRY_ASSIGN_IMPL(FB_CONCAT(fb_try_, __COUNTER__), co_return, decl, expr)
