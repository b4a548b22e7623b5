// HTTP/1.1 client over any byte stream: the CLI's, and the hooks' through a tunnel into a guest.
// The answer comes from an untrusted peer: head and body are bounded. One executor.
#pragma once

#include <memory>
#include <string>

#include "net/byte_stream.h"
#include "wire/h2_session.h"

namespace firebreak::net {

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  std::string host;  // the Host header
  wire::Headers headers;
  std::string body;  // sent with its length; an empty one of a POST or PUT as length 0
};

struct HttpReply {
  int status = 0;
  wire::Headers headers;
  std::string body;
  bool keep_alive = false;  // the connection may be used again once the body was read
};

// One exchange; the body at most `limit` bytes (Code::exhausted above).
Task<Result<HttpReply>> http_call(ByteStream& stream, const HttpCall& call, Deadline deadline,
                                  std::size_t limit = 16UL << 20);

// An exchange whose answer (and request) is streamed.
class HttpClientStream {
 public:
  virtual ~HttpClientStream() = default;
  // Sends the head. With `streamed` the body follows by write() and finish(), chunked.
  static Task<Result<std::unique_ptr<HttpClientStream>>> start(std::unique_ptr<ByteStream> stream,
                                                               HttpCall call, bool streamed,
                                                               Deadline deadline);
  virtual Task<Result<>> write(std::string_view bytes, Deadline deadline) = 0;
  virtual Task<Result<>> finish(Deadline deadline) = 0;
  virtual Task<Result<HttpReply>> head(Deadline deadline) = 0;    // without the body
  virtual Task<Result<std::string>> read(Deadline deadline) = 0;  // empty at the end
  // After a 101: the connection itself, with what was already received.
  virtual std::unique_ptr<ByteStream> take_stream() = 0;
};

// "http://host:port", "https://host:port" (verified against ca_file, or the system's CAs).
Task<Result<std::unique_ptr<ByteStream>>> connect_url(const std::string& url,
                                                      const std::string& ca_file,
                                                      Deadline deadline);

}  // namespace firebreak::net
