#include "guest/accept_line.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "guest/sock_diag.h"

namespace firebreak::guest {
namespace {

// A server that accepts one connection after another takes some milliseconds for each.
constexpr std::chrono::milliseconds kLookAgain{2};

}  // namespace

bool has_room(int sock_diag, const ListenerPlace& place, std::uint32_t connecting) {
  DiagMessage question{};
  question.request.sdiag_family = place.v6 ? AF_INET6 : AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = 1U << TCP_LISTEN;
  inet_diag_sockid& id = question.request.id;
  id.idiag_sport = htons(place.port);
  if (place.v6) {
    std::memcpy(id.idiag_src, &in6addr_loopback, sizeof in6addr_loopback);
  } else {
    id.idiag_src[0] = htonl(INADDR_LOOPBACK);
  }
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  std::optional<bool> room;
  const auto look = [&](const inet_diag_msg& listener) {
    // Of a listener: how many wait to be accepted, and how many may. The last place is left to
    // whoever else connects to it.
    if (listener.idiag_state == TCP_LISTEN)
      room = listener.idiag_rqueue + connecting < std::max(listener.idiag_wqueue, 1U);
  };
  // With an acknowledgement, which ends the answer.
  if (!send_diag(sock_diag, question, SOCK_DIAG_BY_FAMILY, NLM_F_ACK)) return true;
  if (!receive_diag(sock_diag, look)) return true;
  return room.value_or(true);
}

bool AcceptLine::room_at(const ListenerPlace& place) {
  if (!sock_diag_) {
    auto opened = open_sock_diag();
    if (!opened) return true;
    sock_diag_ = *std::move(opened);
  }
  const auto others = connecting_.find(place);
  return has_room(sock_diag_.get(), place, others == connecting_.end() ? 0 : others->second);
}

void AcceptLine::let_go(const ListenerPlace& place, const std::function<void()>& connect) {
  ++connecting_[place];
  connect();
}

void AcceptLine::settled(const ListenerPlace& place) {
  const auto at = connecting_.find(place);
  if (at != connecting_.end() && --at->second == 0) connecting_.erase(at);
}

void AcceptLine::enter(const ListenerPlace& place, std::weak_ptr<int> owner,
                       std::function<void()> connect) {
  const auto line = lines_.find(place);
  if (line == lines_.end() && room_at(place)) return let_go(place, connect);
  lines_[place].push_back({std::move(owner), std::move(connect)});
  look_again();
}

void AcceptLine::look_again() {
  if (timer_ || lines_.empty()) return;
  timer_ = reactor_.after(kLookAgain, [this] {
    timer_ = {};
    advance();
    look_again();
  });
}

void AcceptLine::advance() {
  for (auto at = lines_.begin(); at != lines_.end();) {
    auto& [place, line] = *at;
    while (!line.empty() && (line.front().owner.expired() || room_at(place))) {
      const Waiting next = std::move(line.front());
      line.pop_front();
      if (!next.owner.expired()) let_go(place, next.connect);
    }
    at = line.empty() ? lines_.erase(at) : std::next(at);
  }
}

}  // namespace firebreak::guest
