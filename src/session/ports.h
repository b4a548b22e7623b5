// TCP connections to ports of a guest. What passes is the application's own traffic: counted, never
// changed. One executor.
#pragma once

#include <cstdint>
#include <memory>

#include "net/byte_stream.h"
#include "session/guest.h"

namespace firebreak::session {

// Counts what it carries as the guest's traffic.
class PortConnection {
 public:
  PortConnection(const Guest& guest, std::unique_ptr<net::ByteStream> stream);
  net::Task<Result<>> write(std::string bytes, Deadline deadline);
  // The client sends no more; the application may still answer.
  net::Task<Result<>> finish(Deadline deadline) { return stream_->finish(deadline); }
  // Empty when the application has closed it.
  net::Task<Result<std::string>> read(Deadline deadline);
  void close() { stream_->close(); }

 private:
  const Guest& guest_;
  std::unique_ptr<net::ByteStream> stream_;
};

// Code::unavailable when nothing listens there.
net::Task<Result<PortConnection>> connect(const Guest& guest, std::uint16_t port,
                                          Deadline deadline);

// For a proxy that keeps connections beyond the caller that made them, and counts what each request
// carries by itself (Guest::relayed).
net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_kept(const Guest& guest,
                                                                 std::uint16_t port,
                                                                 Deadline deadline);
// The same for a caller who speaks first: connected by the first write, one round trip less. The
// guest must be held until then.
std::unique_ptr<net::ByteStream> speak_kept(const Guest& guest, std::uint16_t port);
// Connections of one machine share it. It is only compared: after a resume it is another one, and
// connections that were kept are dead.
using MachineMark = const void*;
MachineMark machine_of(const Guest& guest);

}  // namespace firebreak::session
