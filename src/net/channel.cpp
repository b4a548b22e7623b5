#include "net/channel.h"

#include <charconv>

#include <boost/asio/write.hpp>

#include "base/sys.h"

namespace firebreak::net {
namespace {

constexpr std::uint16_t kProtocolVersion = 1;
constexpr std::size_t kReadBuffer = 64 * 1024;
constexpr std::size_t kMaxCallBody = 1 << 20;
// What may wait for a socket that does not take it; streams wait in their own bounded queues
// beyond.
constexpr std::size_t kMaxWaiting = 256 * 1024;

wire::H2Limits limits() {
  wire::H2Limits limits;
  limits.max_streams = 0;  // the agent opens none
  return limits;
}

}  // namespace

// ----------------------------------------------------------------------------------------------
// stream

ChannelStream::ChannelStream(std::shared_ptr<Channel> channel, wire::StreamId id)
    : channel_(std::move(channel)),
      id_(id),
      readable_(channel_->socket_.get_executor()),
      writable_(channel_->socket_.get_executor()) {}

ChannelStream::~ChannelStream() {
  cancel();
  channel_->streams_.erase(id_);
}

void ChannelStream::cancel() {
  if (closed_ || channel_->failure_) return;
  closed_ = true;
  channel_->streams_.erase(id_);
  // Agents count resets, and end a connection with too many of them.
  if (ended_) {
    channel_->session_->finish(id_);
  } else {
    channel_->session_->reset(id_, wire::H2Error::cancel);
  }
  channel_->flush();
}

Result<> ChannelStream::check_open() const {
  if (channel_->failure_) return std::unexpected(*channel_->failure_);
  if (closed_ && close_code_ != 0) {
    return fail(Code::unavailable, "the agent cancelled the request",
                "HTTP/2 error " + std::to_string(close_code_));
  }
  return {};
}

Task<Result<Reply>> ChannelStream::head(Deadline deadline) {
  while (!head_) {
    FB_CO_TRY(check_open());
    if (closed_) co_return fail(Code::guest, "the agent ended a request without an answer");
    if (!co_await readable_.wait(deadline))
      if (!head_) co_return fail(Code::timeout, "the agent did not answer in time");
  }
  co_return *head_;
}

Task<Result<std::string>> ChannelStream::read(Deadline deadline) {
  while (incoming_.empty()) {
    if (ended_) co_return std::string();
    FB_CO_TRY(check_open());
    if (closed_) co_return std::string();
    if (!co_await readable_.wait(deadline))
      if (incoming_.empty() && !ended_)
        co_return fail(Code::timeout, "no data from the agent in time");
  }
  std::string bytes;
  bytes.swap(incoming_);
  if (!closed_) {
    channel_->session_->consume(id_, bytes.size());
    channel_->flush_soon();
  }
  co_return bytes;
}

Task<Result<>> ChannelStream::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    FB_CO_TRY(check_open());
    if (closed_) co_return fail(Code::unavailable, "the agent closed the request");
    const std::size_t taken = channel_->session_->write(id_, bytes);
    bytes.remove_prefix(taken);
    channel_->flush_soon();
    if (bytes.empty()) break;
    if (taken == 0 && !co_await writable_.wait(deadline))
      co_return fail(Code::timeout, "the agent did not take the data in time");
  }
  co_return Result<>();
}

void ChannelStream::finish() {
  if (closed_ || channel_->failure_) return;
  channel_->session_->finish(id_);
  channel_->flush_soon();
}

// ---------------------------------------------------------------------------------------------
// channel

Channel::Channel(Private, Socket socket)
    : socket_(std::move(socket)), synced_(socket_.get_executor()) {
  in_.resize(kReadBuffer);
}

Channel::~Channel() = default;

std::shared_ptr<Channel> Channel::start(Socket socket) {
  auto channel = std::make_shared<Channel>(Private{}, std::move(socket));
  channel->hello_.version = kProtocolVersion;
  sys::random_bytes(channel->hello_.nonce);
  channel->encoder_.sync(channel->hello_, channel->waiting_);
  channel->session_ = wire::H2Session::client(limits(), *channel);
  channel->flush();
  channel->read_more();
  return channel;
}

Task<Result<>> Channel::ready(Deadline deadline) {
  while (!is_synced_) {
    if (failure_) co_return std::unexpected(*failure_);
    if (!co_await synced_.wait(deadline) && !is_synced_)
      co_return fail(Code::timeout, "the agent did not answer the channel's sync in time");
  }
  co_return Result<>();
}

void Channel::read_more() {
  socket_.async_read_some(
      asio::buffer(in_), [self = shared_from_this()](boost::system::error_code ec, std::size_t n) {
        if (self->failure_) return;
        if (ec)
          return self->end({Code::guest, "the channel to the guest was closed", ec.message()});
        self->decoder_.feed(std::span(self->in_.data(), n), *self);
        self->flush();
        if (!self->failure_) self->read_more();
      });
}

