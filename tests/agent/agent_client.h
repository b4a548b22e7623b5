// A blocking client of the agent protocol for tests: one port, any number of streams, bytes pumped
// by the caller. Single thread.
#pragma once

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/sys.h"
#include "wire/frames.h"
#include "wire/h2_session.h"
#include "wire/link.h"

namespace firebreak::testing_agent {

struct Reply {
  int status = 0;
  wire::Headers headers;
  std::string body;
  std::size_t unconsumed = 0;  // bytes of the body that still count against the window
  bool ended = false;
  bool closed = false;
  std::uint32_t error = 0;

  json::object json() const {
    auto parsed = parse_json_object(body);
    return parsed ? *parsed : json::object();
  }
};

class AgentClient final : private wire::H2Handler, private wire::LinkDecoder::Sink {
 public:
  // The descriptor is borrowed and becomes non-blocking.
  explicit AgentClient(int fd) : fd_(fd) { ::fcntl(fd, F_SETFL, O_NONBLOCK); }
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;
  ~AgentClient() override = default;

  bool connect(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    sys::random_bytes(nonce_);
    synced_ = false;
    replies_.clear();
    session_ = wire::H2Session::client(wire::H2Limits{}, *this);
    encoder_.sync({1, nonce_}, out_);
    return until([&] { return synced_; }, limit);
  }

  // With `end` false the body goes on with write() and finish().
  wire::StreamId start(std::string_view method, std::string_view path, std::string_view body = {},
                       bool end = true) {
    const auto stream = session_->request({{":method", std::string(method)},
                                           {":scheme", "http"},
                                           {":authority", "agent"},
                                           {":path", std::string(path)}},
                                          end && body.empty());
    if (!stream) return -1;
    replies_[*stream];
    if (!body.empty()) write(*stream, body);
    if (end && !body.empty()) session_->finish(*stream);
    return *stream;
  }

  void write(wire::StreamId stream, std::string_view bytes) {
    while (!bytes.empty() && !replies_[stream].closed) {
      bytes.remove_prefix(session_->write(stream, bytes));
      if (!bytes.empty()) pump(std::chrono::milliseconds(100));
    }
  }
  void finish(wire::StreamId stream) { session_->finish(stream); }
  void reset(wire::StreamId stream) { session_->reset(stream, wire::H2Error::cancel); }
  void hold(bool hold) { hold_ = hold; }  // true: received bytes are not consumed
  void release(wire::StreamId stream) {
    session_->consume(stream, std::exchange(replies_[stream].unconsumed, 0));
  }

  Reply& reply(wire::StreamId stream) { return replies_[stream]; }

  Reply call(std::string_view method, std::string_view path, std::string_view body = {},
             std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    const auto stream = start(method, path, body);
    until([&] { return replies_[stream].closed; }, limit);
    return replies_[stream];
  }

  template <class Condition>
  bool until(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    const Deadline deadline = Deadline::in(limit);
    while (!condition()) {
      if (deadline.passed() || gone_) return false;
      pump(std::min(deadline.left(), std::chrono::milliseconds(50)));
    }
    return true;
  }

  // Sends and receives once; waits at most `limit` for something to happen.
  void pump(std::chrono::milliseconds limit) {
    fill();
    pollfd waiting{fd_, static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0};
    ::poll(&waiting, 1, static_cast<int>(limit.count()));
    if (!out_.empty()) {
      const ssize_t n = ::write(fd_, out_.data(), out_.size());
      if (n > 0) out_.erase(0, static_cast<std::size_t>(n));
    }
    char buffer[65536];
    const ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) gone_ = true;
    if (n > 0) decoder_.feed({buffer, static_cast<std::size_t>(n)}, *this);
    fill();
  }

  // Sends only the first `bytes` of what is queued, then forgets the rest: a connection cut in the
  // middle.
  void cut_after(std::size_t bytes) {
    fill();
    out_.resize(std::min(out_.size(), bytes));
    while (!out_.empty()) {
      const ssize_t n = ::write(fd_, out_.data(), out_.size());
      if (n > 0) out_.erase(0, static_cast<std::size_t>(n));
    }
  }

 private:
  void fill() {
    std::string raw;
    if (synced_ && out_.size() < 65536 && session_->take_output(raw)) encoder_.data(raw, out_);
  }
  void on_sync(const wire::Sync& sync) override { synced_ = sync.nonce == nonce_; }
  void on_data(std::string_view bytes) override {
    if (synced_ && !session_->receive(bytes)) gone_ = true;
  }
  void on_headers(wire::StreamId stream, wire::Headers headers, bool end) override {
    Reply& reply = replies_[stream];
    reply.status = std::stoi(std::string(wire::find_header(headers, ":status")));
    reply.headers = std::move(headers);
    reply.ended = end;
  }
  void on_data(wire::StreamId stream, std::string_view bytes) override {
    replies_[stream].body.append(bytes);
    if (hold_)
      replies_[stream].unconsumed += bytes.size();
    else
      session_->consume(stream, bytes.size());
  }
  void on_end(wire::StreamId stream) override { replies_[stream].ended = true; }
  void on_closed(wire::StreamId stream, std::uint32_t error) override {
    replies_[stream].closed = true;
    replies_[stream].error = error;
  }

  int fd_;
  wire::Nonce nonce_{};
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  std::unique_ptr<wire::H2Session> session_;
  std::map<wire::StreamId, Reply> replies_;
  std::string out_;
  bool synced_ = false;
  bool gone_ = false;
  bool hold_ = false;
};

// An exec's output stream, taken apart.
struct Output {
  std::string started, out, err, exit, order;  // order: the stream's types, one character per frame
  std::uint64_t gap = 0;
  bool whole = true;  // no half frame at the end

  std::uint64_t offset() const { return out.size() + err.size() + gap; }
  json::object exit_json() const {
    auto parsed = parse_json_object(exit);
    return parsed ? *parsed : json::object();
  }
  int exit_code() const {
    const json::object status = exit_json();
    const auto* code = status.if_contains("exit_code");
    return code != nullptr ? static_cast<int>(code->as_int64()) : -1;
  }
};

Output parse_output(std::string_view body);

}  // namespace firebreak::testing_agent
