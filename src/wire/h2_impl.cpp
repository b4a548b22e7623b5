#include "wire/h2_impl.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace firebreak::wire {
namespace {

using Clock = std::chrono::steady_clock;

// RFC 9113 section 6.5.2: what one header field costs beside its text.
constexpr std::size_t kHeaderOverhead = 32;
// Control frames the peer has caused and does not read. An honest one stays far below.
constexpr std::size_t kMaxStaged = 1 << 20;
// An idle stream keeps a write queue of at most this.
constexpr std::size_t kKeptQueue = 64UL * 1024;

std::uint8_t* bytes_of(const std::string& text) {
  // nghttp2 takes pointers to non-const and does not write through them.
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

std::string_view view_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

Result<std::vector<nghttp2_nv>> to_nv(const Headers& headers) {
  std::vector<nghttp2_nv> list;
  list.reserve(headers.size());
  for (const HeaderField& field : headers) {
    if (nghttp2_check_header_name(bytes_of(field.name), field.name.size()) == 0 ||
        nghttp2_check_header_value(bytes_of(field.value), field.value.size()) == 0) {
      return fail(Code::invalid, "a header has characters that cannot be sent", field.name);
    }
    list.push_back({bytes_of(field.name), bytes_of(field.value), field.name.size(),
                    field.value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return list;
}

H2Session::Impl::Impl(const H2Limits& session_limits, H2Handler& session_handler, bool is_server)
    : limits(session_limits), handler(session_handler), server(is_server) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
    throw std::bad_alloc();
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
  nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_send);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, 1000);
  // The library's own limit on resets (33 per second) is below what a busy host does; count_reset()
  // replaces it.
  nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
  const int rv = server ? nghttp2_session_server_new2(&session, callbacks, this, option)
                        : nghttp2_session_client_new2(&session, callbacks, this, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  if (rv != 0) throw std::bad_alloc();
  start();
}

void H2Session::Impl::start() {
  std::array<nghttp2_settings_entry, 4> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.max_header_bytes)},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  }};
  // Push is the client's to refuse: the server leaves the last entry out.
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(),
                          server ? settings.size() - 1 : settings.size());
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
}

H2Stream* H2Session::Impl::find(StreamId id) {
  const auto it = streams.find(id);
  return it == streams.end() ? nullptr : &it->second;
}

H2Stream* H2Session::Impl::live(StreamId id) {
  H2Stream* stream = failure ? nullptr : find(id);
  return stream == nullptr || stream->resetting || stream->leaving ? nullptr : stream;
}

void H2Session::Impl::close(StreamId id, std::uint32_t error_code) {
  const auto node = streams.extract(id);
  if (node.empty()) return;
  const H2Stream& stream = node.mapped();
  // A peer can also make us reset its streams (by breaking the protocol on each): the same attack.
  if (server && error_code != 0 && !stream.resetting && !stream.peer_reset) count_reset();
  const bool known = !server || stream.announced;
  if (known && !failure) handler.on_closed(id, error_code);
}

void H2Session::Impl::reset(StreamId id, std::uint32_t error_code) {
  H2Stream* stream = find(id);
  if (stream == nullptr || stream->resetting) return;
  if (server && error_code == 0 && stream->begun && stream->finishing && !stream->answered) {
    // nghttp2 would drop the answer that is still queued; on_sent() goes on.
    stream->leaving = true;
    return;
  }
  nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, error_code);
  if (!server && !stream->sent) {
    // nghttp2 would report it only when the peer's stream limit lets the request leave the queue.
    streams.erase(id);
    gone.emplace_back(id, error_code);
    return;
  }
  stream->resetting = true;
  stream->queue = {};
  stream->queue_at = 0;
}

void H2Session::Impl::count_reset() {
  const auto now = Clock::now();
  if (now - resets_since >= std::chrono::seconds(1)) {
    resets_since = now;
    resets = 0;
  }
  if (++resets > limits.max_resets_per_second) {
    fail_with({Code::guest, "the peer opens and cancels too many requests", {}},
              H2Error::enhance_your_calm);
  }
}

