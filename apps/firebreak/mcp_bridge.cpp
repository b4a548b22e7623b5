#include "mcp_bridge.h"

#include <csignal>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "net/race.h"
#include "wire/mcp_envelope.h"
#include "wire/sse.h"

namespace firebreak::cli {
namespace {

namespace mcp = wire::mcp;
using mcp::ErrorCode;
using mcp::Message;

constexpr std::size_t kMostBody = 64UL << 20;
constexpr auto kEnding = std::chrono::seconds(10);
constexpr auto kAnswering = std::chrono::seconds(60);

mcp::RpcError failure(std::string message) {
  return {ErrorCode::internal_error, std::move(message), {}};
}

net::Task<Result<std::string>> read_body(net::HttpClientStream& stream) {
  std::string body;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string more, co_await stream.read(far_away()));
    if (more.empty()) co_return body;
    body += more;
    if (body.size() > kMostBody)
      co_return fail(Code::exhausted, "the server's answer is too large");
  }
}

// What a refusal says, for the request that it refuses.
mcp::RpcError refusal_of(int status, const std::string& body) {
  mcp::RpcError error = failure("the server answered with status " + std::to_string(status));
  const auto parsed = parse_json_object(body);
  const json::value* told = parsed ? parsed->if_contains("error") : nullptr;
  if (told == nullptr || !told->is_object()) return error;
  JsonReader reader(told->get_object());
  error.message = reader.string_or("message", error.message);
  if (const json::value* code = told->get_object().if_contains("code");
      code != nullptr && code->is_int64())
    error.code = static_cast<ErrorCode>(code->get_int64());
  if (const json::object* data = reader.object("data", false)) error.data = *data;
  return error;
}

// epoll takes no files; reading those does not block for long.
bool can_wait_for(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) &&
         (!S_ISCHR(st.st_mode) || ::isatty(fd) == 1);
}

}  // namespace

McpBridge::McpBridge(Client& client)
    : client_(client), reopening_(client.io().get_executor()), tasks_(client.io().get_executor()) {}

void McpBridge::print(const std::string& message) {
  // A client that reads no more has gone, and closes our input as well.
  (void)sys::write_all(STDOUT_FILENO, message + "\n");
}

net::Task<Result<>> McpBridge::serve() {
  net::asio::signal_set signals(client_.io(), SIGINT, SIGTERM, SIGHUP);
  auto signalled = [&signals]() -> net::Task<void> {
    (void)co_await signals.async_wait(net::kNoThrow);
  };
  (void)co_await net::race(read_input(), signalled());
  (void)co_await tasks_.close(Deadline::in(kEnding));
  co_await end_session();
  co_return Result<>();
}

net::Task<void> McpBridge::read_input() {
  const bool waits = can_wait_for(STDIN_FILENO);
  net::asio::posix::stream_descriptor input(client_.io());
  if (waits) {
    auto copy = sys::dup(STDIN_FILENO);
    if (!copy) co_return;
    input.assign(copy->release());
  }
  std::string buffer(256UL * 1024, '\0');
  for (;;) {
    if (waits) {
      auto [ec] =
          co_await input.async_wait(net::asio::posix::stream_descriptor::wait_read, net::kNoThrow);
      if (ec) co_return;
    }
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count <= 0) co_return;
    take_input(std::string_view(buffer).substr(0, static_cast<std::size_t>(count)));
  }
}

void McpBridge::take_input(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (!skipping_) held_ += piece;
    if (held_.size() > mcp::kMaxMessage && !skipping_) {
      skipping_ = true;
      held_.clear();
      print(mcp::error_text(nullptr,
                            {ErrorCode::invalid_request, "a message may have at most 16 MiB", {}}));
    }
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    std::string line = std::exchange(held_, {});
    if (!std::exchange(skipping_, false) && line.find_first_not_of(" \t\r") != std::string::npos)
      take_line(std::move(line));
  }
}

void McpBridge::take_line(std::string text) {
  auto incoming = mcp::parse(text);
  if (!incoming) {
    print(mcp::error_text(incoming.error().id, incoming.error().error));
    return;
  }
  Line line{.text = std::move(text), .message = std::move(incoming->messages.front()), .key = {}};
  if (!incoming->batch && line.message.method == "notifications/cancelled") {
    cancel(line.message);
    return;
  }
  line.key = json::serialize(line.message.id);
  auto call = std::make_shared<Call>(client_.io().get_executor());
  if (line.message.kind == Message::Kind::request) calls_[line.key] = call;
  tasks_.spawn("mcp_call", pass(std::move(line), std::move(call)));
}

// The server takes a call whose connection is closed for one that was cancelled, in both eras.
void McpBridge::cancel(const Message& notification) {
  const json::value* id = notification.params.if_contains("requestId");
  const auto call = id == nullptr ? calls_.end() : calls_.find(json::serialize(*id));
  if (call == calls_.end()) return;
  call->second->cancelled = true;
  call->second->changed.notify();
}

net::Task<void> McpBridge::pass(Line line, CallPtr call) {
  auto cancelled = [](CallPtr waited) -> net::Task<void> {
    while (!waited->cancelled) (void)co_await waited->changed.wait(far_away());
  };
  auto either = co_await net::race(exchange(line), cancelled(call));
  if (const auto known = calls_.find(line.key); known != calls_.end() && known->second == call)
    calls_.erase(known);
  if (either.index() == 1 || std::get<0>(either)) co_return;
  if (line.message.kind == Message::Kind::request)
    print(mcp::error_text(line.message.id, failure(std::get<0>(either).error().message)));
}

