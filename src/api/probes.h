// What watches the server: /healthz and /metrics. One executor.
#pragma once

#include "api/facade.h"
#include "obs/metrics.h"

namespace firebreak::api {

class Probes final : public Facade {
 public:
  explicit Probes(const obs::Metrics& metrics) : metrics_(metrics) {}

  std::string_view name() const override { return "probes"; }
  bool claims(const net::HttpRequest& request, const net::Target& target) const override;
  net::Task<void> handle(net::HttpExchange& exchange, net::Target target) override;
  std::vector<Surface> surface() const override;

 private:
  const obs::Metrics& metrics_;
};

}  // namespace firebreak::api
