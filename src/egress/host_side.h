// The host's side of all namespaces: forwarding, one nftables table, and one link per namespace,
// whose alias is the machine's id. Links carry a tag made from the data directory, so that servers
// on one host do not meet. Owned by Networks; blocking; any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/links.h"
#include "base/result.h"
#include "core/address.h"

namespace firebreak::egress {

// Some kernels are started without it (ipv6.disable=1).
bool host_has_ipv6();

class HostSide {
 public:
  // Loads the table and switches forwarding on; finds the links an earlier server left. Code::
  // unavailable, with the repair, where the host cannot (no nftables, no rights).
  // Without `ipv6` the networks have none.
  static Result<std::unique_ptr<HostSide>> open(const std::string& data_dir, bool ipv6);

  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  // A link into the namespace, as kUplink there; its slot.
  Result<std::uint32_t> join(const std::string& id, int netns);
  // Removes the link of that machine; none is fine.
  Result<> leave(const std::string& id);
  // Addresses of the host itself, with their networks.
  Result<std::vector<InterfaceAddress>> addresses();
  bool ipv6() const { return ipv6_; }

 private:
  HostSide(std::string tag, bool ipv6, Links links)
      : tag_(std::move(tag)), ipv6_(ipv6), links_(std::move(links)) {}
  Result<> set_up_host();
  std::string link_name(std::uint32_t slot) const;

  std::string tag_;  // begins the name of every link, "fb1a2b-"
  const bool ipv6_;
  std::mutex mutex_;
  Links links_;
  std::set<std::uint32_t> used_;
};

// What no policy opens on a host with these addresses: other microVMs, the host itself, and the
// networks on its links, where they would pass for the internet. A network of private addresses on
// a link is opened by a rule for it, as any private network is.
std::vector<core::Cidr> off_limits(const std::vector<InterfaceAddress>& host);

// Machines that have a link, for a look without a server.
Result<std::vector<std::string>> joined_machines(const std::string& data_dir);
Result<> remove_link_of(const std::string& data_dir, const std::string& id);
// The table, when no link needs it any more; none is fine.
Result<> remove_host_table(const std::string& data_dir);

}  // namespace firebreak::egress
