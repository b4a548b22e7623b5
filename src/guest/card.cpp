#include "guest/card.h"

#include <sched.h>

#include "base/sys.h"

namespace firebreak::guest {
namespace {

// The other end of these is in the host's namespace of this microVM (src/egress/plan.h).
constexpr const char* kName = "eth0";
const InterfaceAddress kAddress4{"10.107.0.2", 30};
const InterfaceAddress kAddress6{"fd7e:fb::2", 126};
constexpr const char* kGateway4 = "10.107.0.1";
constexpr const char* kGateway6 = "fd7e:fb::1";

Result<std::uint32_t> find_card(const Links& links) {
  FB_TRY_ASSIGN(const std::vector<Link> found, links.list());
  for (const Link& link : found) {
    if (link.ethernet) return link.index;
  }
  return fail(Code::not_found, "this machine has no network card");
}

}  // namespace

Result<Card::Side> Card::here() {
  FB_TRY_ASSIGN(UniqueFd netns, sys::open("/proc/thread-self/ns/net", O_RDONLY));
  FB_TRY_ASSIGN(Links links, Links::open());
  return Side{std::move(netns), std::move(links)};
}

Result<Card> Card::enter_new_namespace() {
  FB_TRY_ASSIGN(Side outside, here());
  if (::unshare(CLONE_NEWNET) != 0) return fail_errno("making the tenant's network namespace");
  FB_TRY_ASSIGN(Side tenant, here());
  return Card(std::move(outside), std::move(tenant));
}

Result<> Card::give() {
  if (given_) return {};
  FB_TRY_ASSIGN(const std::uint32_t card, find_card(outside_.links));
  FB_TRY(outside_.links.move(card, tenant_.netns.get(), kName));
  given_ = true;
  FB_TRY(tenant_.links.add_address(kName, kAddress4));
  FB_TRY(tenant_.links.add_address(kName, kAddress6));
  FB_TRY(tenant_.links.set_up(kName));
  FB_TRY(tenant_.links.add_default_route(kGateway4, kName));
  return tenant_.links.add_default_route(kGateway6, kName);
}

Result<> Card::take() {
  if (!given_) return {};
  // With all capabilities the tenant can have renamed it, or made links of its own beside it: the
  // card is the one that goes, and a link that was made goes nowhere else.
  FB_TRY_ASSIGN(const std::vector<Link> found, tenant_.links.list());
  for (const Link& link : found) {
    if (link.ethernet) FB_TRY(tenant_.links.move(link.index, outside_.netns.get(), link.name));
  }
  given_ = false;
  return {};
}

}  // namespace firebreak::guest
