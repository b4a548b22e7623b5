// The host's end of one port of the agent channel: link + HTTP/2 client over a unix socket. The
// peer is a hostile guest: what it sends is bounded by the stream windows, every wait has the
// caller's deadline, and a protocol violation ends the channel with a typed error. Shared by the
// streams it carries; all calls on one executor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/local/stream_protocol.hpp>

#include "net/task.h"
#include "wire/h2_session.h"
#include "wire/link.h"

namespace firebreak::net {

struct Reply {
  int status = 0;
  wire::Headers headers;
  std::string body;
};

class Channel;

// One request in flight. Destroying it cancels what is not finished (RST_STREAM reaches the agent).
class ChannelStream {
 public:
  ~ChannelStream();
  ChannelStream(const ChannelStream&) = delete;
  ChannelStream& operator=(const ChannelStream&) = delete;

  // Status and headers of the answer.
  Task<Result<Reply>> head(Deadline deadline);
  // Next bytes of the answer's body, at least one; an empty string is the end.
  Task<Result<std::string>> read(Deadline deadline);
  // Returns when all bytes are queued (the queue is bounded; a peer that does not read makes this
  // wait).
  Task<Result<>> write(std::string_view bytes, Deadline deadline);
  void finish();
  void cancel();
  // Answered, open both ways, and nothing waits to be read.
  bool quiet() const {
    return head_ && incoming_.empty() && !ended_ && !closed_ && check_open().has_value();
  }

 private:
  friend class Channel;
  ChannelStream(std::shared_ptr<Channel> channel, wire::StreamId id);
  Result<> check_open() const;

  std::shared_ptr<Channel> channel_;
  wire::StreamId id_;
  Event readable_;  // head, data or end arrived, or the stream closed
  Event writable_;
  std::optional<Reply> head_;
  std::string incoming_;
  bool ended_ = false;
  bool closed_ = false;
  std::uint32_t close_code_ = 0;
};

class Channel : public std::enable_shared_from_this<Channel>,
                private wire::H2Handler,
                private wire::LinkDecoder::Sink {
 public:
  using Socket = asio::local::stream_protocol::socket;

  // Sends the sync; requests may be started at once and travel right behind it. The executor is the
  // socket's.
  static std::shared_ptr<Channel> start(Socket socket);
  // The agent has answered the sync.
  Task<Result<>> ready(Deadline deadline);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // A small exchange: the whole body, at most 1 MiB.
  Task<Result<Reply>> call(std::string method, std::string path, std::string body,
                           Deadline deadline);
  // A streamed one. `end`: no request body will be written.
  Result<std::unique_ptr<ChannelStream>> start(std::string method, std::string path, bool end);

  // Why the channel ended; nothing while it is usable.
  const std::optional<Error>& failure() const { return failure_; }
  std::uint16_t version() const { return version_; }
  void close();

 private:
  friend class ChannelStream;
  struct Private {};

 public:
  Channel(Private, Socket socket);

 private:
  void read_more();
  void flush();
  void flush_soon();
  void end(Error error);

  void on_sync(const wire::Sync& sync) override;
  void on_data(std::string_view bytes) override;
  void on_headers(wire::StreamId stream, wire::Headers headers, bool end) override;
  void on_data(wire::StreamId stream, std::string_view bytes) override;
  void on_end(wire::StreamId stream) override;
  void on_writable(wire::StreamId stream) override;
  void on_closed(wire::StreamId stream, std::uint32_t error_code) override;
  void on_goaway(std::uint32_t error_code) override;

  Socket socket_;
  Event synced_;
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  wire::Sync hello_;
  std::uint16_t version_ = 0;
  std::unique_ptr<wire::H2Session> session_;
  bool is_synced_ = false;
  std::map<wire::StreamId, ChannelStream*> streams_;
  std::string in_;       // read buffer
  std::string plain_;    // HTTP/2 bytes before stuffing
  std::string waiting_;  // stuffed, not yet handed to the socket
  std::string writing_;  // handed to the socket
  bool write_active_ = false;
  bool flush_posted_ = false;
  std::optional<Error> failure_;
};

}  // namespace firebreak::net
