#include "api/guard.h"

#include <optional>

#include "api/call.h"

namespace firebreak::api {
namespace {

net::Task<void> answer(net::HttpHandler handler, obs::Log& log, net::HttpExchange& exchange) {
  std::optional<Error> error;
  try {
    co_await handler(exchange);
  } catch (...) {
    error = caught_error();
  }
  if (!error) co_return;
  const std::string& target = exchange.request().target;
  // Query values may be secrets.
  log.error("exception", {{"method", exchange.request().method},
                          {"path", target.substr(0, target.find('?'))},
                          {"error", error->text()}});
  co_await reply_error(exchange, *error);
}

}  // namespace

Error caught_error() {
  Error error{Code::internal,
              "the server failed at this request, and its log says why; try again, "
              "and tell the operator if it stays so",
              "unknown exception"};
  try {
    throw;
  } catch (const std::exception& thrown) {
    error.detail = thrown.what();
  } catch (...) {
    return error;
  }
  return error;
}

net::HttpHandler guarded(net::HttpHandler handler, obs::Log& log) {
  return [handler = std::move(handler), &log](net::HttpExchange& exchange) {
    return answer(handler, log, exchange);
  };
}

}  // namespace firebreak::api
