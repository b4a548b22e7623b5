#include "api/front.h"

#include "api/call.h"

namespace firebreak::api {

Result<> Front::add(std::unique_ptr<Facade> facade) {
  if (facade->surface().empty())
    return fail(Code::internal,
                "façade " + std::string(facade->name()) + " does not say what it serves");
  facades_.push_back(std::move(facade));
  return {};
}

net::Task<void> Front::handle(net::HttpExchange& exchange) {
  auto target = net::parse_target(exchange.request().target);
  for (const auto& facade : facades_) {
    if (!target || !facade->claims(exchange.request(), *target)) continue;
    co_await facade->handle(exchange, *std::move(target));
    co_return;
  }
  co_await reply_error(exchange,
                       {Code::not_found, "there is nothing here; the API is under /v1", {}});
}

}  // namespace firebreak::api
