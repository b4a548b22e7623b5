#include "bench/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/sys.h"

namespace firebreak::bench {

double Samples::percentile(double p) const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const auto index = static_cast<std::size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(index, 1, sorted.size()) - 1];
}

void Report::time(const std::string& name, const Samples& samples) {
  times_[name] = samples;
  json_[name] = json::object{
      {"p50", samples.p50()}, {"p95", samples.percentile(0.95)}, {"n", samples.count()}};
  fmt::print("{:<34} p50 {:>9.2f} ms   p95 {:>9.2f} ms   n {}\n", name, samples.p50(),
             samples.percentile(0.95), samples.count());
  std::fflush(stdout);
}

void Report::value(const std::string& name, double value, const std::string& unit) {
  values_[name] = value;
  json_[name] = json::object{{"value", value}, {"unit", unit}};
  fmt::print("{:<34}     {:>9.2f} {}\n", name, value, unit);
  std::fflush(stdout);
}

void Report::require(const std::string& name, double value, double limit) {
  const bool met = value <= limit;
  all_met_ = all_met_ && met;
  json_["require: " + name] = json::object{{"value", value}, {"limit", limit}, {"met", met}};
  fmt::print("{:<60} {:>8.2f} (at most {:.2f})  {}\n", name, value, limit, met ? "met" : "NOT MET");
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

bool Report::write(const std::string& path) const {
  return sys::swap_file(path, json::serialize(json_) + "\n", 0644).has_value();
}

}  // namespace firebreak::bench
