// One request on its way through the endpoint: both of its sides, counted and paced. Lives as long
// as the handler; one executor.
#pragma once

#include <memory>
#include <string>

#include "ingress/backends.h"
#include "ingress/headers.h"
#include "session/guest.h"

namespace firebreak::ingress {

// A stream is as long as its client and its application want; this only ends what hangs.
inline constexpr std::chrono::hours kStreamTime{24};

class Passage {
 public:
  Passage(net::HttpExchange& client, const Route& route, std::string_view endpoint,
          const session::Guest& guest, Backend& backend, const EndpointLimits& limits)
      : client_(client),
        route_(route),
        endpoint_(endpoint),
        guest_(guest),
        backend_(backend),
        limits_(limits) {}

  // Passes body and answer on; returns when the answer is complete, or one side is gone. An error
  // before the answer has begun is the application's.
  net::Task<Result<>> run(net::UpstreamExchange& server, bool has_body);
  // After a 101 of the application, which run() has left alone: bytes both ways until either side
  // ends.
  bool switched() const { return head_ && head_->status == 101; }
  net::Task<Result<>> relay(std::unique_ptr<net::ByteStream> server);

 private:
  net::Task<void> client_side(net::UpstreamExchange& server, bool has_body);
  net::Task<Result<>> server_side(net::UpstreamExchange& server);
  net::Task<Result<>> whole_answer(net::UpstreamExchange& server, std::string body);
  net::Task<void> copy(net::ByteStream& from, net::ByteStream& to, bool inwards);
  // True: there is a limit of bytes, and pace() has to be asked for how long to wait.
  bool count(std::size_t in, std::size_t out);
  net::Task<void> pace(std::size_t bytes);

  net::HttpExchange& client_;
  const Route& route_;
  const std::string_view endpoint_;
  const session::Guest& guest_;
  Backend& backend_;
  const EndpointLimits limits_;
  std::optional<net::UpstreamHead> head_;    // of the answer, until it is passed on
  std::optional<net::UpstreamPiece> first_;  // of the answer's body, that came with the head
};

}  // namespace firebreak::ingress
