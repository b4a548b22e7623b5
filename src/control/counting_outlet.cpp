#include "control/counting_outlet.h"

namespace firebreak::control {
namespace {

class CountedFlow : public Flow {
 public:
  explicit CountedFlow(obs::Counter counted) : counted_(counted) {}

  void context(std::string) override {}
  std::string pass(std::string bytes) override {
    counted_.add(static_cast<double>(bytes.size()));
    return bytes;
  }
  std::string end() override { return {}; }

 private:
  obs::Counter counted_;
};

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::exec:
      return "exec";
    case Origin::terminal:
      return "terminal";
    case Origin::code:
      return "code";
    case Origin::file:
      return "file";
    case Origin::archive:
      return "archive";
    case Origin::log:
      return "log";
    case Origin::build:
      return "build";
    case Origin::reason:
      return "reason";
    case Origin::traffic:
      return "traffic";
  }
  return "unknown";
}

CountingOutlet::CountingOutlet(obs::Metrics& metrics) {
  metrics.describe("firebreak_guest_bytes_total", "counter",
                   "Bytes of guests that left through the outlet, by where they come from.");
  for (std::size_t origin = 0; origin < kOrigins; ++origin)
    counted_.push_back(
        metrics.counter("firebreak_guest_bytes_total",
                        obs::label("origin", to_string(static_cast<Origin>(origin)))));
}

std::unique_ptr<Flow> CountingOutlet::open(const Passage& passage) {
  return std::make_unique<CountedFlow>(counted_[static_cast<std::size_t>(passage.origin)]);
}

void CountingOutlet::count_traffic(const core::TenantId&, std::uint64_t bytes) {
  counted_[static_cast<std::size_t>(Origin::traffic)].add(static_cast<double>(bytes));
}

}  // namespace firebreak::control