void H2Session::Impl::fail_with(Error error, H2Error reason) {
  if (failure) return;
  failure = std::move(error);
  nghttp2_session_terminate_session(session, code_of(reason));
}

// Appends the next frame to send; false when there is none now.
bool H2Session::Impl::frame_next(std::string& out) {
  const std::uint8_t* data = nullptr;
  const ssize_t size = nghttp2_session_mem_send(session, &data);
  if (size > 0) out.append(view_of(data, static_cast<std::size_t>(size)));
  if (size < 0) {
    fail_with({Code::internal, "HTTP/2 output failed", nghttp2_strerror(static_cast<int>(size))},
              H2Error::internal);
  }
  return size > 0;
}

// Frames what mem_recv() queued. nghttp2 answers most violations by queueing a GOAWAY while
// mem_recv() succeeds; framing it is how we learn of it, and what a flooding peer causes becomes
// bytes that can be counted.
void H2Session::Impl::stage_control() {
  while (nghttp2_session_get_outbound_queue_size(session) > unsent)
    if (!frame_next(staged)) break;
  if (staged.size() > kMaxStaged) {
    fail_with({Code::guest, "the peer does not read what it asks for", {}},
              H2Error::enhance_your_calm);
  }
}

bool H2Session::Impl::fire_events() {
  bool fired = false;
  while (!failure && !(writable.empty() && gone.empty())) {
    fired = true;
    for (const StreamId id : std::exchange(writable, {}))
      if (live(id) != nullptr) handler.on_writable(id);
    for (const auto& [id, error_code] : std::exchange(gone, {})) handler.on_closed(id, error_code);
  }
  return fired;
}

void H2Session::Impl::headers_done(StreamId id, H2Stream& stream, bool end) {
  Headers headers = std::exchange(stream.incoming, {});
  if (stream.announced) return handler.on_trailers(id, std::move(headers));
  if (!server && find_header(headers, ":status").starts_with('1')) return;
  stream.announced = true;
  handler.on_headers(id, std::move(headers), end);
}

void H2Session::Impl::end_received(StreamId id) {
  H2Stream* stream = find(id);
  if (stream == nullptr || !stream->announced) return;
  stream->remote_end = true;
  if (live(id) != nullptr) handler.on_end(id);
}

void H2Session::Impl::goaway_received(std::uint32_t error_code) {
  // Requests the peer has not seen will not be sent any more.
  for (auto it = streams.begin(); it != streams.end();) {
    if (!server && !it->second.sent) {
      gone.emplace_back(it->first, code_of(H2Error::refused));
      it = streams.erase(it);
    } else {
      ++it;
    }
  }
  if (!failure) handler.on_goaway(error_code);
}

