#include "api/native/guest_call.h"

namespace firebreak::api {

net::Task<Result<control::Lease>> lease(control::Supervisor& supervisor, Call& call) {
  co_return co_await supervisor.acquire(call.tenant(), core::MicrovmId(call.param("id")),
                                        call.deadline);
}

void add_environment(machine::ExecSpec& spec, const control::Lease& held) {
  const core::Environment& env = held.microvm().env;
  spec.env.insert(env.begin(), env.end());  // keeps what is there
}

net::Task<Result<>> pass_on(control::Supervisor& supervisor, Call& call, std::string method,
                            std::string path, json::object body, int status) {
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  FB_CO_TRY_ASSIGN(
      const json::object answer,
      co_await held.agent().data_call(std::move(method), std::move(path), body, call.deadline));
  co_return co_await call.reply_json(status, answer);
}

}  // namespace firebreak::api
