// One HTTP/2 connection of the agent: turns streams into exchanges with handlers. Sans-I/O; owned
// by a Port; single thread, that of its reactor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "guest/request.h"
#include "wire/h2_session.h"

namespace firebreak::guest {

class Connection;

inline constexpr std::size_t kMaxBody = 1 << 20;          // of a JSON request
inline constexpr std::size_t kWriteQueue = 128 * 1024UL;  // of a stream; see OutputRing::kReplay

// The answering side of one stream. Outlives the stream where an operation is still under way: then
// every call does nothing.
class Exchange {
 public:
  Exchange(Connection& connection, wire::StreamId stream)
      : connection_(&connection), stream_(stream) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() = default;

  bool open() const { return connection_ != nullptr; }
  // Whole answers.
  void json(int status, const json::object& body);
  void error(const Error& error);
  void error(int status, std::string_view code, std::string_view message);
  // An answer in pieces: begin, write.., finish.
  void begin(int status, std::string_view content_type, const wire::Headers& extra = {});
  std::size_t write(std::string_view bytes);  // less than given: wait for on_writable
  void finish();
  void reset();
  void consume(std::size_t bytes);
  std::size_t queued() const;

 private:
  friend class Connection;
  Connection* connection_;  // nullptr once the stream is gone
  wire::StreamId stream_;
  bool request_ended_ = false;
};

// What a stream does. Destroyed after on_closed().
class StreamHandler {
 public:
  StreamHandler() = default;
  StreamHandler(const StreamHandler&) = delete;
  StreamHandler& operator=(const StreamHandler&) = delete;
  virtual ~StreamHandler() = default;
  virtual void on_data(std::string_view bytes) = 0;
  virtual void on_end() {}
  virtual void on_writable() {}
  virtual void on_closed() {}
};

class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;
  // nullptr: answered already, a body is discarded.
  virtual std::unique_ptr<StreamHandler> open(const Request& request,
                                              const std::shared_ptr<Exchange>& exchange) = 0;
};

// Collects a JSON body, then calls once. An empty body counts as {}.
std::unique_ptr<StreamHandler> json_call(std::shared_ptr<Exchange> exchange,
                                         std::function<void(const json::object&)> call);
// The same, and what the call returns (or nullptr) handles the stream from then on.
using JsonOpen = std::function<std::unique_ptr<StreamHandler>(const json::object&)>;
std::unique_ptr<StreamHandler> json_then(std::shared_ptr<Exchange> exchange, JsonOpen open);

class Connection final : private wire::H2Handler {
 public:
  explicit Connection(Service& service);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  Result<> receive(std::string_view bytes) { return session_->receive(bytes); }
  bool take_output(std::string& out, std::size_t limit) {
    return session_->take_output(out, limit);
  }

 private:
  friend class Exchange;
  struct Stream {
    std::shared_ptr<Exchange> exchange;
    std::unique_ptr<StreamHandler> handler;
  };

  void on_headers(wire::StreamId stream, wire::Headers headers, bool end) override;
  void on_data(wire::StreamId stream, std::string_view bytes) override;
  void on_end(wire::StreamId stream) override;
  void on_writable(wire::StreamId stream) override;
  void on_closed(wire::StreamId stream, std::uint32_t error_code) override;
  StreamHandler* find(wire::StreamId stream);

  Service& service_;
  std::unique_ptr<wire::H2Session> session_;
  std::map<wire::StreamId, Stream> streams_;
};

}  // namespace firebreak::guest
