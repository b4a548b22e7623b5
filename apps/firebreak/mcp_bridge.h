// MCP on standard input and output, for assistants that start a program: every line goes to the
// server's /mcp as a request of its own, and what comes back is a line. Standard output carries
// nothing else. Owned by the command; the client's thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "client.h"
#include "net/semaphore.h"
#include "net/task_group.h"
#include "wire/mcp.h"

namespace firebreak::cli {

class McpBridge {
 public:
  explicit McpBridge(Client& client);

  // Until standard input ends, or a signal tells us to. Calls that are under way then are
  // cancelled, and the session ends.
  net::Task<Result<>> serve();

 private:
  // A line that was sent and may be cancelled.
  struct Call {
    explicit Call(const net::asio::any_io_executor& executor) : changed(executor) {}
    net::Event changed;
    bool cancelled = false;
  };
  using CallPtr = std::shared_ptr<Call>;
  struct Line {
    std::string text;
    wire::mcp::Message message;  // the first of a batch
    std::string key;             // of its call
  };

  net::Task<void> read_input();
  void take_input(std::string_view bytes);
  void take_line(std::string text);
  void cancel(const wire::mcp::Message& notification);
  net::Task<void> pass(Line line, CallPtr call);
  net::Task<Result<>> exchange(const Line& line);
  net::Task<Result<std::unique_ptr<net::HttpClientStream>>> send(const Line& line);
  net::Task<Result<>> relay(net::HttpClientStream& stream, const net::HttpReply& head,
                            const Line& line);
  net::Task<Result<>> relay_events(net::HttpClientStream& stream, const Line& line);
  // After a restart of the server: opens a session in place of the one it has forgotten.
  net::Task<Result<>> reopen(std::string lost);
  void note_session(const net::HttpReply& head, const std::string& body, const Line& line);
  wire::Headers headers_of(const wire::mcp::Message& message) const;
  net::Task<void> end_session();
  void print(const std::string& message);

  Client& client_;
  std::string held_;       // of a line that is not complete
  bool skipping_ = false;  // a line that was too long
  std::string session_;
  std::string version_;
  std::string hello_;  // the line with `initialize`
  net::Mutex reopening_;
  std::map<std::string, CallPtr> calls_;  // by the text of their id
  net::TaskGroup tasks_;                  // last: they use what is above
};

}  // namespace firebreak::cli
