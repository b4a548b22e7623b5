// Counters, gauges and histograms, printed in Prometheus's text format. Labels are fixed words
// (states, codes, phases), never ids: the number of series is bounded. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace firebreak::obs {

class Metrics {
 public:
  // `labels` is empty or `name="value"`, as printed.
  void add(std::string_view name, std::string_view labels, double value = 1);
  void set(std::string_view name, std::string_view labels, double value);
  void observe_ms(std::string_view name, std::string_view labels, double ms);  // histogram, seconds

  void describe(std::string_view name, std::string_view type, std::string_view help);
  std::string text() const;
  double value(std::string_view name, std::string_view labels) const;  // 0 when absent

 private:
  struct Histogram {
    std::vector<std::uint64_t> buckets;
    double sum = 0;
    std::uint64_t count = 0;
  };
  struct Family {
    std::string type = "counter";
    std::string help;
    std::map<std::string, double, std::less<>> values;
    std::map<std::string, Histogram, std::less<>> histograms;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

std::string label(std::string_view name, std::string_view value);

}  // namespace firebreak::obs
