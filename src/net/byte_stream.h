// A two-way stream of bytes with deadlines: a TCP or TLS connection, a tunnel into a guest, one
// side of an upgraded HTTP connection. Owned by one task at a time for each direction; one
// executor.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/task.h"

namespace firebreak::net {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // At least one byte; an empty string is the end of the peer's half.
  virtual Task<Result<std::string>> read(Deadline deadline) = 0;
  // All bytes; returns when they are handed on (back-pressure is waiting here).
  virtual Task<Result<>> write(std::string_view bytes, Deadline deadline) = 0;
  // No more writes; reading goes on.
  virtual Task<Result<>> finish(Deadline deadline) = 0;
  // Both directions end now; pending reads and writes fail.
  virtual void close() = 0;
  // Both directions are open and nothing waits to be read, as far as is known without asking: a
  // connection that was kept for later can be used.
  virtual bool quiet() const { return true; }
};

}  // namespace firebreak::net
