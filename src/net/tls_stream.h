// TLS over any byte stream, both ends, on OpenSSL with memory BIOs: no header of OpenSSL or
// asio::ssl leaves the .cpp. At least TLS 1.2. One executor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/byte_stream.h"
#include "net/http_server.h"

namespace firebreak::net {

struct TlsStream {
  std::unique_ptr<ByteStream> stream;
  std::string protocol;  // chosen by ALPN, or empty
  std::string sni;       // server: the name the client asked for
};

class TlsServer {
 public:
  // `protocols` in the order of preference.
  static Result<std::shared_ptr<TlsServer>> load(const TlsFiles& files,
                                                 std::vector<std::string> protocols);
  virtual ~TlsServer() = default;
  virtual Task<Result<TlsStream>> accept(std::unique_ptr<ByteStream> stream, Deadline deadline) = 0;
};

// Client: verifies the peer's certificate and that it is for `host` (a name or an address), against
// the CAs of `ca_file`, or the system's when it is empty.
Task<Result<TlsStream>> connect_tls(std::unique_ptr<ByteStream> stream, std::string host,
                                    std::string ca_file, std::vector<std::string> protocols,
                                    Deadline deadline);

}  // namespace firebreak::net
