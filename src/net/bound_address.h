// An address and port that this process has taken, before it can answer there: nobody else can
// listen on it any more, and clients that connect wait until HttpServer::serve takes the socket
// over. A value that owns the socket; any thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::net {

class BoundAddress {
 public:
  // "127.0.0.1:0" picks a port; "[::1]:80" is IPv6.
  static Result<BoundAddress> bind(const std::string& address);

  const std::string& text() const { return text_; }  // "127.0.0.1:7070", the real port
  bool is_v6() const { return v6_; }
  int get() const { return socket_.get(); }
  int release() { return socket_.release(); }

 private:
  BoundAddress(UniqueFd socket, std::string text, bool v6)
      : socket_(std::move(socket)), text_(std::move(text)), v6_(v6) {}

  UniqueFd socket_;
  std::string text_;
  bool v6_ = false;
};

// True when only programs of this host can connect to it. The error says that it is no address.
Result<bool> is_loopback(const std::string& address);

}  // namespace firebreak::net
