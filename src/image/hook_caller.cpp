#include "image/hook_caller.h"

#include <algorithm>

#include "image/guest_stream.h"
#include "net/http_client.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMaxAnswer = 64UL * 1024;
constexpr auto kPollEvery = std::chrono::milliseconds(250);

HookFailure failure_of(core::Hook hook, const core::Hooks& hooks, const Error& error) {
  if (error.code == Code::timeout) {
    return {HookFailure::Kind::timeout, 0, core::hook_timeout_reason(hook, hooks.timeout(hook))};
  }
  return {HookFailure::Kind::unreachable, 0, core::hook_failure_reason(hook, error.message)};
}

net::Task<std::optional<HookFailure>> call_once(machine::AgentClient& agent,
                                                const core::Hooks& hooks, core::Hook hook,
                                                std::string body, Deadline deadline) {
  const auto stream = speak_to_guest(agent, hooks.port);
  net::HttpCall call{.method = "POST",
                     .target = core::hook_path(hook),
                     .host = "localhost:" + std::to_string(hooks.port)};
  call.headers.push_back({"connection", "close"});
  if (!body.empty()) call.headers.push_back({"content-type", "application/json"});
  call.body = std::move(body);
  auto reply = co_await net::http_call(*stream, call, deadline, kMaxAnswer);
  stream->close();
  if (!reply) co_return failure_of(hook, hooks, reply.error());
  if (reply->status == 200) co_return std::nullopt;
  co_return HookFailure{HookFailure::Kind::status, reply->status,
                        core::hook_status_reason(hook, reply->status)};
}

}  // namespace

net::Task<Result<int>> get_status(machine::AgentClient& agent, std::uint16_t port, std::string path,
                                  Deadline deadline) {
  const auto stream = speak_to_guest(agent, port);
  net::HttpCall call{
      .method = "GET", .target = std::move(path), .host = "localhost:" + std::to_string(port)};
  call.headers.push_back({"connection", "close"});
  auto reply = co_await net::http_call(*stream, call, deadline, kMaxAnswer);
  stream->close();
  if (!reply) co_return std::unexpected(reply.error());
  co_return reply->status;
}

net::Task<std::optional<HookFailure>> call_hook(machine::AgentClient& agent,
                                                const core::Hooks& hooks, core::Hook hook,
                                                std::string body) {
  if (!hooks[hook].enabled) co_return std::nullopt;
  co_return co_await call_once(agent, hooks, hook, std::move(body),
                               Deadline::in(hooks.timeout(hook)));
}

net::Task<std::optional<HookFailure>> poll_hook(machine::AgentClient& agent,
                                                const core::Hooks& hooks, core::Hook hook,
                                                std::function<net::Task<bool>()> alive) {
  if (!hooks[hook].enabled) co_return std::nullopt;
  const Deadline deadline = Deadline::in(hooks.timeout(hook));
  for (;;) {
    auto failure = co_await call_once(agent, hooks, hook, {}, deadline);
    if (!failure) co_return failure;
    const bool not_yet = failure->status == 503 ||
                         (failure->kind == HookFailure::Kind::unreachable && !deadline.passed());
    if (!not_yet || !co_await alive()) co_return failure;
    net::Event pause(co_await net::asio::this_coro::executor);
    const auto step = std::min<std::chrono::milliseconds>(kPollEvery, deadline.left());
    (void)co_await pause.wait(Deadline::in(step));
    if (deadline.passed()) {
      co_return HookFailure{HookFailure::Kind::timeout, 0,
                            core::hook_timeout_reason(hook, hooks.timeout(hook))};
    }
  }
}

}  // namespace firebreak::image
