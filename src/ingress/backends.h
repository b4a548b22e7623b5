// Connections of the endpoint into guests, kept for the next request: per microVM and port,
// bounded, dropped when the machine behind them is another one. Owned by the proxy; one executor.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "core/ids.h"
#include "ingress/limits.h"
#include "net/semaphore.h"
#include "net/upstream.h"
#include "session/ports.h"

namespace firebreak::ingress {

// Of one microVM. The agent takes 256 streams at a time; some are left for execs and files.
inline constexpr std::uint32_t kMaxConnections = 224;
inline constexpr std::size_t kMaxIdle = kMaxConnections;
inline constexpr std::size_t kMaxHttp2 = 16;
// Requests under way, with those that wait for the microVM to be awake or for a place.
inline constexpr std::size_t kMaxRequests = 1024;

class Backend;

// An HTTP/1.1 connection and its place among the microVM's. When it is destroyed the connection is
// kept, if it can be used again.
class Taken {
 public:
  Taken(std::shared_ptr<Backend> backend, net::Semaphore::Guard place, session::MachineMark machine,
        std::uint16_t port);
  Taken(Taken&& other) noexcept = default;
  Taken& operator=(Taken&&) = delete;
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken();

  net::Http1Upstream& connection() { return *connection_; }
  bool reused() const { return reused_; }

 private:
  friend class Backend;
  std::shared_ptr<Backend> backend_;
  net::Semaphore::Guard place_;
  session::MachineMark machine_;
  std::uint16_t port_;
  std::unique_ptr<net::Http1Upstream> connection_;
  bool reused_ = false;
};

class Backend : public std::enable_shared_from_this<Backend> {
 public:
  explicit Backend(const net::asio::any_io_executor& executor)
      : places_(executor, kMaxConnections), connecting_(executor) {}

  // `fresh`: not a connection that was used before. The first request connects a new connection,
  // and fails with Code::unavailable when nothing listens.
  net::Task<Result<Taken>> take(const session::Guest& guest, std::uint16_t port, bool fresh,
                                Deadline deadline);
  // Shared by all requests to the port.
  net::Task<Result<std::shared_ptr<net::Http2Upstream>>> http2(const session::Guest& guest,
                                                               std::uint16_t port,
                                                               Deadline deadline);
  // Closes what nobody has used since before the moment; true when nothing is left.
  bool sweep(Deadline::Clock::time_point before);

  std::size_t requests = 0;
  Rate request_rate;
  Rate byte_rate;

 private:
  struct Idle {
    std::uint16_t port = 0;
    std::unique_ptr<net::Http1Upstream> connection;
    Deadline::Clock::time_point since;
  };
  friend class Taken;
  void meet(const session::Guest& guest);
  void keep(Taken& taken);

  session::MachineMark machine_ = nullptr;  // that the connections lead into
  std::deque<Idle> idle_;                   // oldest first
  std::map<std::uint16_t, std::shared_ptr<net::Http2Upstream>> http2_;
  net::Semaphore places_;
  net::Mutex connecting_;  // one HTTP/2 connection for many who ask at once
  std::size_t in_use_ = 0;
};

class Backends {
 public:
  explicit Backends(net::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  std::shared_ptr<Backend> of(const core::MicrovmId& microvm);
  void sweep();

 private:
  net::asio::any_io_executor executor_;
  std::map<core::MicrovmId, std::shared_ptr<Backend>> all_;
};

}  // namespace firebreak::ingress
