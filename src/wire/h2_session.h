// One end of an HTTP/2 connection, sans-I/O, on nghttp2: bytes in, events out, bytes to send. Used by the host's channel
// client, by the agent, and by every HTTP/2 listener. Owned by its connection; single thread; not reentrant from inside
// receive() except for the calls marked [in callback].
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
  std::uint32_t max_streams = 256;                // concurrent, opened by the peer
  std::uint32_t stream_window = 256 * 1024;       // received and not yet consumed, per stream
  std::size_t max_header_bytes = 32 * 1024;       // of one header block, names + values
  std::size_t write_queue = 256 * 1024;           // per stream: write() accepts up to this
  std::uint32_t max_resets_per_second = 1000;     // streams the peer opens and cancels; above: the connection ends
};

// HTTP/2 error codes we use (RFC 9113 section 7).
enum class H2Error : std::uint32_t {
  no_error = 0, protocol = 1, internal = 2, refused = 7, cancel = 8, enhance_your_calm = 11
};

class H2Handler {
 public:
  virtual ~H2Handler() = default;
  // Server: a request. Client: a response (1xx are skipped). `end`: no body follows.
  virtual void on_headers(StreamId stream, Headers headers, bool end) = 0;
  virtual void on_trailers(StreamId stream, Headers trailers) { (void)stream; (void)trailers; }
  // Call consume() once the bytes were taken: until then they count against the stream's window.
  virtual void on_data(StreamId stream, std::string_view bytes) = 0;
  virtual void on_end(StreamId stream) = 0;  // the peer will send no more (also after trailers)
  // The write queue of the stream fell below half, after write() had accepted less than it was given.
  virtual void on_writable(StreamId stream) { (void)stream; }
  // The stream is gone (both ends finished, or reset by either). Last event of a stream. The id must not be used again.
  virtual void on_closed(StreamId stream, std::uint32_t error_code) = 0;
  virtual void on_goaway(std::uint32_t error_code) { (void)error_code; }
};

class H2Session {
 public:
  static std::unique_ptr<H2Session> client(const H2Limits& limits, H2Handler& handler);
  static std::unique_ptr<H2Session> server(const H2Limits& limits, H2Handler& handler);
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  // Feeds received bytes. An error means the peer broke the protocol: send what take_output() gives, then drop the connection.
  Result<> receive(std::string_view bytes);
  // Appends bytes to send until `out` holds about `limit`; returns false when nothing was appended.
  bool take_output(std::string& out, std::size_t limit = 64 * 1024);

  // --- all [in callback] ---
  // Client. `headers` with the pseudo headers first (:method :scheme :authority :path). `end`: no request body.
  Result<StreamId> request(const Headers& headers, bool end);
  // Server. `headers` with :status first.
  Result<> respond(StreamId stream, const Headers& headers, bool end);
  // Queues body bytes; returns how many were taken (less than given when the queue is full: wait for on_writable).
  std::size_t write(StreamId stream, std::string_view bytes);
  // No more writes; sends END_STREAM after the queue (or the trailers).
  void finish(StreamId stream, Headers trailers = {});
  void reset(StreamId stream, H2Error error);
  // Gives window back for bytes of on_data.
  void consume(StreamId stream, std::size_t bytes);
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
