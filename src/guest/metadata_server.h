// Serves the metadata to the tenant's processes. On a thread of its own, of ordinary priority: what
// they do to it costs neither a wake nor an exec. Owned by the agent; serve() and stop() may come
// from any thread.
#pragma once

#include <map>
#include <memory>

#include "base/fd.h"
#include "guest/metadata.h"
#include "guest/reactor.h"

namespace firebreak::guest {

class MetadataServer final : private Watcher {
 public:
  static Result<std::unique_ptr<MetadataServer>> create(Metadata& metadata);
  MetadataServer(const MetadataServer&) = delete;
  MetadataServer& operator=(const MetadataServer&) = delete;
  ~MetadataServer() override;

  // The thread's main; returns after stop().
  void run() { reactor_->run(); }
  void stop();
  // Accepts on this socket from now on; once.
  void serve(UniqueFd listener);

 private:
  class Client;
  explicit MetadataServer(Metadata& metadata);
  void on_events(std::uint32_t events) override;  // somebody connects
  void add(UniqueFd socket);

  Metadata& metadata_;
  std::unique_ptr<Reactor> reactor_;
  UniqueFd listener_;
  std::uint64_t serial_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Client>> clients_;  // oldest first
};

}  // namespace firebreak::guest
