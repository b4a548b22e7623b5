#include "api/probes.h"

namespace firebreak::api {

bool Probes::claims(const net::HttpRequest&, const net::Target& target) const {
  return !target.segments.empty() &&
         (target.segments[0] == "healthz" || target.segments[0] == "metrics");
}

net::Task<void> Probes::handle(net::HttpExchange& exchange, net::Target target) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  if (target.segments[0] == "healthz") {
    (void)co_await exchange.reply(200, {{"content-type", "application/json"}},
                                  "{\"status\":\"ok\"}\n", deadline);
  } else {
    (void)co_await exchange.reply(200, {{"content-type", "text/plain; version=0.0.4"}},
                                  metrics_.text(), deadline);
  }
}

std::vector<Surface> Probes::surface() const {
  return {{"GET /healthz", Carries::nothing}, {"GET /metrics", Carries::nothing}};
}

}  // namespace firebreak::api
