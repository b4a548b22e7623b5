#include "egress/firewall.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include <fmt/format.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/json.h"
#include "base/sys.h"
#include "egress/meter.h"
#include "egress/netns.h"

namespace firebreak::egress {

namespace {

struct Setting {
  const char* path;
  const char* value;
};
constexpr std::array kSettings{
    // A packet in the middle of a connection that is not known begins none: it is a stray.
    Setting{"/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "0"},
    // Windows are the business of the two ends; we would only break connections over them.
    Setting{"/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal", "1"},
    Setting{"/proc/sys/net/netfilter/nf_conntrack_acct", "1"},
    // All errors but "destination unreachable" keep their rate limit. With it, a guest that tries
    // many things at once would hear of a few denials and wait for the others.
    Setting{"/proc/sys/net/ipv4/icmp_ratemask", "6160"},
    Setting{"/proc/sys/net/ipv6/icmp/ratemask", "0,3-127"},
};

// Inside the namespace: /proc/sys/net is that of the thread that opens it.
Result<> apply_settings() {
  for (const Setting& setting : kSettings) {
    if (!sys::exists(setting.path)) continue;  // a kernel without IPv6, or without accounting
    FB_TRY(sys::write_file(setting.path, setting.value));
  }
  return {};
}

// The kernel's clock is another one, and gets times rounded up: it may have a pin longer than we.
constexpr core::Seconds kKernelLag{60};

std::uint32_t random_generation() {
  std::uint32_t value = 0;
  while (value == 0) sys::random_bytes(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

struct CounterValue {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
};

// {"nftables":[{"metainfo":..},{"counter":{"table":"egress","name":"out","packets":1,"bytes":2}}]}
Result<std::optional<CounterValue>> find_counter(const json::array& listed, std::string_view table,
                                                 std::string_view name) {
  for (const json::value& entry : listed) {
    if (!entry.is_object()) continue;
    JsonReader outer(entry.as_object());
    const json::object* counter = outer.object("counter", false);
    if (counter == nullptr) continue;
    JsonReader reader(*counter);
    if (reader.string("table") != table || reader.string("name") != name) continue;
    const CounterValue value{reader.u64("packets"), reader.u64("bytes")};
    FB_TRY(reader.result());
    return value;
  }
  return std::nullopt;
}

// [{"elem":{"val":"192.0.2.1","expires":59}},3]
Result<core::EgressPin> read_pin(const json::value& value, core::Time now) {
  const auto foreign = [] {
    return fail(Code::internal, "a listing of pins has a form that is not known");
  };
  if (!value.is_array() || value.as_array().size() != 2) return foreign();
  const json::value& key = value.as_array()[0];
  const json::value& rule = value.as_array()[1];
  if (!key.is_object() || !rule.is_int64()) return foreign();
  JsonReader outer(key.as_object());
  const json::object* element = outer.object("elem", true);
  FB_TRY(outer.result());
  JsonReader reader(*element);
  const std::optional<core::IpAddress> address = core::parse_address(reader.string("val"));
  const core::Seconds left(reader.u64("expires"));
  FB_TRY(reader.result());
  if (!address) return foreign();
  return core::EgressPin{.rule = static_cast<std::uint32_t>(rule.as_int64()),
                         .address = *address,
                         .expires = now + left};
}

// {"nftables":[..,{"map":{"elem":[[{"elem":{"val":"192.0.2.1","expires":59}},3]]}}]}
Result<> read_pins(const json::object& listing, core::EgressLayer layer, core::Time now,
                   core::EgressPins& pins) {
  JsonReader top(listing);
  const json::array* listed = top.array("nftables", true);
  FB_TRY(top.result());
  for (const json::value& entry : *listed) {
    const json::object* map = nullptr;
    if (entry.is_object()) map = JsonReader(entry.as_object()).object("map", false);
    const json::array* elements = map == nullptr ? nullptr : JsonReader(*map).array("elem", false);
    if (elements == nullptr) continue;
    for (const json::value& element : *elements) {
      FB_TRY_ASSIGN(core::EgressPin pin, read_pin(element, now));
      pin.layer = layer;
      pins.add(pin);
    }
  }
  return {};
}

timeval kernel_timeout() {
  return {.tv_sec = 5, .tv_usec = 0};
}

// A delete without a tuple is a flush.
Result<> flush_connections() {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd) return fail_errno("opening a netlink socket");
  const timeval timeout = kernel_timeout();
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  struct {
    nlmsghdr header;
    nfgenmsg body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  request.body.nfgen_family = AF_UNSPEC;
  request.body.version = NFNETLINK_V0;
  if (::send(fd.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return fail_errno("asking to forget connections");
  }
  struct {
    nlmsghdr header;
    nlmsgerr error;
    std::array<char, 256> more;
  } answer{};
  const ssize_t size = ::recv(fd.get(), &answer, sizeof answer, 0);
  if (size < 0) return fail_errno("forgetting connections");
  if (static_cast<std::size_t>(size) < sizeof(nlmsghdr) + sizeof(nlmsgerr) ||
      answer.header.nlmsg_type != NLMSG_ERROR) {
    return fail(Code::internal, "the kernel did not acknowledge that connections are forgotten");
  }
  if (answer.error.error != 0) return fail_errno("forgetting connections", -answer.error.error);
  return {};
}

}  // namespace

Result<std::unique_ptr<Firewall>> Firewall::open(int netns, const core::Clock& clock) {
  FB_TRY_ASSIGN(UniqueFd own, sys::dup(netns));
  if (auto ok = in_namespace(own.get(), apply_settings); !ok) {
    return fail(std::move(ok).error(), "preparing a network namespace");
  }
  return std::unique_ptr<Firewall>(new Firewall(std::move(own), clock));
}

Result<> Firewall::load(const core::EgressStack& stack, const Wiring& wiring,
                        const core::EgressPins& pins, const Counters& before) {
  const std::lock_guard lock(mutex_);
  return replace({.stack = stack, .wiring = wiring, .pins = pins}, before);
}

Result<> Firewall::load_closed(const core::EgressStack& stack, const Wiring& wiring) {
  const std::lock_guard lock(mutex_);
  return replace({.stack = stack, .wiring = wiring, .gate_closed = true}, {});
}

Result<> Firewall::replace(RulesetInput input, const Counters& before) {
  FB_TRY_ASSIGN(const std::optional<Counted> counted, read_counters());
  const MeterInput meter = meter_input(input.stack, input.wiring);
  const bool keep_meter = counted && metered_ == meter;
  const Counters counters = counted ? counted->total : before;
  input.generation = random_generation();
  input.now = clock_.now();
  input.pins.expire(input.now);
  input.denied_packets = counters.denied_packets - (keep_meter ? counted->capped : 0);
  FB_TRY_ASSIGN(Ruleset ruleset, compile(input));
  const std::string metering = keep_meter ? "" : meter_script(meter, counters);
  if (auto ok = nft_.run(ruleset.script + metering); !ok) {
    return fail(std::move(ok).error(), "loading network rules");
  }
  loaded_ = std::move(ruleset);
  metered_ = meter;
  pins_ = std::move(input.pins);
  return {};
}

Result<> Firewall::open_gate() {
  const std::lock_guard lock(mutex_);
  if (!loaded_) return fail(Code::conflict, "no network rules are loaded");
  if (auto ok = nft_.run(open_gate_script()); !ok) {
    return fail(std::move(ok).error(), "opening the network");
  }
  return {};
}

Result<> Firewall::adopt(const core::EgressStack& stack, const Wiring& wiring) {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const std::optional<Counted> counted, read_counters());
  if (!counted) return fail(Code::not_found, "no network rules are loaded");
  const std::string own = identity_chain(stack);
  if (const auto found = nft_.list(fmt::format("list chain inet {} {}", kTable, own)); !found)
    return fail(Code::not_found, "other network rules are loaded", found.error().text());
  const core::Time now = clock_.now();
  FB_TRY_ASSIGN(Ruleset ruleset, compile({.stack = stack, .wiring = wiring, .now = now}));
  core::EgressPins pins;
  for (const PinGroup& group : ruleset.groups) {
    for (const bool v6 : {false, true}) {
      const auto text = nft_.list(fmt::format("list map inet {} {}", kTable, group.map(v6)));
      if (!text)
        return fail(Code::not_found, "other network rules are loaded", text.error().text());
      FB_TRY_ASSIGN(const json::object listing, parse_json_object(*text));
      FB_TRY(read_pins(listing, group.layer, now, pins));
    }
  }
  loaded_ = std::move(ruleset);
  metered_ = meter_input(stack, wiring);
  pins_ = std::move(pins);
  return {};
}

Result<> Firewall::drop_all() {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const std::optional<Counted> counted, read_counters());
  const std::uint64_t denied =
      counted ? counted->total.denied_packets - counted->capped : std::uint64_t{0};
  if (auto ok = nft_.run(drop_all_ruleset(denied)); !ok) {
    return fail(std::move(ok).error(), "closing the network");
  }
  loaded_.reset();
  pins_.clear();
  return {};
}

Result<> Firewall::add_pins(const std::vector<core::EgressPin>& pins) {
  const std::lock_guard lock(mutex_);
  if (!loaded_) return fail(Code::conflict, "no network rules are loaded");
  const core::Time now = clock_.now();
  core::EgressPins next = pins_;
  for (const core::EgressPin& pin : pins) next.add(pin);
  const std::string script = add_pins_script(*loaded_, pins_, next, pins, now);
  if (!script.empty() && !nft_.run(script)) {
    // The kernel has something else than we think. Start anew from what we know.
    const std::string all = add_pins_script(*loaded_, {}, next, next.all(), now);
    if (auto ok = nft_.run(flush_pins_script(*loaded_) + all); !ok) {
      return fail(std::move(ok).error(), "opening resolved addresses");
    }
  }
  next.expire(now - kKernelLag);
  pins_ = std::move(next);
  return {};
}

Result<> Firewall::flush_pins() {
  const std::lock_guard lock(mutex_);
  if (!loaded_) return fail(Code::conflict, "no network rules are loaded");
  if (!loaded_->groups.empty()) FB_TRY(nft_.run(flush_pins_script(*loaded_)));
  pins_.clear();
  return {};
}

core::EgressPins Firewall::pins() {
  const std::lock_guard lock(mutex_);
  return pins_;
}

Result<Counters> Firewall::counters() {
  const std::lock_guard lock(mutex_);
  FB_TRY_ASSIGN(const std::optional<Counted> counted, read_counters());
  if (!counted) return fail(Code::not_found, "no network rules are loaded");
  return counted->total;
}

Result<std::optional<Firewall::Counted>> Firewall::read_counters() {
  FB_TRY_ASSIGN(const std::string text, nft_.list("list counters"));
  FB_TRY_ASSIGN(const json::object object, parse_json_object(text));
  JsonReader reader(object);
  const json::array* listed = reader.array("nftables", true);
  FB_TRY(reader.result());
  FB_TRY_ASSIGN(const auto out, find_counter(*listed, kMeterTable, "out"));
  FB_TRY_ASSIGN(const auto in, find_counter(*listed, kMeterTable, "in"));
  FB_TRY_ASSIGN(const auto capped, find_counter(*listed, kMeterTable, "capped"));
  FB_TRY_ASSIGN(const auto denied, find_counter(*listed, kTable, "denied"));
  if (!out || !in || !capped || !denied) return std::nullopt;
  return Counted{{.bytes_out = out->bytes,
                  .packets_out = out->packets,
                  .bytes_in = in->bytes,
                  .packets_in = in->packets,
                  .denied_packets = denied->packets + capped->packets},
                 capped->packets};
}

Result<> Firewall::forget_connections() const {
  return in_namespace(netns_.get(), flush_connections);
}

}  // namespace firebreak::egress
