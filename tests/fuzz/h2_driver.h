// Drives one H2Session from fuzzer input and aborts when it breaks its contract. Each input byte
// below 0xE0 feeds that many (plus one) of the bytes behind it to receive(); the others are a call
// of ours, on the stream the next byte selects.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "wire/h2_session.h"

namespace firebreak::fuzz {

class H2Driver : public wire::H2Handler {
 public:
  static constexpr std::size_t kWindow =
      65535;  // what a peer may assume before our settings reach it
  static constexpr std::size_t kQueue = 4096;

  static wire::H2Limits limits() {
    wire::H2Limits limits;
    limits.max_streams = 8;
    limits.stream_window = kWindow;
    limits.max_header_bytes = 1024;
    limits.write_queue = kQueue;
    limits.max_resets_per_second = 100;
    return limits;
  }

  explicit H2Driver(bool server)
      : server_(server),
        session_(server ? wire::H2Session::server(limits(), *this)
                        : wire::H2Session::client(limits(), *this)) {}

  void run(std::string_view input) {
    if (server_) feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    while (!input.empty()) {
      const auto op = static_cast<std::uint8_t>(input[0]);
      input.remove_prefix(1);
      if (op < 0xE0) {
        const std::size_t size = std::min<std::size_t>(input.size(), op + 1U);
        feed(input.substr(0, size));
        input.remove_prefix(size);
      } else if (!input.empty()) {
        act(op % 8, static_cast<std::uint8_t>(input[0]));
        input.remove_prefix(1);
      }
    }
    act(7, 0);
    if (failed_) return;
    for (const auto& [id, stream] : streams_) session_->reset(id, wire::H2Error::cancel);
    act(7, 0);
    // A session that was ended with an error sends no resets.
    if (!ended_ && session_->alive() && !streams_.empty()) std::abort();
  }

  void on_headers(wire::StreamId id, wire::Headers headers, bool) override {
    std::size_t size = 0;
    for (const auto& field : headers) size += field.name.size() + field.value.size();
    Stream& stream = server_ ? streams_[id] : known(id);
    check(!stream.headers && size <= limits().max_header_bytes);
    stream.headers = true;
  }
  void on_trailers(wire::StreamId id, wire::Headers) override {
    check(known(id).headers && !known(id).ended);
  }
  void on_data(wire::StreamId id, std::string_view bytes) override {
    Stream& stream = known(id);
    stream.held += bytes.size();
    check(stream.headers && !stream.ended && !bytes.empty() && stream.held <= kWindow);
    if (bytes[0] % 4 == 0) session_->reset(id, wire::H2Error::cancel);
  }
  void on_end(wire::StreamId id) override {
    check(known(id).headers && !known(id).ended);
    known(id).ended = true;
  }
  void on_writable(wire::StreamId id) override {
    known(id);
    session_->write(id, std::string(100, 'w'));
  }
  void on_closed(wire::StreamId id, std::uint32_t) override {
    known(id);
    streams_.erase(id);
  }

 private:
  struct Stream {
    bool headers = false;
    bool ended = false;
    std::size_t held = 0;
  };

  static void check(bool holds) {
    if (!holds) std::abort();
  }

  Stream& known(wire::StreamId id) {
    const auto it = streams_.find(id);
    check(it != streams_.end() && !failed_);
    return it->second;
  }

  void feed(std::string_view bytes) {
    const auto fed = session_->receive(bytes);
    check(!failed_ || !fed);
    if (!fed) failed_ = true;
  }

  void act(unsigned what, std::uint8_t which) {
    static const wire::Headers kRequest = {
        {":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}};
    if (what == 7) {
      std::string out;
      while (session_->take_output(out, 1U << (which % 16))) out.clear();
      return;
    }
    if (what == 0 && !server_) {
      const auto id = session_->request(kRequest, which % 2 == 0);
      if (id) streams_.try_emplace(*id);
      return;
    }
    if (what == 6) {
      session_->goaway(which % 2 == 0 ? wire::H2Error::no_error : wire::H2Error::internal);
      ended_ = ended_ || which % 2 != 0;
      return;
    }
    if (streams_.empty()) return;
    auto it = std::next(streams_.begin(), static_cast<long>(which % streams_.size()));
    const wire::StreamId id = it->first;
    switch (what) {
      case 0:
        std::ignore = session_->respond(id, {{":status", "200"}}, which % 2 == 0);
        break;
      case 1:
        session_->write(id, std::string(which * std::size_t{30}, 'd'));
        break;
      case 2:
        session_->finish(id);
        break;
      case 3:
        session_->finish(id, {{"x-trailer", "1"}});
        break;
      case 4:
        session_->reset(id, which % 2 == 0 ? wire::H2Error::no_error : wire::H2Error::refused);
        break;
      default:
        session_->consume(id, it->second.held);
        it->second.held = 0;
    }
    check(session_->queued(id) <= kQueue);
  }

  const bool server_;
  bool failed_ = false;
  bool ended_ = false;
  std::map<wire::StreamId, Stream> streams_;
  std::unique_ptr<wire::H2Session> session_;
};

}  // namespace firebreak::fuzz
