#include "obs/exceptions.h"

namespace firebreak::obs {
namespace {

constexpr const char* kCount = "firebreak_exceptions_total";

}  // namespace

std::string what_of(const std::exception_ptr& thrown) {
  if (!thrown) return {};
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

Exceptions::Exceptions(Log& log, Metrics& metrics) : log_(&log), metrics_(&metrics) {
  metrics.describe(kCount, "counter", "Exceptions that ended a request or a task, by where.");
}

void Exceptions::report(std::string_view where, std::string_view context,
                        const std::exception_ptr& thrown) const {
  if (metrics_ != nullptr) metrics_->add(kCount, label("where", where));
  if (log_ != nullptr)
    log_->error("exception", {{"where", where}, {"context", context}, {"error", what_of(thrown)}});
}

}  // namespace firebreak::obs
