// The answer to one POST: a JSON text when it comes soon, else a stream of events with progress
// before it, so that nothing between client and server takes a silent connection for a dead one.
// Lives as long as its request; one executor.
#pragma once

#include <string>

#include "api/mcp/tool.h"
#include "net/http.h"
#include "net/semaphore.h"

namespace firebreak::api::mcp {

class Answer final : public Progress {
 public:
  // `token` is null when the client wants no progress.
  Answer(net::HttpExchange& exchange, const net::asio::any_io_executor& executor,
         json::value token);

  // Output as it comes; at most kMostSaid bytes of it, then only how much there was.
  net::Task<Result<>> say(std::string text) override;
  // A sign of life every few seconds, until it is cancelled or calm() was called. A sign that is
  // being written is written to its end.
  net::Task<void> keep_alive();
  void calm() { calm_ = true; }
  // The last message, and the end.
  net::Task<Result<>> finish(int status, std::string message, wire::Headers headers = {});
  // The end without a message: of a request that was cancelled.
  net::Task<Result<>> drop();

 private:
  net::Task<Result<>> send(std::string text);
  net::Task<Result<>> begin_stream();
  std::string progress(const std::string& text);

  net::HttpExchange& exchange_;
  json::value token_;
  net::Mutex turn_;  // of writing
  std::uint64_t told_ = 0;
  std::uint64_t said_ = 0;
  bool ended_ = false;
  bool calm_ = false;
};

// The client of a call: gone when its connection is, or when it has cancelled the call.
class CallPresence final : public session::Presence {
 public:
  explicit CallPresence(net::HttpExchange& exchange, const net::asio::any_io_executor& executor)
      : exchange_(exchange), changed_(executor) {}
  net::Task<void> gone() override;
  void cancel() {
    cancelled_ = true;
    changed_.notify();
  }
  bool cancelled() const { return cancelled_; }

 private:
  net::HttpExchange& exchange_;
  net::Event changed_;
  bool cancelled_ = false;
};

}  // namespace firebreak::api::mcp
