// Exceptions that nobody expected: each is a line in the log and one more in
// firebreak_exceptions_total. A handle that is copied; log and metrics outlive it. Any thread.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "obs/log.h"
#include "obs/metrics.h"

namespace firebreak::obs {

// What the exception says of itself.
std::string what_of(const std::exception_ptr& thrown);

class Exceptions {
 public:
  // Reports nowhere: for programs without a log.
  Exceptions() = default;
  Exceptions(Log& log, Metrics& metrics);

  // `where` is a fixed word and a label; `context` says which request or microVM it was.
  void report(std::string_view where, std::string_view context,
              const std::exception_ptr& thrown) const;

 private:
  Log* log_ = nullptr;
  Metrics* metrics_ = nullptr;
};

}  // namespace firebreak::obs
