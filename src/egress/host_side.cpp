#include "egress/host_side.h"

#include <algorithm>
#include <array>
#include <memory>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/sys.h"
#include "base/text.h"
#include "egress/nft.h"
#include "egress/plan.h"
#include "wire/crypto.h"

namespace firebreak::egress {
namespace {

// What a namespace's own rules let out is still kept from the host's ports, from other namespaces,
// and from coming back unasked.
std::string table_name(const std::string& tag) {
  std::string table = "firebreak_" + tag;
  std::erase(table, '-');
  return table;
}

std::string host_table(const std::string& tag) {
  return fmt::format(R"(add table inet {0}
delete table inet {0}
table inet {0} {{
  chain input {{
    type filter hook input priority -150; policy accept;
    iifname "{1}*" icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
    iifname "{1}*" reject with icmpx admin-prohibited
  }}
  chain forward {{
    type filter hook forward priority -150; policy accept;
    iifname "{1}*" oifname "{1}*" reject with icmpx admin-prohibited
    iifname "{1}*" ip saddr != {2} drop
    iifname "{1}*" ip6 saddr != {3} drop
    oifname "{1}*" ct state established,related accept
    oifname "{1}*" drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {2} masquerade
    ip6 saddr {3} masquerade
  }}
}}
)",
                     table_name(tag), tag, kBlock4, kBlock6);
}

std::string tag_of(const std::string& data_dir) {
  return "fb" + wire::sha256_hex(data_dir).substr(0, 4) + "-";
}

Result<std::vector<Link>> tagged(const Links& links, const std::string& tag) {
  FB_TRY_ASSIGN(std::vector<Link> found, links.list());
  std::erase_if(found, [&tag](const Link& link) { return !link.name.starts_with(tag); });
  return found;
}

// The machine's id, or the link's own name when a crash came between making and naming it.
const std::string& owner_of(const Link& link) {
  return link.alias.empty() ? link.name : link.alias;
}

std::optional<std::uint32_t> slot_of(const Link& link, const std::string& tag) {
  const auto slot = parse_u64(link.name.substr(tag.size()));
  if (!slot || *slot >= kSlots) return std::nullopt;
  return static_cast<std::uint32_t>(*slot);
}

Uplink pair_of(int family, const char* block, std::uint32_t slot) {
  std::array<std::uint8_t, 16> bytes{};
  const std::string base(block, std::string_view(block).find('/'));
  ::inet_pton(family, base.c_str(), bytes.data());
  const std::size_t size = family == AF_INET ? 4 : 16;
  const std::uint32_t offset = slot * 2;
  bytes[size - 2] = static_cast<std::uint8_t>(bytes[size - 2] + (offset >> 8));
  bytes[size - 1] = static_cast<std::uint8_t>(bytes[size - 1] + (offset & 0xff));
  Uplink pair;
  char text[INET6_ADDRSTRLEN];
  pair.host = ::inet_ntop(family, bytes.data(), text, sizeof text);
  bytes[size - 1] |= 1;
  pair.inside = ::inet_ntop(family, bytes.data(), text, sizeof text);
  return pair;
}

// Where it is on already, nobody needs the right to write it.
Result<> switch_on(const char* path) {
  if (const auto value = sys::read_file(path); value && value->starts_with('1')) return {};
  return sys::write_file(path, "1");
}

core::Cidr network_of(core::IpAddress address, int prefix) {
  for (std::size_t i = 0; i < address.bytes.size(); ++i) {
    const int kept = std::clamp(prefix - static_cast<int>(i) * 8, 0, 8);
    address.bytes[i] &= static_cast<std::uint8_t>(0xff00U >> kept);
  }
  return {address, static_cast<std::uint8_t>(prefix)};
}

}  // namespace

Uplink uplink4(std::uint32_t slot) {
  return pair_of(AF_INET, kBlock4, slot);
}

Uplink uplink6(std::uint32_t slot) {
  return pair_of(AF_INET6, kBlock6, slot);
}

std::string HostSide::link_name(std::uint32_t slot) const {
  return tag_ + std::to_string(slot);
}

