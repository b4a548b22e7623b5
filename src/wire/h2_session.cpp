#include "wire/h2_session.h"

#include <algorithm>

#include "wire/h2_impl.h"

namespace firebreak::wire {

std::string_view find_header(const Headers& headers, std::string_view name) {
  const auto it = std::ranges::find(headers, name, &HeaderField::name);
  return it == headers.end() ? std::string_view() : std::string_view(it->value);
}

H2Session::H2Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
H2Session::~H2Session() = default;

std::unique_ptr<H2Session> H2Session::client(const H2Limits& limits, H2Handler& handler) {
  return std::unique_ptr<H2Session>(new H2Session(std::make_unique<Impl>(limits, handler, false)));
}

std::unique_ptr<H2Session> H2Session::server(const H2Limits& limits, H2Handler& handler) {
  return std::unique_ptr<H2Session>(new H2Session(std::make_unique<Impl>(limits, handler, true)));
}

Result<> H2Session::receive(std::string_view bytes) {
  Impl& impl = *impl_;
  if (!impl.failure) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const ssize_t rv = nghttp2_session_mem_recv(impl.session, data, bytes.size());
    if (rv < 0) {
      impl.fail_with({Code::guest, "the peer broke the HTTP/2 protocol",
                      nghttp2_strerror(static_cast<int>(rv))},
                     H2Error::protocol);
    }
    impl.stage_control();
    impl.fire_events();
  }
  if (impl.failure) return std::unexpected(*impl.failure);
  return {};
}

bool H2Session::take_output(std::string& out, std::size_t limit) {
  Impl& impl = *impl_;
  const std::size_t before = out.size();
  out.append(impl.staged);
  impl.staged.clear();
  while (out.size() < limit)
    if (!impl.frame_next(out) && !impl.fire_events()) break;
  impl.fire_events();
  return out.size() > before;
}

Result<StreamId> H2Session::request(const Headers& headers, bool end) {
  Impl& impl = *impl_;
  if (impl.failure || impl.closing || nghttp2_session_check_request_allowed(impl.session) == 0)
    return fail(Code::unavailable, "the HTTP/2 connection takes no more requests");
  FB_TRY_ASSIGN(const auto list, to_nv(headers));
  const nghttp2_data_provider body = impl.provider();
  const StreamId id = nghttp2_submit_request(impl.session, nullptr, list.data(), list.size(),
                                             end ? nullptr : &body, nullptr);
  if (id < 0)
    return fail(Code::unavailable, "the HTTP/2 request was refused", nghttp2_strerror(id));
  ++impl.unsent;
  H2Stream& stream = impl.streams[id];
  stream.begun = true;
  stream.finishing = end;
  return id;
}

Result<> H2Session::respond(StreamId id, const Headers& headers, bool end) {
  Impl& impl = *impl_;
  H2Stream* stream = impl.live(id);
  if (stream == nullptr) return fail(Code::not_found, "the HTTP/2 stream is gone");
  if (stream->begun) return fail(Code::conflict, "the request was already answered");
  FB_TRY_ASSIGN(const auto list, to_nv(headers));
  const nghttp2_data_provider body = impl.provider();
  const int rv =
      nghttp2_submit_response(impl.session, id, list.data(), list.size(), end ? nullptr : &body);
  if (rv != 0)
    return fail(Code::unavailable, "the HTTP/2 response was refused", nghttp2_strerror(rv));
  stream->begun = true;
  if (end) stream->finishing = true;
  return {};
}

std::size_t H2Session::write(StreamId id, std::string_view bytes) {
  Impl& impl = *impl_;
  H2Stream* stream = impl.live(id);
  if (stream == nullptr || stream->finishing) return 0;
  const std::size_t queued = stream->queued();
  const std::size_t size = std::min(bytes.size(), impl.limits.write_queue - queued);
  if (size < bytes.size()) stream->short_write = true;
  if (size == 0) return 0;
  // Moving once the sent part is the larger half keeps the buffer below twice the limit and the
  // moves O(1) per byte.
  if (stream->queue_at >= queued) {
    stream->queue.erase(0, stream->queue_at);
    stream->queue_at = 0;
  }
  stream->queue.append(bytes.substr(0, size));
  if (queued == 0) nghttp2_session_resume_data(impl.session, id);
  return size;
}

void H2Session::finish(StreamId id, Headers trailers) {
  H2Stream* stream = impl_->live(id);
  if (stream == nullptr || stream->finishing) return;
  stream->finishing = true;
  stream->trailers = std::move(trailers);
  if (stream->queued() == 0) nghttp2_session_resume_data(impl_->session, id);
}

void H2Session::reset(StreamId id, H2Error error) {
  impl_->reset(id, code_of(error));
}

void H2Session::consume(StreamId id, std::size_t bytes) {
  H2Stream* stream = impl_->live(id);
  if (stream == nullptr) return;
  const std::size_t size = std::min(bytes, stream->unconsumed);
  stream->unconsumed -= size;
  // No window is needed for a peer that has ended.
  if (!stream->remote_end) nghttp2_session_consume_stream(impl_->session, id, size);
}

void H2Session::goaway(H2Error error) {
  Impl& impl = *impl_;
  if (impl.failure) return;
  if (error == H2Error::no_error) {
    if (impl.closing) return;
    nghttp2_submit_goaway(impl.session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(impl.session), NGHTTP2_NO_ERROR,
                          nullptr, 0);
  } else {
    nghttp2_session_terminate_session(impl.session, code_of(error));
  }
  impl.closing = true;
}

std::size_t H2Session::queued(StreamId id) const {
  const H2Stream* stream = impl_->find(id);
  return stream == nullptr ? 0 : stream->queued();
}

std::size_t H2Session::open_streams() const {
  return impl_->streams.size();
}

bool H2Session::alive() const {
  const Impl& impl = *impl_;
  if (!impl.staged.empty() || nghttp2_session_want_write(impl.session) != 0) return true;
  return !impl.failure && nghttp2_session_want_read(impl.session) != 0;
}

}  // namespace firebreak::wire
