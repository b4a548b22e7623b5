// The endpoint: checks a request's token, wakes the microVM it names, and passes the request on to
// a port of the guest, streamed both ways. Owned by the program; one executor.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "ingress/backends.h"
#include "ingress/entrance.h"
#include "ingress/passage.h"
#include "ingress/token_checker.h"
#include "net/http_server.h"
#include "net/task_group.h"
#include "obs/exceptions.h"
#include "obs/metrics.h"

namespace firebreak::ingress {

struct ProxyOptions {
  std::string domain;           // of host style; empty: off
  bool limits_by_size = false;  // EndpointLimits::of_size for each microVM
  // Of the listener's connections, for one tenant: so that it cannot keep the others out.
  std::size_t connections_of_tenant = net::HttpLimits{}.max_connections / 4;
};

class Proxy {
 public:
  Proxy(const net::asio::any_io_executor& executor, Entrance& entrance, TokenChecker& tokens,
        obs::Metrics& metrics, ProxyOptions options, obs::Exceptions exceptions = {});
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Answers a request of the endpoint's listener.
  net::Task<void> handle(net::HttpExchange& exchange);

 private:
  // An answer that is the endpoint's own.
  struct Refusal {
    int status = 502;
    std::string_view body;
    std::int64_t resets_at_ms = 0;  // when to try again; 0: nothing is said
  };
  using Refused = std::optional<Refusal>;
  struct Admitted {
    Route route;
    core::MicrovmId microvm;
    core::TenantId tenant;
    core::EndpointId endpoint;
    core::TokenKind kind = core::TokenKind::endpoint;
    std::uint16_t port = 0;
    EndpointLimits limits;
  };
  struct Shared;  // with the task that sweeps, and with connections
  class Seat;

  std::expected<Admitted, Refusal> admit(const net::HttpRequest& request);
  // False: the tenant has its share of connections already.
  bool seat(net::HttpExchange& exchange, const core::TenantId& tenant);
  net::Task<Refused> serve(net::HttpExchange& exchange, const std::string& id);
  net::Task<Refused> serve_terminal(net::HttpExchange& exchange, const Admitted& admitted,
                                    const session::Guest& guest);
  net::Task<void> refuse(net::HttpExchange& exchange, const Refusal& refusal,
                         const std::string& id);
  std::string next_request_id();

  Entrance& entrance_;
  TokenChecker& tokens_;
  obs::Metrics& metrics_;
  const ProxyOptions options_;
  std::shared_ptr<Shared> shared_;
  std::uint64_t id_prefix_ = 0;
  std::uint64_t id_count_ = 0;
  net::TaskGroup tasks_;
};

}  // namespace firebreak::ingress