ssize_t H2Session::Impl::read_queue(StreamId id, std::uint8_t* buffer, std::size_t length,
                                    std::uint32_t* flags) {
  H2Stream* stream = find(id);
  if (stream == nullptr || stream->resetting) return NGHTTP2_ERR_DEFERRED;
  const std::size_t size = std::min(length, stream->queued());
  if (size == 0 && !stream->finishing) return NGHTTP2_ERR_DEFERRED;
  std::memcpy(buffer, stream->queue.data() + stream->queue_at, size);
  stream->queue_at += size;
  if (stream->queued() == 0) {
    if (stream->queue.capacity() > kKeptQueue) stream->queue = {};
    stream->queue.clear();
    stream->queue_at = 0;
    if (stream->finishing) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->finishing && !stream->trailers.empty()) {
      const auto list = to_nv(stream->trailers);
      if (!list || nghttp2_submit_trailer(session, id, list->data(), list->size()) != 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
  }
  if (stream->short_write && stream->queued() < limits.write_queue / 2) {
    stream->short_write = false;
    writable.push_back(id);
  }
  return static_cast<ssize_t>(size);
}

nghttp2_data_provider H2Session::Impl::provider() {
  nghttp2_data_provider provider{};
  provider.read_callback = [](nghttp2_session*, StreamId id, std::uint8_t* buffer,
                              std::size_t length, std::uint32_t* flags, nghttp2_data_source*,
                              void* user) {
    return self(user).read_queue(id, buffer, length, flags);
  };
  return provider;
}

// ------------------------------------------------------------------------------------------
// callbacks of nghttp2

int H2Session::Impl::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Impl& impl = self(user);
  H2Stream* stream = impl.find(frame->hd.stream_id);
  if (impl.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
    stream = &impl.streams[frame->hd.stream_id];
  if (stream == nullptr) return 0;
  stream->incoming.clear();
  stream->incoming_bytes = 0;
  return 0;
}

int H2Session::Impl::on_header(nghttp2_session* session, const nghttp2_frame* frame,
                               const std::uint8_t* name, std::size_t name_size,
                               const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                               void* user) {
  Impl& impl = self(user);
  H2Stream* stream = impl.live(frame->hd.stream_id);
  if (stream == nullptr) return 0;
  stream->incoming_bytes += name_size + value_size + kHeaderOverhead;
  if (stream->incoming_bytes > impl.limits.max_header_bytes) {
    stream->incoming = {};
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                              code_of(H2Error::enhance_your_calm));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  stream->incoming.push_back(
      {std::string(view_of(name, name_size)), std::string(view_of(value, value_size))});
  return 0;
}

int H2Session::Impl::on_data_chunk(nghttp2_session* session, std::uint8_t, StreamId id,
                                   const std::uint8_t* data, std::size_t size, void* user) {
  Impl& impl = self(user);
  nghttp2_session_consume_connection(session, size);
  H2Stream* stream = impl.live(id);
  if (stream == nullptr) return 0;
  stream->unconsumed += size;
  impl.handler.on_data(id, view_of(data, size));
  return 0;
}

int H2Session::Impl::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Impl& impl = self(user);
  const StreamId id = frame->hd.stream_id;
  const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
      if (H2Stream* stream = impl.live(id)) impl.headers_done(id, *stream, end);
      if (end) impl.end_received(id);
      break;
    case NGHTTP2_DATA:
      if (end) impl.end_received(id);
      break;
    case NGHTTP2_RST_STREAM:
      if (H2Stream* stream = impl.find(id); stream != nullptr && !stream->peer_reset) {
        stream->peer_reset = true;
        if (impl.server) impl.count_reset();
      }
      break;
    case NGHTTP2_GOAWAY:
      impl.goaway_received(frame->goaway.error_code);
      break;
    default:
      break;
  }
  return 0;
}

int H2Session::Impl::on_stream_close(nghttp2_session*, StreamId id, std::uint32_t error_code,
                                     void* user) {
  self(user).close(id, error_code);
  return 0;
}

int H2Session::Impl::before_send(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  Impl& impl = self(user);
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    --impl.unsent;
    if (H2Stream* stream = impl.find(frame->hd.stream_id)) stream->sent = true;
  }
  if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR &&
      !impl.closing && !impl.failure) {
    const nghttp2_goaway& goaway = frame->goaway;
    impl.failure = Error{Code::guest, "the peer broke the HTTP/2 protocol",
                         std::string(view_of(goaway.opaque_data, goaway.opaque_data_len)) + " (" +
                             nghttp2_http2_strerror(goaway.error_code) + ")"};
  }
  return 0;
}

int H2Session::Impl::on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  const bool carries_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
  if (!carries_end || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  H2Stream* stream = self(user).find(frame->hd.stream_id);
  if (stream == nullptr) return 0;
  stream->answered = true;
  if (stream->leaving && !stream->remote_end) self(user).reset(frame->hd.stream_id, 0);
  return 0;
}

int H2Session::Impl::on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
  Impl& impl = self(user);
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    --impl.unsent;
    impl.close(frame->hd.stream_id, code_of(H2Error::refused));
  } else {
    impl.reset(frame->hd.stream_id, code_of(H2Error::internal));
  }
  return 0;
}

}  // namespace firebreak::wire
