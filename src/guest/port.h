// One virtio-serial port (or a socket, for tests): the link layer and the HTTP/2 connection with
// the host. Owned by the agent; lives on its reactor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "guest/exchange.h"
#include "guest/reactor.h"
#include "wire/link.h"

namespace firebreak::guest {

inline constexpr std::uint16_t kProtocolVersion = 1;

class Port final : public Watcher, private wire::LinkDecoder::Sink {
 public:
  // virtio: the host comes and goes, an end of file means "absent". socket: the end of file is
  // final.
  enum class Kind { virtio, socket };

  Port(Reactor& reactor, UniqueFd fd, Kind kind, Service& service, std::function<void()> on_gone);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port() override;

  Result<> start();
  // Sends what the connection has; called at the end of every batch of the reactor.
  void flush();

 private:
  void on_events(std::uint32_t events) override;
  void on_sync(const wire::Sync& sync) override;
  void on_data(std::string_view bytes) override;
  bool read_some();  // whether there was anything
  void host_absent();
  bool refill();

  Reactor& reactor_;
  UniqueFd fd_;
  Kind kind_;
  Service& service_;
  std::function<void()> on_gone_;
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  std::unique_ptr<Connection> connection_;  // none before the first sync
  std::vector<char> in_;
  std::string raw_;  // HTTP/2 bytes on their way to the encoder
  std::string out_;  // encoded, not yet written
  std::size_t out_at_ = 0;
  Reactor::TimerId recheck_;
};

}  // namespace firebreak::guest
