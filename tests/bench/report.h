// Collects measurements; prints a table and writes build/bench.json. Times in milliseconds. One
// thread.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace firebreak::bench {

class Samples {
 public:
  void add(double ms) { values_.push_back(ms); }
  double percentile(double p) const;
  double p50() const { return percentile(0.5); }
  std::size_t count() const { return values_.size(); }

 private:
  std::vector<double> values_;
};

class Timer {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Report {
 public:
  void time(const std::string& name, const Samples& samples);
  void value(const std::string& name, double value, const std::string& unit);
  // A required relation: value <= limit. Printed with its verdict; does not end the run.
  void require(const std::string& name, double value, double limit);
  void note(const std::string& text);
  double p50(const std::string& name) const { return times_.at(name).p50(); }
  double get(const std::string& name) const { return values_.at(name); }

  bool write(const std::string& path) const;
  bool all_met() const { return all_met_; }

 private:
  std::map<std::string, Samples> times_;
  std::map<std::string, double> values_;
  json::object json_;
  bool all_met_ = true;
};

}  // namespace firebreak::bench
