#include "api/front.h"

#include "api/call.h"

namespace firebreak::api {

namespace {

std::string_view to_string(Carries carries) {
  switch (carries) {
    case Carries::nothing:
      return "nothing";
    case Carries::guest_bytes:
      return "guest_bytes";
    case Carries::traffic:
      return "traffic";
  }
  return "nothing";
}

}  // namespace

Result<> Front::add(std::unique_ptr<Facade> facade) {
  if (facade->surface().empty())
    return fail(Code::internal,
                "façade " + std::string(facade->name()) + " does not say what it serves");
  facades_.push_back(std::move(facade));
  return {};
}

net::Task<void> Front::handle(net::HttpExchange& exchange) {
  auto target = net::parse_target(exchange.request().target);
  if (target && target->segments == std::vector<std::string>{"surfaces"}) {
    co_await reply_surfaces(exchange);
    co_return;
  }
  for (const auto& facade : facades_) {
    if (!target || !facade->claims(exchange.request(), *target)) continue;
    co_await facade->handle(exchange, *std::move(target));
    co_return;
  }
  const Error nothing = fail(Code::not_found, Reason{"route_not_found"}, "there is nothing here",
                             Repair{"the API is under /v1"})
                            .error();
  co_await reply_error(exchange, nothing);
}

net::Task<void> Front::reply_surfaces(net::HttpExchange& exchange) const {
  json::array all;
  for (const auto& facade : facades_)
    for (const Surface& surface : facade->surface())
      all.push_back(json::object{{"api", facade->name()},
                                 {"call", surface.name},
                                 {"carries", to_string(surface.carries)}});
  (void)co_await exchange.reply(200, {{"content-type", "application/json"}},
                                json::serialize(all) + "\n",
                                Deadline::in(std::chrono::seconds(30)));
}

}  // namespace firebreak::api
