// The CLI's side of the native API: finds the server and the key, makes calls, follows streams of
// lines. Owned by a command; one thread with an event loop of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "base/json.h"
#include "net/http_client.h"
#include "net/task.h"
#include "net/websocket.h"

namespace firebreak::cli {

struct Connection {
  std::string url;
  std::string host;  // of the url, with the port
  std::string api_key;
  std::string ca_file;
};

// What the command line says about where the server is.
struct ServerChoice {
  std::string context;  // named with --context; may be empty
  std::string data_dir;
  bool data_dir_given = false;
};
// The context that was named; else FIREBREAK_URL and FIREBREAK_API_KEY; else the current context,
// unless a data directory was given; else the files in the data directory.
Result<Connection> find_server(const ServerChoice& choice);
// The server whose files are in that directory.
Result<Connection> find_local_server(const std::string& data_dir);
// "https://host:port"; the host with its port becomes the connection's.
Result<Connection> connection_to(std::string url, std::string api_key, std::string ca_file);

class Client {
 public:
  explicit Client(Connection connection) : connection_(std::move(connection)) {}

  // Runs a task to its end on the client's loop.
  template <class T>
  Result<T> run(net::Task<Result<T>> task);
  Result<> run(net::Task<Result<>> task);

  // One exchange; an error answer becomes an Error with the server's message.
  net::Task<Result<json::object>> call(std::string method, std::string path,
                                       std::optional<json::object> body = std::nullopt);
  // An answer of JSON lines, given one by one.
  net::Task<Result<>> lines(std::string method, std::string path, std::optional<json::object> body,
                            std::function<Result<>(json::object)> on_line);
  // A request with a streamed body or answer.
  net::Task<Result<std::unique_ptr<net::HttpClientStream>>> start(std::string method,
                                                                  std::string path, bool streamed,
                                                                  wire::Headers headers = {});
  // The error of an answer that is not 2xx.
  static net::Task<Result<>> check(net::HttpClientStream& stream);
  // A refusal has the server's message, like that of a call.
  net::Task<Result<std::unique_ptr<net::WebSocket>>> websocket(std::string path);

  net::asio::io_context& io() { return io_; }

 private:
  net::Task<Result<std::unique_ptr<net::ByteStream>>> connect();
  net::HttpCall request(std::string method, std::string path) const;

  Connection connection_;
  net::asio::io_context io_{1};
};

inline Deadline far_away() {
  return Deadline::in(std::chrono::hours(24));
}

}  // namespace firebreak::cli
