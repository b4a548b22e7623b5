// One end of an HTTP/2 connection, sans-I/O, on nghttp2: bytes in, events out, bytes to send. Used
// by the host's channel client, by the agent, and by every HTTP/2 listener. Owned by its
// connection; single thread; not reentrant from inside receive() except for the calls marked [in
// callback].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

struct HeaderField {
  std::string name;  // lower case
  std::string value;
  friend bool operator==(const HeaderField&, const HeaderField&) = default;
};
using Headers = std::vector<HeaderField>;

// First value of a header, or "" when absent.
std::string_view find_header(const Headers& headers, std::string_view name);

using StreamId = std::int32_t;

struct H2Limits {
  std::uint32_t max_streams = 256;           // concurrent, opened by the peer
  std::uint32_t stream_window = 256 * 1024;  // received and not yet consumed, per stream
  // Of one header block: names, values, and 32 for each field. Above: the stream is reset.
  std::size_t max_header_bytes = 32UL * 1024;
  std::size_t write_queue = 256UL * 1024;  // per stream: write() accepts up to this
  // Streams the peer opens and cancels. Above: the connection ends.
  std::uint32_t max_resets_per_second = 1000;
};

// HTTP/2 error codes we use (RFC 9113 section 7).
enum class H2Error : std::uint32_t {
  no_error = 0,
  protocol = 1,
  internal = 2,
  refused = 7,
  cancel = 8,
  enhance_your_calm = 11
};

// Called from inside receive() and take_output(); must not throw. Nothing is called any more once
// receive() has failed: the owner drops the session and with it all streams. Events of a stream
// reset by this side end with its on_closed.
class H2Handler {
 public:
  virtual ~H2Handler() = default;
  // Server: a request. Client: a response (1xx are skipped). `end`: no body follows.
  virtual void on_headers(StreamId stream, Headers headers, bool end) = 0;
  // NOLINTNEXTLINE(performance-unnecessary-value-param): by value for those who override it
  virtual void on_trailers(StreamId /*stream*/, Headers /*trailers*/) {}
  // Call consume() once the bytes were taken: until then they count against the stream's window.
  virtual void on_data(StreamId stream, std::string_view bytes) = 0;
  // The peer will send no more. Once per stream that ended well: after on_headers with `end`, the
  // last on_data, or on_trailers.
  virtual void on_end(StreamId stream) = 0;
  // The write queue of the stream fell below half, after write() had accepted less than it was
  // given.
  virtual void on_writable(StreamId /*stream*/) {}
  // The stream is gone (both ends finished, or reset by either). Last event of a stream. The id
  // must not be used again.
  virtual void on_closed(StreamId stream, std::uint32_t error_code) = 0;
  virtual void on_goaway(std::uint32_t /*error_code*/) {}
};

class H2Session {
 public:
  static std::unique_ptr<H2Session> client(const H2Limits& limits, H2Handler& handler);
  static std::unique_ptr<H2Session> server(const H2Limits& limits, H2Handler& handler);
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  // Feeds received bytes. An error means the peer broke the protocol: send what take_output()
  // gives, then drop the connection.
  Result<> receive(std::string_view bytes);
  // Appends bytes to send until `out` holds about `limit`; returns false when nothing was appended.
  bool take_output(std::string& out, std::size_t limit = 64UL * 1024);

  // --- all [in callback] ---
  // Client. `headers` with the pseudo headers first (:method :scheme :authority :path). `end`: no
  // request body. Beyond the peer's stream limit requests wait for a free place. Code::unavailable
  // after a GOAWAY of either side.
  Result<StreamId> request(const Headers& headers, bool end);
  // Server. `headers` with :status first.
  Result<> respond(StreamId stream, const Headers& headers, bool end);
  // Queues body bytes; returns how many were taken (less than given when the queue is full: wait
  // for on_writable).
  std::size_t write(StreamId stream, std::string_view bytes);
  // No more writes; sends END_STREAM after the queue (or the trailers).
  void finish(StreamId stream, Headers trailers = {});
  // Drops what is queued. on_closed follows, from take_output() or receive(). A server's no_error
  // after finish() sends the whole answer first: for an answer that does not wait for the request's
  // end.
  void reset(StreamId stream, H2Error error);
  // Gives window back for bytes of on_data.
  void consume(StreamId stream, std::size_t bytes);
  // no_error: open streams may finish, new ones are not taken. Any other: the session is over once
  // the output is taken.
  void goaway(H2Error error);

  std::size_t queued(StreamId stream) const;  // bytes accepted and not yet framed
  std::size_t open_streams() const;
  // False once the session is over (GOAWAY exchanged and no streams left).
  bool alive() const;

 private:
  struct Impl;
  explicit H2Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace firebreak::wire
