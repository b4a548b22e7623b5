// The guest's end of a channel for tests, made of the same wire parts, and a place to run both
// ends. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "net/channel.h"

namespace firebreak::net {

// An agent that answers the sync and gives every request to a function.
class Peer : public wire::H2Handler, public wire::LinkDecoder::Sink {
 public:
  using OnRequest = std::function<void(Peer&, wire::StreamId, const std::string& path)>;
  Peer(Channel::Socket socket, OnRequest on_request)
      : socket_(std::move(socket)), on_request_(std::move(on_request)) {
    buffer_.resize(16 * 1024);
    read();
  }

  wire::H2Session& session() { return *session_; }
  void answer(wire::StreamId stream, const std::string& body, const char* status = "200") {
    (void)session_->respond(stream, {{":status", status}}, false);
    session_->write(stream, body);
    session_->finish(stream);
    flush();
  }
  void flush() {
    std::string plain;
    while (session_ && session_->take_output(plain)) {
    }
    std::string out;
    encoder_.data(plain, out);
    raw(out);
  }
  void raw(const std::string& bytes) {
    boost::system::error_code ignored;
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  void close() { socket_.close(); }

  bool answer_sync = true;
  std::set<wire::StreamId> reset_streams;
  std::map<wire::StreamId, std::string> bodies;
  std::map<wire::StreamId, bool> ended;

 private:
  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [this](boost::system::error_code ec, std::size_t n) {
                              if (ec) return;
                              decoder_.feed(std::span(buffer_.data(), n), *this);
                              if (session_) flush();
                              read();
                            });
  }
  void on_sync(const wire::Sync& sync) override {
    if (!answer_sync) return;
    std::string out;
    encoder_.sync(sync, out);
    raw(out);
    session_ = wire::H2Session::server({}, *this);
  }
  void on_data(std::string_view bytes) override {
    if (session_) (void)session_->receive(bytes);
  }
  void on_headers(wire::StreamId stream, wire::Headers headers, bool) override {
    on_request_(*this, stream, std::string(wire::find_header(headers, ":path")));
  }
  void on_data(wire::StreamId stream, std::string_view bytes) override {
    bodies[stream] += bytes;
    session_->consume(stream, bytes.size());
  }
  void on_end(wire::StreamId stream) override { ended[stream] = true; }
  void on_closed(wire::StreamId stream, std::uint32_t code) override {
    if (code != 0) reset_streams.insert(stream);
  }

  Channel::Socket socket_;
  OnRequest on_request_;
  std::string buffer_;
  wire::LinkEncoder encoder_;
  wire::LinkDecoder decoder_;
  std::unique_ptr<wire::H2Session> session_;
};

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() : host_(io_), guest_(io_) { asio::local::connect_pair(host_, guest_); }

  // Runs one coroutine to its end.
  void run(std::function<Task<void>()> body) {
    bool done = false;
    asio::co_spawn(
        io_,
        [&]() -> Task<void> {
          co_await body();
          done = true;
        },
        [](const std::exception_ptr& e) {
          if (e) std::rethrow_exception(e);
        });
    while (!done && io_.run_one_for(std::chrono::seconds(20)) > 0) {
    }
    ASSERT_TRUE(done) << "hung";
  }

  static Deadline soon() { return Deadline::in(std::chrono::seconds(10)); }

  asio::io_context io_;
  Channel::Socket host_;
  Channel::Socket guest_;
};

}  // namespace firebreak::net