wire::Headers McpBridge::headers_of(const Message& message) const {
  wire::Headers headers{{"content-type", "application/json"},
                        {"accept", "application/json, text/event-stream"}};
  const json::object* meta = message.meta();
  const json::value* version = meta == nullptr ? nullptr : meta->if_contains(mcp::kVersionKey);
  if (version != nullptr && version->is_string()) {
    headers.push_back(
        {"mcp-protocol-version", mcp::encode_header(std::string_view(version->get_string()))});
    headers.push_back({"mcp-method", mcp::encode_header(message.method)});
    if (const auto name = mcp::routed_name(message))
      headers.push_back({"mcp-name", mcp::encode_header(*name)});
    return headers;
  }
  if (message.method == "initialize") return headers;
  if (!session_.empty()) headers.push_back({"mcp-session-id", session_});
  if (!version_.empty()) headers.push_back({"mcp-protocol-version", version_});
  return headers;
}

net::Task<Result<std::unique_ptr<net::HttpClientStream>>> McpBridge::send(const Line& line) {
  FB_CO_TRY_ASSIGN(auto stream,
                   co_await client_.start("POST", "/mcp", true, headers_of(line.message)));
  // A server that refuses the request does so before it has read everything.
  if (co_await stream->write(line.text, Deadline::in(kAnswering)))
    (void)co_await stream->finish(Deadline::in(kAnswering));
  co_return stream;
}

net::Task<Result<>> McpBridge::exchange(const Line& line) {
  const std::string session = session_;
  FB_CO_TRY_ASSIGN(auto stream, co_await send(line));
  FB_CO_TRY_ASSIGN(net::HttpReply head, co_await stream->head(far_away()));
  const bool modern = mcp::is_modern(line.message, {});
  if (head.status == 404 && !modern && !session.empty()) {
    FB_CO_TRY(co_await reopen(session));
    FB_CO_TRY_ASSIGN(stream, co_await send(line));
    FB_CO_TRY_ASSIGN(head, co_await stream->head(far_away()));
  }
  co_return co_await relay(*stream, head, line);
}

net::Task<Result<>> McpBridge::relay(net::HttpClientStream& stream, const net::HttpReply& head,
                                     const Line& line) {
  if (wire::find_header(head.headers, "content-type").starts_with("text/event-stream"))
    co_return co_await relay_events(stream, line);
  FB_CO_TRY_ASSIGN(const std::string body, co_await read_body(stream));
  const bool asked = line.message.kind == Message::Kind::request;
  if (head.status >= 300) {
    if (asked) print(mcp::error_text(line.message.id, refusal_of(head.status, body)));
    co_return Result<>();
  }
  if (line.message.method == "initialize") note_session(head, body, line);
  if (!body.empty()) print(body);
  co_return Result<>();
}

net::Task<Result<>> McpBridge::relay_events(net::HttpClientStream& stream, const Line& line) {
  wire::SseReader reader;
  bool answered = false;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream.read(far_away()));
    if (bytes.empty()) break;
    FB_CO_TRY(reader.feed(bytes));
    while (auto event = reader.next()) {
      // Notifications come first, the answer is the last.
      answered = !event->starts_with(R"({"jsonrpc":"2.0","method":)");
      print(*event);
    }
  }
  if (answered || line.message.kind != Message::Kind::request) co_return Result<>();
  co_return fail(Code::unavailable, "the server ended the call without an answer");
}

void McpBridge::note_session(const net::HttpReply& head, const std::string& body,
                             const Line& line) {
  session_ = std::string(wire::find_header(head.headers, "mcp-session-id"));
  hello_ = line.text;
  const auto parsed = parse_json_object(body);
  const json::value* result = parsed ? parsed->if_contains("result") : nullptr;
  if (result == nullptr || !result->is_object()) return;
  version_ = JsonReader(result->get_object()).string_or("protocolVersion", "");
}

net::Task<Result<>> McpBridge::reopen(std::string lost) {
  FB_CO_TRY_ASSIGN(const auto turn, co_await reopening_.lock(Deadline::in(kAnswering)));
  if (session_ != lost) co_return Result<>();
  auto hello = mcp::parse(hello_);
  if (!hello) co_return fail(Code::internal, "the session cannot be opened again");
  const Line line{.text = hello_, .message = std::move(hello->messages.front()), .key = {}};
  FB_CO_TRY_ASSIGN(auto stream, co_await send(line));
  FB_CO_TRY_ASSIGN(const net::HttpReply head, co_await stream->head(Deadline::in(kAnswering)));
  FB_CO_TRY_ASSIGN(const std::string body, co_await read_body(*stream));
  if (head.status != 200) co_return fail(Code::unavailable, refusal_of(head.status, body).message);
  note_session(head, body, line);
  co_return Result<>();
}

net::Task<void> McpBridge::end_session() {
  if (session_.empty()) co_return;
  auto stream = co_await client_.start("DELETE", "/mcp", false, {{"mcp-session-id", session_}});
  if (stream) (void)co_await (*stream)->head(Deadline::in(kAnswering));
}

}  // namespace firebreak::cli
