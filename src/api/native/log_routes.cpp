// The route of an application's output.
#include "api/native/guest_call.h"
#include "api/native/native_api.h"
#include "api/native/output_json.h"
#include "session/app_output.h"

namespace firebreak::api {
namespace {

net::Task<Result<>> send_log(control::Supervisor& supervisor, session::Guests& guests, Call& call) {
  OutputLines lines;
  auto sink = [&](session::AppEvent event) -> net::Task<Result<>> {
    FB_CO_TRY(co_await start_lines(call));
    std::string text;
    if (const auto* chunk = std::get_if<session::Chunk>(&event)) lines.add(*chunk, text);
    if (const auto* gap = std::get_if<session::Gap>(&event)) OutputLines::add(*gap, text);
    if (text.empty()) co_return Result<>();
    co_return co_await call.exchange.write(text, Deadline::in(std::chrono::hours(24)));
  };
  const core::MicrovmId id(call.param("id"));
  FB_CO_TRY(co_await supervisor.get(call.tenant(), id));
  FB_CO_TRY(co_await start_lines(call));
  ExchangePresence caller(call.exchange);
  auto result = co_await session::while_present(
      caller, session::read_app_output(supervisor, call.tenant(), id, call.flag("follow"), sink));
  co_return co_await finish_lines(call, std::move(result), "error");
}

}  // namespace

void NativeApi::add_log_routes() {
  router_.add({"GET", "/v1/microvms/{id}/logs", "What the application printed (NDJSON)", false,
               Carries::guest_bytes,
               [this](Call& call) { return send_log(supervisor_, guests_, call); }});
}

}  // namespace firebreak::api
