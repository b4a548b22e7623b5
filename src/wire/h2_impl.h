// Inside of H2Session: the state of one connection and nghttp2's callbacks. For h2_session.cpp and
// h2_impl.cpp only: nghttp2's header must not spread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "wire/h2_session.h"

namespace firebreak::wire {

constexpr std::uint32_t code_of(H2Error error) {
  return static_cast<std::uint32_t>(error);
}

// Points into `headers`. nghttp2 sends whatever it is given, so what is not a header is refused
// here.
Result<std::vector<nghttp2_nv>> to_nv(const Headers& headers);

struct H2Stream {
  // Receiving.
  Headers incoming;  // of the block that is being received
  std::size_t incoming_bytes = 0;
  std::size_t unconsumed = 0;
  bool announced = false;  // the handler knows it (client: its final response came)
  bool remote_end = false;
  // Sending.
  std::string queue;
  std::size_t queue_at = 0;
  Headers trailers;
  bool begun = false;  // request or response submitted
  bool sent = false;   // client: the request has left nghttp2's queue, so the peer knows the stream
  bool finishing = false;  // no more writes
  bool short_write = false;
  bool answered = false;  // END_STREAM has left

  bool resetting = false;   // by our side: nothing but on_closed follows
  bool leaving = false;     // the same, once the answer is sent
  bool peer_reset = false;  // RST_STREAM received

  std::size_t queued() const { return queue.size() - queue_at; }
};

struct H2Session::Impl {
  Impl(const H2Limits& session_limits, H2Handler& session_handler, bool is_server);
  ~Impl() { nghttp2_session_del(session); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start();
  H2Stream* find(StreamId id);
  // A stream the handler may hear of.
  H2Stream* live(StreamId id);
  void close(StreamId id, std::uint32_t error_code);
  void reset(StreamId id, std::uint32_t error_code);
  void count_reset();
  void fail_with(Error error, H2Error reason);
  bool frame_next(std::string& out);
  void stage_control();
  bool fire_events();

  void headers_done(StreamId id, H2Stream& stream, bool end);
  void end_received(StreamId id);
  void goaway_received(std::uint32_t error_code);
  ssize_t read_queue(StreamId id, std::uint8_t* buffer, std::size_t length, std::uint32_t* flags);
  nghttp2_data_provider provider();

  static Impl& self(void* user) { return *static_cast<Impl*>(user); }
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user);
  static int on_data_chunk(nghttp2_session*, std::uint8_t, StreamId id, const std::uint8_t* data,
                           std::size_t size, void* user);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_stream_close(nghttp2_session*, StreamId id, std::uint32_t error_code, void* user);
  static int before_send(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int error, void* user);

  const H2Limits limits;
  H2Handler& handler;
  const bool server;
  nghttp2_session* session = nullptr;
  std::unordered_map<StreamId, H2Stream> streams;
  // Events that arise where the handler must not be called; delivered before receive() or
  // take_output() returns.
  std::vector<StreamId> writable;
  std::vector<std::pair<StreamId, std::uint32_t>> gone;
  std::string staged;      // control frames framed by receive(); go out first
  std::size_t unsent = 0;  // requests that wait in nghttp2 for the peer's stream limit
  bool closing = false;    // we sent GOAWAY
  std::optional<Error> failure;
  std::chrono::steady_clock::time_point resets_since;
  std::uint32_t resets = 0;
};

}  // namespace firebreak::wire
