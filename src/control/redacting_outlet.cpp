#include "control/redacting_outlet.h"

#include "redact/redactor.h"

namespace firebreak::control {
namespace {

// Sizes and positions in files and archives stay true; in all else people and models read the name.
redact::Style style_of(Origin origin) {
  return origin == Origin::file || origin == Origin::archive ? redact::Style::equal
                                                             : redact::Style::named;
}

class RedactedFlow final : public Flow {
 public:
  RedactedFlow(std::unique_ptr<Flow> counted, std::shared_ptr<const redact::Matcher> matcher,
               redact::Style style, obs::Counter taken_out)
      : counted_(std::move(counted)), redactor_(std::move(matcher), style), taken_out_(taken_out) {}
  ~RedactedFlow() override { taken_out_.add(static_cast<double>(redactor_.count())); }
  RedactedFlow(const RedactedFlow&) = delete;
  RedactedFlow& operator=(const RedactedFlow&) = delete;

  void context(std::string bytes) override { redactor_.context(std::move(bytes)); }
  std::string pass(std::string bytes) override {
    return redactor_.pass(counted_->pass(std::move(bytes)));
  }
  std::string end() override {
    std::string out = redactor_.pass(counted_->end());
    out += redactor_.end();
    return out;
  }

 private:
  std::unique_ptr<Flow> counted_;
  redact::Redactor redactor_;
  obs::Counter taken_out_;
};

}  // namespace

RedactingOutlet::RedactingOutlet(Outlet& counted, const SecretBook& secrets, obs::Metrics& metrics)
    : counted_(counted),
      secrets_(secrets),
      taken_out_(metrics.counter("firebreak_secrets_redacted_total", "")) {
  metrics.describe("firebreak_secrets_redacted_total", "counter",
                   "Secrets that were taken out of what guests sent.");
}

std::unique_ptr<Flow> RedactingOutlet::open(const Passage& passage) {
  return std::make_unique<RedactedFlow>(counted_.open(passage), secrets_.matcher(passage.tenant),
                                        style_of(passage.origin), taken_out_);
}

std::size_t RedactingOutlet::reach(const core::TenantId& tenant) const {
  return secrets_.matcher(tenant)->longest();
}

}  // namespace firebreak::control
