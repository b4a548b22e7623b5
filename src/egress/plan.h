// How microVMs are wired: the same guest addresses in each, told apart by their namespaces, and one
// pair of uplink addresses per namespace. The guest's part is in src/guest/card.cpp. Constants.
#pragma once

#include <cstdint>
#include <string>

#include "base/links.h"

namespace firebreak::egress {

inline constexpr const char* kTap = "tap0";
inline constexpr const char* kUplink = "up0";
inline constexpr const char* kGuest4 = "10.107.0.2";
inline constexpr const char* kGateway4 = "10.107.0.1";
inline constexpr std::uint8_t kGuestPrefix4 = 30;
inline constexpr const char* kGuest6 = "fd7e:fb::2";
inline constexpr const char* kGateway6 = "fd7e:fb::1";
inline constexpr std::uint8_t kGuestPrefix6 = 126;
inline constexpr Mac kGuestMac{0x52, 0x54, 0x00, 0xfb, 0x00, 0x02};
// The same everywhere, too: a guest that was suspended remembers its neighbour.
inline constexpr Mac kGatewayMac{0x52, 0x54, 0x00, 0xfb, 0x00, 0x01};

// Pairs of addresses between the host and the namespaces; private to this host.
inline constexpr const char* kBlock4 = "100.127.0.0/16";
inline constexpr const char* kBlock6 = "fd7f:fb::/112";
inline constexpr std::uint32_t kSlots = 0x8000;

struct Uplink {
  std::string host;
  std::string inside;
};
Uplink uplink4(std::uint32_t slot);
Uplink uplink6(std::uint32_t slot);

}  // namespace firebreak::egress
