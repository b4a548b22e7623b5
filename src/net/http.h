// HTTP as handlers see it: one model for HTTP/1.1 and HTTP/2, plain and TLS, streamed both ways.
// Owned by the connection that received the request; one executor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/byte_stream.h"
#include "net/task.h"
#include "wire/h2_session.h"

namespace firebreak::net {

struct HttpRequest {
  std::string method;
  std::string target;     // as received: path and query, still encoded
  std::string authority;  // Host or :authority
  wire::Headers headers;  // names in lower case; no pseudo headers, no host
  int version = 1;        // 1 or 2
  bool has_body = false;  // bytes may follow
  bool tls = false;
  std::string peer;  // address of the client
  std::string sni;   // server name asked for in TLS
};

// One request and its answer. All waits take the caller's deadline; a client that went away makes
// them fail with Code::unavailable.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  // Next bytes of the request's body; empty at the end. What is not read holds the client back.
  virtual Task<Result<std::string>> read(Deadline deadline) = 0;
  // The whole body; Code::exhausted above the limit.
  virtual Task<Result<std::string>> read_all(std::size_t limit, Deadline deadline);

  // The answer: head once, then bytes, then finish. With a content-length header the body must have
  // that length; without one it is chunked (HTTP/1.1) or framed (HTTP/2). "connection: close" ends
  // the connection once its open requests are answered.
  virtual Task<Result<>> start(int status, wire::Headers headers, Deadline deadline) = 0;
  virtual Task<Result<>> write(std::string_view bytes, Deadline deadline) = 0;
  virtual Task<Result<>> finish(Deadline deadline, wire::Headers trailers = {}) = 0;
  // A small answer at once; its content-length is added here.
  virtual Task<Result<>> reply(int status, wire::Headers headers, std::string body,
                               Deadline deadline);
  virtual bool started() const = 0;

  // Completes when the client has gone away or the exchange is over; false: the deadline passed.
  virtual Task<bool> wait_gone(Deadline deadline) = 0;

  // HTTP/1.1 only: answers 101 with the given headers and hands the connection over. The exchange
  // is finished afterwards.
  virtual Task<Result<std::unique_ptr<ByteStream>>> upgrade(wire::Headers headers,
                                                            Deadline deadline) = 0;

  // A handler calls this before it answers: the caller is known (it showed a valid key or token),
  // or was refused as unknown. A full listener ends connections without a known caller, and the
  // answer to a refused request ends its connection.
  virtual void note_caller(bool known) = 0;

  // What handlers keep with the connection: the same for all its requests, destroyed with it.
  virtual std::shared_ptr<void>& kept() = 0;
};

// Answers one exchange. What it leaves unanswered becomes a 500; what it leaves unfinished is cut.
using HttpHandler = std::function<Task<void>(HttpExchange&)>;

// A path split and decoded, and its query: what routers work on. nullopt: bad percent-encoding.
struct Target {
  std::vector<std::string> segments;  // of the path, each decoded after splitting
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order

  std::string_view query_value(std::string_view name) const;  // first, or ""
  bool has_query(std::string_view name) const;
};
std::optional<Target> parse_target(std::string_view target);

}  // namespace firebreak::net
