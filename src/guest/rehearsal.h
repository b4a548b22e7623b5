// A throw-away exec that goes through the agent's whole path, HTTP/2 included, without a port:
// after a restore it makes the emulator translate, and the kernel map, what the first real call
// will need. Owned by the data side; data thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "guest/exchange.h"
#include "guest/exec_service.h"
#include "guest/reactor.h"

namespace firebreak::guest {

class Rehearsal final : private wire::H2Handler {
 public:
  Rehearsal(Reactor& reactor, ExecTable& execs, std::function<void(Result<>)> done);
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  ~Rehearsal() override;

  // Carries bytes between both ends; at the end of every batch.
  void pump();

 private:
  void on_headers(wire::StreamId stream, wire::Headers headers, bool end) override;
  void on_data(wire::StreamId stream, std::string_view bytes) override;
  void on_end(wire::StreamId) override {}
  void on_closed(wire::StreamId stream, std::uint32_t error_code) override;
  void request(std::string_view body);
  void finish(Result<> result);

  Reactor& reactor_;
  ExecTable& execs_;
  std::function<void(Result<>)> done_;
  ExecService service_;
  std::unique_ptr<wire::H2Session> client_;
  std::unique_ptr<Connection> server_;
  Reactor::TimerId deadline_;
  std::string wire_;
  int attempt_ = 0;
  bool refused_ = false;  // the last attempt's program does not exist
  bool finished_ = false;
};

}  // namespace firebreak::guest
