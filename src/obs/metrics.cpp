#include "obs/metrics.h"

#include <array>
#include <cstdio>

namespace firebreak::obs {
namespace {

constexpr std::array<double, 16> kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                         0.5,   1,      2.5,   5,    10,    30,   60,  300};

std::string number(double value) {
  std::array<char, 40> text{};
  (void)std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

std::string printed(std::string_view name, std::string_view labels) {
  std::string out(name);
  if (!labels.empty()) out += "{" + std::string(labels) + "}";
  return out;
}

}  // namespace

std::string label(std::string_view name, std::string_view value) {
  std::string out = std::string(name) + "=\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

void Metrics::describe(std::string_view name, std::string_view type, std::string_view help) {
  const std::scoped_lock lock(mutex_);
  Family& family = families_[std::string(name)];
  family.type = type;
  family.help = help;
}

// With the lock held. A map's entries stay where they are.
std::atomic<double>& Metrics::series(std::string_view name, std::string_view labels) {
  auto family = families_.find(name);
  if (family == families_.end()) family = families_.try_emplace(std::string(name)).first;
  auto& values = family->second.values;
  auto at = values.find(labels);
  if (at == values.end()) at = values.try_emplace(std::string(labels)).first;
  return at->second;
}

void Metrics::add(std::string_view name, std::string_view labels, double value) {
  const std::scoped_lock lock(mutex_);
  series(name, labels).fetch_add(value, std::memory_order_relaxed);
}

Counter Metrics::counter(std::string_view name, std::string_view labels) {
  const std::scoped_lock lock(mutex_);
  return Counter(series(name, labels));
}

void Metrics::set(std::string_view name, std::string_view labels, double value) {
  const std::scoped_lock lock(mutex_);
  series(name, labels).store(value, std::memory_order_relaxed);
}

void Metrics::observe_ms(std::string_view name, std::string_view labels, double ms) {
  const std::scoped_lock lock(mutex_);
  Histogram& histogram = families_[std::string(name)].histograms[std::string(labels)];
  histogram.buckets.resize(kBounds.size());
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    if (ms / 1000 <= kBounds[i]) ++histogram.buckets[i];
  }
  histogram.sum += ms / 1000;
  ++histogram.count;
}

double Metrics::value(std::string_view name, std::string_view labels) const {
  const std::scoped_lock lock(mutex_);
  auto family = families_.find(name);
  if (family == families_.end()) return 0;
  if (auto at = family->second.values.find(labels); at != family->second.values.end())
    return at->second;
  if (auto at = family->second.histograms.find(labels); at != family->second.histograms.end())
    return static_cast<double>(at->second.count);
  return 0;
}

std::string Metrics::text() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    if (!family.help.empty()) out += "# HELP " + name + " " + family.help + "\n";
    out += "# TYPE " + name + " " + family.type + "\n";
    for (const auto& [labels, value] : family.values)
      out += printed(name, labels) + " " + number(value) + "\n";
    for (const auto& [labels, histogram] : family.histograms) {
      const std::string comma = labels.empty() ? "" : ",";
      for (std::size_t i = 0; i < kBounds.size(); ++i) {
        out += name + "_bucket{" + labels + comma + "le=\"" + number(kBounds[i]) + "\"} " +
               std::to_string(histogram.buckets[i]) + "\n";
      }
      out += name + "_bucket{" + labels + comma + "le=\"+Inf\"} " +
             std::to_string(histogram.count) + "\n";
      out += printed(name + "_sum", labels) + " " + number(histogram.sum) + "\n";
      out += printed(name + "_count", labels) + " " + std::to_string(histogram.count) + "\n";
    }
  }
  return out;
}

}  // namespace firebreak::obs
