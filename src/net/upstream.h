// Requests to an HTTP server behind a byte stream, streamed both ways: what a proxy speaks to the
// application. HTTP/1.1 carries one exchange after the other, HTTP/2 (by prior knowledge) many at
// once. The server is untrusted: heads are bounded, bodies flow only as they are taken. One
// executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/byte_stream.h"
#include "wire/h2_session.h"

namespace firebreak::net {

struct UpstreamRequest {
  std::string method;
  std::string target;
  std::string authority;
  wire::Headers headers;  // without those of one connection, and without a content-length
  bool has_body = false;  // write() and finish() follow
  std::optional<std::uint64_t> length;  // of the body, when it is known
  bool upgrade = false;                 // HTTP/1.1: to a WebSocket; the headers have its own ones
};

struct UpstreamHead {
  int status = 0;
  wire::Headers headers;  // without those of one connection
};

struct UpstreamPiece {
  std::string bytes;
  bool last = false;  // the answer is complete; trailers() are known
};

// One request under way. Destroying it before its end cancels it.
class UpstreamExchange {
 public:
  virtual ~UpstreamExchange() = default;
  // The request's body. Back-pressure is waiting here.
  virtual Task<Result<>> write(std::string_view bytes, Deadline deadline) = 0;
  virtual Task<Result<>> finish(Deadline deadline) = 0;
  // The final answer's; interim ones are skipped. 101 only when it was asked for.
  virtual Task<Result<UpstreamHead>> head(Deadline deadline) = 0;
  // After head(): what of the body has come already.
  virtual std::optional<UpstreamPiece> ready() = 0;
  virtual Task<Result<UpstreamPiece>> read(Deadline deadline) = 0;
  virtual const wire::Headers& trailers() const = 0;
};

class Http1Upstream : public UpstreamExchange {
 public:
  static std::unique_ptr<Http1Upstream> over(std::unique_ptr<ByteStream> stream);
  // The next request, once the one before is complete.
  virtual Task<Result<>> begin(const UpstreamRequest& request, Deadline deadline) = 0;
  // Both messages are complete, and the connection takes another request.
  virtual bool reusable() const = 0;
  // After a 101: the connection itself, with what was already received.
  virtual std::unique_ptr<ByteStream> take_stream() = 0;
};

class Http2Upstream {
 public:
  static std::shared_ptr<Http2Upstream> over(const asio::any_io_executor& executor,
                                             std::unique_ptr<ByteStream> stream);
  virtual ~Http2Upstream() = default;
  virtual Result<std::unique_ptr<UpstreamExchange>> open(const UpstreamRequest& request) = 0;
  // False: broken, or the server takes no more requests.
  virtual bool usable() const = 0;
  virtual std::size_t open_exchanges() const = 0;
  virtual void close() = 0;
};

}  // namespace firebreak::net