bool host_has_ipv6() {
  return static_cast<bool>(UniqueFd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
}

Result<std::unique_ptr<HostSide>> HostSide::open(const std::string& data_dir, bool ipv6) {
  FB_TRY_ASSIGN(Links links, Links::open());
  const std::string tag = tag_of(data_dir);
  std::unique_ptr<HostSide> side(new HostSide(tag, ipv6, std::move(links)));
  FB_TRY(side->set_up_host());
  FB_TRY_ASSIGN(const std::vector<Link> left, tagged(side->links_, tag));
  for (const Link& link : left) {
    if (const auto slot = slot_of(link, tag)) side->used_.insert(*slot);
  }
  return side;
}

Result<> HostSide::set_up_host() {
  FB_TRY_ASSIGN(const UniqueFd here, sys::open("/proc/thread-self/ns/net", O_RDONLY));
  if (auto loaded = NftRunner(here.get()).run(host_table(tag_)); !loaded) {
    Error error = fail(Code::unavailable, "the host's nftables rules cannot be loaded",
                       Repair{"networks of microVMs need nftables in the kernel and CAP_NET_ADMIN: "
                              "see firebreak doctor"})
                      .error();
    error.detail = loaded.error().text();
    return std::unexpected(std::move(error));
  }
  if (auto on = switch_on("/proc/sys/net/ipv4/ip_forward"); !on)
    return fail(Code::unavailable,
                "forwarding cannot be switched on (net.ipv4.ip_forward): see firebreak doctor",
                on.error().text());
  // Where it cannot be switched on, microVMs reach no IPv6 address.
  if (ipv6_) (void)switch_on("/proc/sys/net/ipv6/conf/all/forwarding");
  return {};
}

Result<std::uint32_t> HostSide::join(const std::string& id, int netns) {
  const std::scoped_lock lock(mutex_);
  // Servers of other data directories take theirs from the same block.
  FB_TRY_ASSIGN(std::vector<std::string> taken, links_.addresses());
  std::uint32_t slot = 0;
  for (;; ++slot) {
    while (used_.contains(slot) || std::ranges::count(taken, uplink4(slot).host) != 0) ++slot;
    if (slot >= kSlots) return fail(Code::exhausted, "this host has no room for more networks");
    FB_TRY(links_.add_veth(link_name(slot), id, netns, kUplink));
    used_.insert(slot);
    FB_TRY(links_.add_address(link_name(slot), {uplink4(slot).host, 31}));
    FB_TRY_ASSIGN(taken, links_.addresses());
    if (std::ranges::count(taken, uplink4(slot).host) == 1) break;
    // Another server took it in the same moment.
    FB_TRY(links_.remove(link_name(slot)));
    used_.erase(slot);
  }
  const std::string name = link_name(slot);
  // A link may be denied it (net.ipv6.conf.default.disable_ipv6): its microVM gets no further.
  if (ipv6_) (void)links_.add_address(name, {uplink6(slot).host, 127});
  FB_TRY(links_.set_up(name));
  return slot;
}

Result<> HostSide::leave(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  FB_TRY_ASSIGN(const std::vector<Link> links, tagged(links_, tag_));
  for (const Link& link : links) {
    if (owner_of(link) != id) continue;
    FB_TRY(links_.remove(link.name));
    if (const auto slot = slot_of(link, tag_)) used_.erase(*slot);
  }
  return {};
}

Result<std::vector<InterfaceAddress>> HostSide::addresses() {
  const std::scoped_lock lock(mutex_);
  return links_.interface_addresses();
}

std::vector<core::Cidr> off_limits(const std::vector<InterfaceAddress>& host) {
  std::vector<core::Cidr> blocks;
  for (const char* block : {kBlock4, kBlock6}) blocks.push_back(*core::parse_cidr(block));
  const auto add = [&blocks](const core::Cidr& block) {
    const bool known =
        std::ranges::any_of(blocks, [&](const core::Cidr& other) { return other.contains(block); });
    // Those of the links to namespaces come and go, and are in the blocks or link-local.
    if (!known && core::kind_of(block.base) != core::AddressKind::never) blocks.push_back(block);
  };
  for (const InterfaceAddress& one : host) {
    const auto address = core::parse_address(one.address);
    if (!address) continue;
    const core::Cidr network = network_of(*address, one.prefix);
    if (core::kind_of(network) == core::AddressKind::global) add(network);
    add(network_of(*address, address->bits()));
  }
  return blocks;
}

Result<std::vector<std::string>> joined_machines(const std::string& data_dir) {
  FB_TRY_ASSIGN(const Links links, Links::open());
  FB_TRY_ASSIGN(const std::vector<Link> found, tagged(links, tag_of(data_dir)));
  std::vector<std::string> ids;
  for (const Link& link : found) ids.push_back(owner_of(link));
  return ids;
}

Result<> remove_link_of(const std::string& data_dir, const std::string& id) {
  FB_TRY_ASSIGN(const Links links, Links::open());
  FB_TRY_ASSIGN(const std::vector<Link> found, tagged(links, tag_of(data_dir)));
  for (const Link& link : found) {
    if (owner_of(link) == id) FB_TRY(links.remove(link.name));
  }
  return {};
}

Result<> remove_host_table(const std::string& data_dir) {
  const std::string table = table_name(tag_of(data_dir));
  FB_TRY_ASSIGN(const UniqueFd here, sys::open("/proc/thread-self/ns/net", O_RDONLY));
  return NftRunner(here.get()).run("add table inet " + table + "\ndelete table inet " + table);
}

}  // namespace firebreak::egress
