#include "api/mcp/answer.h"

#include "net/race.h"
#include "wire/mcp.h"

namespace firebreak::api::mcp {
namespace {

constexpr auto kWriting = std::chrono::minutes(10);
constexpr auto kBeat = std::chrono::seconds(10);
constexpr auto kLongest = std::chrono::hours(48);
constexpr std::uint64_t kMostSaid = 1UL << 20;

std::string event_of(const std::string& message) {
  return "event: message\ndata: " + message + "\n\n";
}

}  // namespace

Answer::Answer(net::HttpExchange& exchange, const net::asio::any_io_executor& executor,
               json::value token)
    : exchange_(exchange), token_(std::move(token)), turn_(executor) {}

net::Task<Result<>> Answer::begin_stream() {
  if (exchange_.started()) co_return Result<>();
  co_return co_await exchange_.start(200,
                                     {{"content-type", "text/event-stream"},
                                      {"cache-control", "no-cache"},
                                      {"x-accel-buffering", "no"}},
                                     Deadline::in(kWriting));
}

net::Task<Result<>> Answer::send(std::string text) {
  FB_CO_TRY_ASSIGN(const auto turn, co_await turn_.lock(Deadline::in(kWriting)));
  if (ended_) co_return Result<>();
  FB_CO_TRY(co_await begin_stream());
  co_return co_await exchange_.write(text, Deadline::in(kWriting));
}

// Rises with every notification, also when nothing was printed: clients begin to count their time
// anew only then.
std::string Answer::progress(const std::string& text) {
  told_ = std::max(told_ + 1, said_);
  json::object params{{"progressToken", token_}, {"progress", told_}};
  if (!text.empty()) params["message"] = text;
  return event_of(wire::mcp::notification_text("notifications/progress", std::move(params)));
}

net::Task<Result<>> Answer::say(std::string text) {
  const bool shown = said_ < kMostSaid;
  said_ += text.size();
  if (token_.is_null() || text.empty() || !shown) co_return Result<>();
  co_return co_await send(progress(text));
}

net::Task<void> Answer::keep_alive() {
  namespace asio = net::asio;
  net::Event never(co_await asio::this_coro::executor);
  while (!calm_) {
    (void)co_await never.wait(Deadline::in(kBeat));
    if (calm_) co_return;
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    // A client that is gone is noticed by the call itself.
    (void)co_await send(token_.is_null() ? std::string(": still at it\n\n") : progress(""));
    co_await asio::this_coro::reset_cancellation_state(asio::enable_terminal_cancellation());
  }
}

net::Task<Result<>> Answer::finish(int status, std::string message, wire::Headers headers) {
  FB_CO_TRY_ASSIGN(const auto turn, co_await turn_.lock(Deadline::in(kWriting)));
  ended_ = true;
  const Deadline deadline = Deadline::in(kWriting);
  if (!exchange_.started()) {
    headers.push_back({"content-type", "application/json"});
    co_return co_await exchange_.reply(status, std::move(headers), std::move(message), deadline);
  }
  FB_CO_TRY(co_await exchange_.write(event_of(message), deadline));
  co_return co_await exchange_.finish(deadline);
}

net::Task<Result<>> Answer::drop() {
  FB_CO_TRY_ASSIGN(const auto turn, co_await turn_.lock(Deadline::in(kWriting)));
  ended_ = true;
  FB_CO_TRY(co_await begin_stream());
  co_return co_await exchange_.finish(Deadline::in(kWriting));
}

net::Task<void> CallPresence::gone() {
  auto cancelled = [this]() -> net::Task<void> {
    while (!cancelled_) (void)co_await changed_.wait(Deadline::in(kLongest));
  };
  auto left = [this]() -> net::Task<void> {
    (void)co_await exchange_.wait_gone(Deadline::in(kLongest));
  };
  (void)co_await net::race(cancelled(), left());
}

}  // namespace firebreak::api::mcp
