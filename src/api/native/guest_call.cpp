#include "api/native/guest_call.h"

namespace firebreak::api {

net::Task<Result<session::Guest>> enter(session::Guests& guests, Call& call) {
  if (call.carries == Carries::nothing)
    co_return fail(Code::internal, "a route that says it carries nothing of guests enters one");
  co_return co_await guests.enter(call.tenant(), core::MicrovmId(call.param("id")), call.deadline);
}

net::Task<void> ExchangePresence::gone() {
  (void)co_await exchange_.wait_gone(Deadline::in(std::chrono::hours(48)));
}

net::Task<Result<>> start_lines(Call& call) {
  if (call.exchange.started()) co_return Result<>();
  co_return co_await call.exchange.start(
      200, {{"content-type", "application/x-ndjson"}, {"cache-control", "no-store"}},
      Deadline::in(std::chrono::seconds(30)));
}

net::Task<Result<>> finish_lines(Call& call, Result<> result, std::string_view type) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  if (!result) {
    if (!call.exchange.started()) co_return result;
    json::object line = error_json(result.error());
    line["type"] = type;
    FB_CO_TRY(co_await call.exchange.write(json::serialize(line) + "\n", deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

json::object ending_json(const session::Ending& ending) {
  json::object object{{"timedOut", ending.timed_out}, {"outOfMemory", ending.out_of_memory}};
  if (ending.exit_code) object["exitCode"] = *ending.exit_code;
  if (ending.signal) object["signal"] = *ending.signal;
  return object;
}

}  // namespace firebreak::api
