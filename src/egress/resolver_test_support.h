// A resolver on loopback for tests, with an upstream that knows a few names and hooks that record.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <gtest/gtest.h>

#include "egress/address_test_support.h"
#include "egress/loop_test_support.h"
#include "egress/resolver.h"
#include "net/broadcast.h"
#include "net/tcp_stream.h"
#include "wire/dns_test_support.h"

namespace firebreak::egress {

inline Deadline soon() {
  return Deadline::in(std::chrono::seconds(10));
}

// Knows a few names; may be told to wait.
class FakeUpstream : public Upstream {
 public:
  explicit FakeUpstream(const net::asio::any_io_executor& executor) : changed(executor) {}

  net::Task<Result<Resolved>> resolve(std::string name, Family family, Deadline deadline) override {
    struct Ends {
      explicit Ends(int& count) : ended(count) {}
      ~Ends() { ++ended; }
      Ends(const Ends&) = delete;
      Ends& operator=(const Ends&) = delete;
      int& ended;
    };
    const Ends ends(ended);
    asked.push_back(name + (family == Family::v4 ? " A" : " AAAA"));
    changed.notify();
    while (held) {
      if (!co_await changed.wait(deadline))
        co_return fail(Code::timeout, "the host's resolvers did not answer");
    }
    const auto at = known.find(asked.back());
    co_return at == known.end() ? Resolved{.status = Resolved::Status::no_name} : at->second;
  }

  void add(const std::string& name, const std::vector<std::string>& addresses,
           std::chrono::seconds ttl = std::chrono::seconds(60)) {
    Resolved found{.ttl = ttl};
    for (const std::string& address : addresses) found.addresses.push_back(ip(address));
    known[name + (found.addresses.front().v6 ? " AAAA" : " A")] = found;
  }
  void release() {
    held = false;
    changed.notify();
  }

  std::map<std::string, Resolved> known;
  std::vector<std::string> asked;
  bool held = false;
  int ended = 0;
  net::Broadcast changed;
};

class ResolverTest : public LoopTest {
 protected:
  void SetUp() override {
    upstream_.add("ok.test", {"192.0.2.1", "192.0.2.2"});
    upstream_.add("ok.test", {"2001:db8::1"});
    allowed_ = {"ok.test"};
  }
  void TearDown() override {
    resolver_.reset();
    while (io_.poll_one() > 0) {
    }
  }

  ResolverHooks hooks() {
    return {
        .decide =
            [this](const std::string& name) {
              NameVerdict out;
              out.decision.allowed = allowed_.contains(name) || name.ends_with(".wild.test");
              out.decision.label = {core::EgressLayer::policy, 1};
              out.decision.reason = "policy web has no rule for " + name + "; add one";
              out.wildcard = name.ends_with(".wild.test");
              return out;
            },
        .may_pin = [](const core::IpAddress& address) { return address.bytes[0] != 10; },
        .pin = [this](PinRequest request, Deadline deadline) -> net::Task<Result<>> {
          pins_.push_back(std::move(request));
          while (pin_held_) (void)co_await pin_changed_.wait(deadline);
          if (pin_fails_) co_return fail(Code::internal, "the rules could not be loaded");
          co_return Result<>();
        },
        .decided = [this](const NameEvent& event) { events_.push_back(event); },
    };
  }

  void serve(const ResolverOptions& options = {}) {
    net::asio::ip::udp::socket datagrams(
        io_, net::asio::ip::udp::endpoint(net::asio::ip::address_v4::loopback(), 0));
    net::asio::ip::tcp::acceptor streams(
        io_, net::asio::ip::tcp::endpoint(net::asio::ip::address_v4::loopback(), 0));
    udp_at_ = datagrams.local_endpoint();
    tcp_at_ = streams.local_endpoint();
    ResolverSockets sockets;
    sockets.udp.emplace_back(datagrams.release());
    sockets.tcp.emplace_back(streams.release());
    auto made =
        Resolver::start(io_.get_executor(), std::move(sockets), upstream_, hooks(), options);
    ASSERT_TRUE(made) << made.error().text();
    resolver_ = *std::move(made);
  }

  void send(net::asio::ip::udp::socket& socket, const std::string& message) {
    socket.send_to(net::asio::buffer(message), udp_at_);
  }
  net::Task<wire::DnsRead> receive(net::asio::ip::udp::socket& socket) {
    std::string buffer(4096, '\0');
    const std::size_t size =
        co_await socket.async_receive(net::asio::buffer(buffer), net::asio::use_awaitable);
    buffer.resize(size);
    size_ = size;
    co_return wire::read_dns(buffer);
  }
  net::Task<wire::DnsRead> exchange(std::string message) {
    net::asio::ip::udp::socket socket(io_, net::asio::ip::udp::v4());
    send(socket, message);
    co_return co_await receive(socket);
  }
  wire::DnsRead ask(const std::string& message) {
    wire::DnsRead got;
    run([&]() -> net::Task<void> { got = co_await exchange(message); });
    return got;
  }
  net::Task<std::unique_ptr<net::ByteStream>> connect() {
    net::asio::ip::tcp::socket socket(io_);
    co_await socket.async_connect(tcp_at_, net::asio::use_awaitable);
    co_return net::make_tcp_stream(std::move(socket));
  }
  net::Task<wire::DnsRead> read_stream(net::ByteStream& stream) {
    while (rest_.size() < 2 || rest_.size() < 2UL + get_u16(rest_.data())) {
      auto more = co_await stream.read(soon());
      if (!more || more->empty()) co_return wire::DnsRead{.rcode = -1};
      rest_ += *more;
    }
    const std::size_t size = get_u16(rest_.data());
    const std::string message = rest_.substr(2, size);
    rest_.erase(0, 2 + size);
    co_return wire::read_dns(message);
  }
  // Everything that can be done without waiting.
  void settle() {
    while (io_.poll() > 0) {
    }
  }

  FakeUpstream upstream_{io_.get_executor()};
  std::set<std::string> allowed_;
  std::vector<PinRequest> pins_;
  bool pin_held_ = false;
  bool pin_fails_ = false;
  net::Event pin_changed_{io_.get_executor()};
  std::vector<NameEvent> events_;
  std::unique_ptr<Resolver> resolver_;
  net::asio::ip::udp::endpoint udp_at_;
  net::asio::ip::tcp::endpoint tcp_at_;
  std::size_t size_ = 0;
  std::string rest_;  // of a stream, behind the answer that was read
};

}  // namespace firebreak::egress
