// Network devices, addresses and routes by rtnetlink, and tap devices; for the host's side of a
// microVM and for the guest's. One Links object talks to the namespace it was opened in. Blocking,
// but only on the kernel; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

struct nlmsghdr;

namespace firebreak {

using Mac = std::array<std::uint8_t, 6>;

// An address with the length of its network, "10.0.0.1/30" or "fd00::1/64".
struct InterfaceAddress {
  std::string address;
  std::uint8_t prefix = 32;
};

struct Link {
  std::uint32_t index = 0;
  std::string name;
  std::string alias;
  bool ethernet = false;
};

class Links {
 public:
  // Talks to the namespace of the calling thread, from any thread afterwards.
  static Result<Links> open();

  Result<std::vector<Link>> list() const;
  Result<std::uint32_t> index_of(const std::string& name) const;
  // A pair: one end here, the other in `peer_netns` under `peer_name`.
  Result<> add_veth(const std::string& name, const std::string& alias, int peer_netns,
                    const std::string& peer_name) const;
  Result<> remove(const std::string& name) const;
  // The link goes, without its addresses, to another namespace, as `name`.
  Result<> move(std::uint32_t index, int netns, const std::string& name) const;
  Result<> set_up(const std::string& name) const;
  Result<> set_mac(const std::string& name, const Mac& mac) const;
  Result<> add_address(const std::string& name, const InterfaceAddress& address) const;
  Result<> add_default_route(const std::string& via, const std::string& device) const;
  // Fixed, so that nobody on that link can claim the address.
  Result<> add_neighbour(const std::string& device, const std::string& address,
                         const Mac& mac) const;
  // Every address of this namespace but loopback ones.
  Result<std::vector<std::string>> addresses() const;
  // The same with the networks that they are in; one of a link between two has no network.
  Result<std::vector<InterfaceAddress>> interface_addresses() const;

 private:
  explicit Links(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<> request(nlmsghdr* message, const std::string& doing) const;

  UniqueFd socket_;
};

// A tap device in the calling thread's namespace; it lives as long as somebody holds it.
Result<UniqueFd> open_tap(const std::string& name);

}  // namespace firebreak
