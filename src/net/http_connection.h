// Inside of the HTTP server: what a connection is to the listener, and the rules of an answer that
// HTTP/1.1 and HTTP/2 share. One executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/http_server.h"
#include "net/strangers.h"

namespace firebreak::net {

inline const Deadline kForever{Deadline::Clock::time_point::max()};
// For what the server itself sends: error answers, interim answers.
inline constexpr std::chrono::seconds kServerWriteTimeout{10};

// Shared by the connections of one listener; outlives it while they end.
struct HttpService {
  HttpHandler handler;
  HttpLimits limits;
  obs::Exceptions exceptions;
  bool draining = false;
};

struct HttpPeer {
  std::string address;
  std::string sni;
  bool tls = false;
  std::shared_ptr<Strangers::Place> place;
};

class HttpConnection {
 public:
  virtual ~HttpConnection() = default;
  // Serves until the connection is over and all its tasks have ended.
  virtual Task<void> run() = 0;
  // No new requests; over when the open ones are answered.
  virtual void drain() = 0;
  // Over now; handlers see their client gone.
  virtual void cut() = 0;
};

// `received`: bytes already read from the stream.
std::shared_ptr<HttpConnection> make_http1_connection(asio::any_io_executor executor,
                                                      std::unique_ptr<ByteStream> stream,
                                                      std::shared_ptr<HttpService> service,
                                                      HttpPeer peer, std::string received);
std::shared_ptr<HttpConnection> make_http2_connection(asio::any_io_executor executor,
                                                      std::unique_ptr<ByteStream> stream,
                                                      std::shared_ptr<HttpService> service,
                                                      HttpPeer peer, std::string received);

// What an answer's head says about its body, and the count of what was written against it.
struct AnswerPlan {
  wire::Headers headers;  // without those that belong to the connection; with a date
  std::optional<std::uint64_t> length;
  bool bodyless = false;  // HEAD, 204, 304: what is written goes nowhere
  bool close = false;     // the handler asked for it
  std::uint64_t written = 0;

  Result<> count(std::size_t bytes);
  Result<> check_complete() const;
};
Result<AnswerPlan> plan_answer(const std::string& method, int status, wire::Headers headers);

// What the handler leaves unanswered, or throws before it answers, becomes a 500. What it throws is
// reported.
Task<void> run_handler(const HttpService& service, HttpExchange& exchange);

std::string http_date();

}  // namespace firebreak::net
