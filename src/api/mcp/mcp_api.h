// The Model Context Protocol at /mcp (Streamable HTTP), for clients of both eras: those that open a
// session with `initialize`, and those of 2026-07-28 whose every request stands alone. It checks
// who calls and how, and gives the request to methods.h. Owned by the server; one executor.
#pragma once

#include <optional>
#include <string>

#include "api/mcp/methods.h"
#include "api/mcp/sessions.h"
#include "control/key_ring.h"
#include "wire/mcp_envelope.h"

namespace firebreak::api::mcp {

class McpApi final : public Facade {
 public:
  McpApi(Parts parts, control::KeyRing& keys, core::Seconds session_life);

  std::string_view name() const override { return "mcp"; }
  bool claims(const net::HttpRequest& request, const net::Target& target) const override;
  net::Task<void> handle(net::HttpExchange& exchange, net::Target target) override;
  std::vector<Surface> surface() const override;

 private:
  // One POST on its way.
  struct Post {
    net::HttpExchange& exchange;
    control::Caller caller;
    wire::mcp::RoutingHeaders headers;
    std::optional<std::string> session;
  };

  net::Task<Result<>> dispatch(net::HttpExchange& exchange);
  net::Task<Result<>> post(Post post);
  net::Task<Result<>> end_session(net::HttpExchange& exchange, const control::Caller& caller);
  net::Task<Result<>> modern(Post post, wire::mcp::Message message);
  net::Task<Result<>> legacy(Post post, wire::mcp::Incoming incoming);
  net::Task<Result<>> initialize(Post& post, const wire::mcp::Message& request);
  net::Task<Result<>> batch(Post& post, SessionPtr session, const wire::mcp::Incoming& incoming,
                            session::SandboxOwner owner);
  static void notice(const SessionPtr& session, const wire::mcp::Message& notification);
  // Runs a request to its answer; `session` is null in the modern era.
  net::Task<Result<>> answer_request(Post& post, SessionPtr session,
                                     const wire::mcp::Message& request,
                                     session::SandboxOwner owner);

  Parts parts_;
  control::KeyRing& keys_;
  Sessions sessions_;
};

}  // namespace firebreak::api::mcp
