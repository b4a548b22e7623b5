// Listens for HTTP/1.1 and HTTP/2 (by ALPN, or by prior knowledge) and runs a handler
// for every request. Owned by whoever wires the program; one executor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/bound_address.h"
#include "net/http.h"
#include "obs/exceptions.h"

namespace firebreak::net {

struct TlsFiles {
  std::string certificate_file;  // PEM, with its chain
  std::string key_file;
};

struct HttpLimits {
  std::size_t max_head_bytes = 64UL * 1024;  // request line and headers
  std::size_t max_connections = 4096;
  std::chrono::seconds head_timeout{20};   // to the first request, and for each head once it began
  std::chrono::seconds idle_timeout{120};  // between requests
  std::chrono::seconds tls_timeout{10};
};

// What handlers and connections throw is given to `exceptions`.
class HttpServer {
 public:
  // "127.0.0.1:0" picks a port; "[::1]:80" is IPv6. Listens at once.
  static Result<std::unique_ptr<HttpServer>> listen(const asio::any_io_executor& executor,
                                                    const std::string& address,
                                                    std::optional<TlsFiles> tls,
                                                    HttpHandler handler, HttpLimits limits = {},
                                                    obs::Exceptions exceptions = {});
  // On an address that was taken before.
  static Result<std::unique_ptr<HttpServer>> serve(const asio::any_io_executor& executor,
                                                   BoundAddress bound, std::optional<TlsFiles> tls,
                                                   HttpHandler handler, HttpLimits limits = {},
                                                   obs::Exceptions exceptions = {});
  virtual ~HttpServer() = default;
  virtual std::string address() const = 0;  // "127.0.0.1:7070", the real port
  // Takes no new connections, lets open requests finish until the deadline, then cuts them.
  virtual Task<void> drain(Deadline deadline) = 0;
};

}  // namespace firebreak::net
