// A TCP connection as a byte stream. Owned by its connection; the socket's executor.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "net/byte_stream.h"

namespace firebreak::net {

// The socket is connected. A write that misses its deadline ends the stream (nobody knows what
// arrived); a read that does loses nothing.
std::unique_ptr<ByteStream> make_tcp_stream(asio::ip::tcp::socket socket);

// `host` is a name or an address without brackets.
Task<Result<std::unique_ptr<ByteStream>>> connect_tcp(std::string host, std::string port,
                                                      Deadline deadline);

}  // namespace firebreak::net