// Moves HTTP/2 output through the stuffing to the socket; at most one write is in flight.
void Channel::flush() {
  if (failure_) return;
  if (waiting_.size() < kMaxWaiting) {
    plain_.clear();
    while (waiting_.size() + plain_.size() < kMaxWaiting && session_->take_output(plain_)) {
    }
    if (!plain_.empty()) encoder_.data(plain_, waiting_);
  }
  if (write_active_ || waiting_.empty()) return;
  write_active_ = true;
  writing_.clear();
  writing_.swap(waiting_);
  asio::async_write(
      socket_, asio::buffer(writing_),
      [self = shared_from_this()](boost::system::error_code ec, std::size_t) {
        self->write_active_ = false;
        if (self->failure_) return;
        if (ec)
          return self->end({Code::guest, "the channel to the guest was closed", ec.message()});
        self->flush();
      });
}

// At the end of this turn of the loop: a request and its body, and what many streams write, leave
// in one piece and wake the guest once.
void Channel::flush_soon() {
  if (std::exchange(flush_posted_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void Channel::end(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  boost::system::error_code ignored;
  socket_.close(ignored);
  synced_.notify();
  for (auto& [id, stream] : streams_) {
    stream->readable_.notify();
    stream->writable_.notify();
  }
}

void Channel::close() {
  end({Code::unavailable, "the channel was closed by the host", {}});
}

void Channel::on_sync(const wire::Sync& sync) {
  if (sync.nonce != hello_.nonce) return;  // stale, of an earlier connection
  if (is_synced_) return end({Code::guest, "the agent restarted the channel", {}});
  if (sync.version == 0 || sync.version > kProtocolVersion)
    return end(
        {Code::guest, "the agent speaks protocol version " + std::to_string(sync.version), {}});
  version_ = sync.version;
  is_synced_ = true;
  synced_.notify();
}

void Channel::on_data(std::string_view bytes) {
  if (!is_synced_ || failure_) return;
  if (auto fed = session_->receive(bytes); !fed) end(fed.error());
}

Result<std::unique_ptr<ChannelStream>> Channel::start(std::string method, std::string path,
                                                      bool end) {
  if (failure_) return std::unexpected(*failure_);
  const wire::Headers headers{{":method", std::move(method)},
                              {":scheme", "http"},
                              {":authority", "agent"},
                              {":path", std::move(path)}};
  FB_TRY_ASSIGN(const wire::StreamId id, session_->request(headers, end));
  std::unique_ptr<ChannelStream> stream(new ChannelStream(shared_from_this(), id));
  streams_[id] = stream.get();
  flush_soon();
  return stream;
}

Task<Result<Reply>> Channel::call(std::string method, std::string path, std::string body,
                                  Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream, start(std::move(method), std::move(path), body.empty()));
  if (!body.empty()) {
    FB_CO_TRY(co_await stream->write(body, deadline));
    stream->finish();
  }
  FB_CO_TRY_ASSIGN(Reply reply, co_await stream->head(deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream->read(deadline));
    if (bytes.empty()) break;
    if (reply.body.size() + bytes.size() > kMaxCallBody)
      co_return fail(Code::guest, "the agent's answer is larger than 1 MiB");
    reply.body += bytes;
  }
  co_return reply;
}

void Channel::on_headers(wire::StreamId stream, wire::Headers headers, bool end) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  Reply head;
  const std::string_view status = wire::find_header(headers, ":status");
  std::from_chars(status.data(), status.data() + status.size(), head.status);
  head.headers = std::move(headers);
  it->second->head_ = std::move(head);
  it->second->ended_ = end;
  it->second->readable_.notify();
}

void Channel::on_data(wire::StreamId stream, std::string_view bytes) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  it->second->incoming_.append(bytes);
  it->second->readable_.notify();
}

void Channel::on_end(wire::StreamId stream) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  it->second->ended_ = true;
  it->second->readable_.notify();
}

void Channel::on_writable(wire::StreamId stream) {
  auto it = streams_.find(stream);
  if (it != streams_.end()) it->second->writable_.notify();
}

void Channel::on_closed(wire::StreamId stream, std::uint32_t error_code) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  it->second->closed_ = true;
  it->second->close_code_ = error_code;
  it->second->readable_.notify();
  it->second->writable_.notify();
  streams_.erase(it);
}

void Channel::on_goaway(std::uint32_t error_code) {
  end({Code::guest, "the agent ended the channel", "HTTP/2 GOAWAY " + std::to_string(error_code)});
}

}  // namespace firebreak::net
