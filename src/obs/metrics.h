// Counters, gauges and histograms, printed in Prometheus's text format. Labels are fixed words
// (states, codes, phases), never ids: the number of series is bounded. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace firebreak::obs {

// One series, found once: adding to it takes no lock. Good as long as its Metrics.
class Counter {
 public:
  explicit Counter(std::atomic<double>& value) : value_(&value) {}
  void add(double more) { value_->fetch_add(more, std::memory_order_relaxed); }

 private:
  std::atomic<double>* value_;
};

class Metrics {
 public:
  // `labels` is empty or `name="value"`, as printed.
  void add(std::string_view name, std::string_view labels, double value = 1);
  void set(std::string_view name, std::string_view labels, double value);
  void observe_ms(std::string_view name, std::string_view labels, double ms);  // histogram, seconds

  // For what is counted often.
  Counter counter(std::string_view name, std::string_view labels);

  void describe(std::string_view name, std::string_view type, std::string_view help);
  std::string text() const;
  double value(std::string_view name, std::string_view labels) const;  // 0 when absent

 private:
  std::atomic<double>& series(std::string_view name, std::string_view labels);

  struct Histogram {
    std::vector<std::uint64_t> buckets;
    double sum = 0;
    std::uint64_t count = 0;
  };
  struct Family {
    std::string type = "counter";
    std::string help;
    std::map<std::string, std::atomic<double>, std::less<>> values;
    std::map<std::string, Histogram, std::less<>> histograms;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

std::string label(std::string_view name, std::string_view value);

}  // namespace firebreak::obs
