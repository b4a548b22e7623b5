#include "egress/networks.h"

#include <algorithm>
#include <filesystem>

#include "base/sys.h"
#include "egress/decision_file.h"
#include "egress/decision_log.h"
#include "egress/given_names.h"
#include "egress/netns.h"
#include "egress/plan.h"
#include "egress/resolver.h"
#include "egress/tls_gate.h"
#include "net/semaphore.h"

namespace firebreak::egress {
namespace {

// A connection is let through by its first packet, and its name comes later.
constexpr core::Seconds kNameMayBeLate{15};
constexpr auto kPrepareDeadline = std::chrono::seconds(30);

std::string netns_directory(const std::string& data_dir) {
  return data_dir + "/netns";
}

bool inside(const core::IpAddress& address, const std::vector<core::Cidr>& blocks) {
  return std::ranges::any_of(blocks,
                             [&](const core::Cidr& block) { return block.contains(address); });
}

// A rule that names this very range.
bool opened_by_block(const core::EgressPolicy& policy, const core::IpAddress& address) {
  return std::ranges::any_of(policy.rules, [&](const core::EgressRule& rule) {
    const auto* block = std::get_if<core::Cidr>(&rule.target);
    return rule.action == core::EgressAction::allow && block != nullptr &&
           block->contains(address) && core::kind_of(*block) == core::kind_of(address);
  });
}

json::object to_json(const Counters& counters) {
  return {{"bytesOut", counters.bytes_out},
          {"packetsOut", counters.packets_out},
          {"bytesIn", counters.bytes_in},
          {"packetsIn", counters.packets_in},
          {"deniedPackets", counters.denied_packets}};
}

// What an earlier run of the machine counted; nothing when it is the first.
Counters read_counters(const std::string& file) {
  Counters counters;
  auto text = sys::read_file(file);
  if (!text) return counters;
  auto object = parse_json_object(*text);
  if (!object) return counters;
  JsonReader reader(*object);
  counters.bytes_out = reader.u64_or("bytesOut", 0);
  counters.packets_out = reader.u64_or("packetsOut", 0);
  counters.bytes_in = reader.u64_or("bytesIn", 0);
  counters.packets_in = reader.u64_or("packetsIn", 0);
  counters.denied_packets = reader.u64_or("deniedPackets", 0);
  return counters;
}

}  // namespace

struct Networks::Service {
  Service(std::string machine, std::shared_ptr<Site> its_site,
          const net::asio::any_io_executor& executor)
      : id(std::move(machine)), site(std::move(its_site)), turn(executor), rules(executor) {}

  std::string id;
  std::shared_ptr<Site> site;
  net::Mutex turn;          // to prepare, admit or dismiss it
  net::Mutex rules;         // pins mean rules of the stack that is loaded, before and after
  core::EgressStack stack;  // that is loaded
  // The same, or one that is being loaded: what is let through by its rules is judged by it.
  core::EgressStack judging;
  // Another policy lets the guest go on where that allows the name, too.
  GivenNames given;
  std::unique_ptr<DecisionLog> log;
  std::uint64_t told_denials = 0;  // as many the guest knows of
  std::unique_ptr<Resolver> resolver;
  std::unique_ptr<TlsGate> tls_gate;  // once a policy has wanted it
  bool admitted = false;              // else nothing was ever let through, or told of
  bool dismissed = false;
};

Networks::Networks(NetworksConfig config, net::asio::any_io_executor executor,
                   net::asio::thread_pool& pool, const core::Clock& clock, obs::Log& log,
                   std::unique_ptr<HostSide> host)
    : config_(std::move(config)),
      executor_(std::move(executor)),
      pool_(pool),
      clock_(clock),
      log_(log),
      host_(std::move(host)) {}

Networks::~Networks() = default;

Result<std::unique_ptr<Networks>> Networks::open(NetworksConfig config,
                                                 net::asio::any_io_executor executor,
                                                 net::asio::thread_pool& pool,
                                                 const core::Clock& clock, obs::Log& log) {
  FB_TRY(sys::mkdirs(netns_directory(config.data_dir), 0700));
  FB_TRY(sys::mkdirs(config.data_dir + "/egress", 0700));
  FB_TRY_ASSIGN(std::unique_ptr<HostSide> host, HostSide::open(config.data_dir, config.ipv6));
  return std::unique_ptr<Networks>(
      new Networks(std::move(config), std::move(executor), pool, clock, log, std::move(host)));
}

// ------------------------------------------------------------------------------ attach and detach

Result<> Networks::attach(const std::string& id, const MakeLink& make_link) {
  core::EgressStack likely{core::internet_egress(), core::internet_egress(), {}};
  if (auto known = add_off_limits(likely); !known) return std::unexpected(known.error());
  auto made = Site::make(pin_path(id), id, *host_, clock_, std::move(likely), make_link);
  if (!made) {
    (void)Site::remove(pin_path(id), id, *host_);
    return fail(made.error(), "making the network of " + id);
  }
  const std::scoped_lock lock(sites_mutex_);
  sites_[id] = *std::move(made);
  return {};
}

Result<> Networks::detach(const std::string& id) {
  {
    const std::scoped_lock lock(sites_mutex_);
    sites_.erase(id);
  }
  return Site::remove(pin_path(id), id, *host_);
}

Result<> Networks::add_off_limits(core::EgressStack& stack) {
  FB_TRY_ASSIGN(const std::vector<InterfaceAddress> host, host_->addresses());
  stack.off_limits = off_limits(host);
  return {};
}

// Of this server, or of the one before it.
net::Task<Result<std::shared_ptr<Site>>> Networks::find_site(std::string id) {
  {
    const std::scoped_lock lock(sites_mutex_);
    if (auto at = sites_.find(id); at != sites_.end()) co_return at->second;
  }
  const std::string pin = pin_path(id);
  auto find = [&]() { return Site::find(pin, *host_, clock_); };
  FB_CO_TRY_ASSIGN(std::shared_ptr<Site> site, co_await net::run_blocking(pool_, find));
  const std::scoped_lock lock(sites_mutex_);
  sites_[id] = site;
  co_return site;
}

// ------------------------------------------------------------------------------------------ admit

net::Task<Result<std::shared_ptr<Networks::Service>>> Networks::service_of(std::string id) {
  FB_CO_TRY_ASSIGN(std::shared_ptr<Site> site, co_await find_site(id));
  std::shared_ptr<Service>& slot = services_[id];
  if (!slot || slot->site != site) slot = std::make_shared<Service>(id, site, executor_);
  co_return slot;
}

net::Task<Result<>> Networks::prepare(std::string id) {
  FB_CO_TRY_ASSIGN(const std::shared_ptr<Service> service, co_await service_of(std::move(id)));
  FB_CO_TRY_ASSIGN(const net::Mutex::Guard turn,
                   co_await service->turn.lock(Deadline::in(kPrepareDeadline)));
  if (!service->log) FB_CO_TRY(open_log(*service));
  if (service->resolver) co_return Result<>();
  co_return co_await serve(service);
}

net::Task<Result<Networks::Admission>> Networks::admit(std::string id, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const std::shared_ptr<Service> service, co_await service_of(std::move(id)));
  FB_CO_TRY_ASSIGN(net::Mutex::Guard turn, co_await service->turn.lock(deadline));
  if (service->dismissed) co_return fail(Code::conflict, "the network was given up meanwhile");
  service->admitted = true;
  co_return Admission(*this, service, std::move(turn));
}

net::Task<Result<std::optional<Networks::Admission>>> Networks::admit_again(std::string id,
                                                                            Deadline deadline) {
  const auto at = services_.find(id);
  if (at == services_.end()) co_return std::nullopt;
  const std::shared_ptr<Service> service = at->second;
  FB_CO_TRY_ASSIGN(net::Mutex::Guard turn, co_await service->turn.lock(deadline));
  // Not before its turn: it may be about to be admitted, by what was read before.
  if (!service->admitted || service->dismissed) co_return std::nullopt;
  co_return Admission(*this, service, std::move(turn));
}

net::Task<Result<>> Networks::decide_by(std::shared_ptr<Service> service, core::EgressStack stack,
                                        Deadline deadline) {
  Result<> loaded = service->log ? Result<>() : open_log(*service);
  if (loaded && core::checks_server_names(stack) && !service->tls_gate)
    loaded = co_await open_tls_gate(service);
  if (loaded) loaded = co_await load(service, std::move(stack), deadline);
  if (loaded && !service->resolver) loaded = co_await serve(service);
  if (loaded) co_return loaded;
  auto close = [&service]() { return service->site->firewall().drop_all(); };
  (void)co_await net::run_blocking(pool_, close);
  co_return fail(loaded.error(), "the egress policy");
}

// Before the rules: what begins earlier is not told of.
Result<> Networks::open_log(Service& service) {
  const Wiring wiring = Site::wiring(host_->ipv6());
  DecisionLogOptions options{.directory = directory(service.id),
                             .guest_addresses = {wiring.guest4},
                             .own_addresses = {wiring.gateway4},
                             .denied = [this, id = service.id] { with_news_.insert(id); },
                             .exceptions = config_.exceptions};
  if (wiring.guest6) options.guest_addresses.push_back(*wiring.guest6);
  if (wiring.gateway6) options.own_addresses.push_back(*wiring.gateway6);
  FB_TRY_ASSIGN(service.log, DecisionLog::open(executor_, clock_, std::move(options)));
  if (service.log->summary().denied() > 0) with_news_.insert(service.id);  // of an earlier server
  FB_TRY_ASSIGN(NetfilterSockets sockets, service.site->netfilter_sockets());
  return service.log->watch(std::move(sockets));
}

net::Task<Result<>> Networks::load(std::shared_ptr<Service> service, core::EgressStack stack,
                                   Deadline deadline) {
  FB_CO_TRY_ASSIGN(const net::Mutex::Guard turn, co_await service->rules.lock(deadline));
  const core::Time now = clock_.now();
  service->given.expire(now);
  const core::EgressPins pins = service->given.pins(stack, now);
  service->judging = stack;
  GivenNames before;
  auto work = [&]() -> Result<> {
    FB_TRY(add_off_limits(stack));
    FB_TRY(service->site->admit(stack, pins, read_counters(counters_path(service->id))));
    // More than was loaded: they were there already, from an earlier server.
    const core::EgressPins open = service->site->firewall().pins();
    if (pins.size() == 0 && open.size() != 0)
      before = GivenNames::restored(DecisionFile(directory(service->id)).read(), open);
    return {};
  };
  FB_CO_TRY(co_await net::run_blocking(pool_, work));
  if (!before.empty()) service->given = std::move(before);
  service->stack = std::move(stack);
  if (service->resolver) service->resolver->policy_changed();
  if (service->tls_gate) service->tls_gate->policy_changed();
  co_return Result<>();
}

// Before the rules that lead connections there.
net::Task<Result<>> Networks::open_tls_gate(std::shared_ptr<Service> service) {
  std::vector<UniqueFd> sockets;
  auto open = [&]() -> Result<> {
    FB_TRY_ASSIGN(sockets, service->site->tls_gate_sockets());
    return {};
  };
  FB_CO_TRY(co_await net::run_blocking(pool_, open));
  Service* self = service.get();  // whose the gate is
  TlsGateHooks hooks;
  hooks.exceptions = config_.exceptions;
  hooks.judge = [this, self](const core::IpAddress& to, const std::string& name) {
    const bool given = self->given.given(name, to, clock_.now() - kNameMayBeLate);
    return judge_server_name(self->judging, to, name, given);
  };
  hooks.socket = [this, site = service->site](bool v6) -> net::Task<Result<UniqueFd>> {
    auto make = [site, v6]() { return site->stream_socket(v6); };
    co_return co_await net::run_blocking(pool_, make);
  };
  hooks.decided = [self](const TlsEvent& event) { self->log->asked(event); };
  FB_CO_TRY_ASSIGN(service->tls_gate,
                   TlsGate::start(executor_, std::move(sockets), std::move(hooks)));
  co_return Result<>();
}

net::Task<Result<>> Networks::serve(std::shared_ptr<Service> service) {
  ResolverSockets sockets;
  auto open = [&]() -> Result<> {
    FB_TRY_ASSIGN(sockets, service->site->resolver_sockets());
    return {};
  };
  FB_CO_TRY(co_await net::run_blocking(pool_, open));
  FB_CO_TRY_ASSIGN(service->resolver,
                   Resolver::start(executor_, std::move(sockets), *config_.upstream,
                                   hooks_for(service), {.ipv6 = host_->ipv6(), .limits = {}}));
  co_return Result<>();
}

ResolverHooks Networks::hooks_for(const std::shared_ptr<Service>& service) {
  // The resolver is the service's: it never outlives it.
  Service* self = service.get();
  ResolverHooks hooks;
  hooks.exceptions = config_.exceptions;
  hooks.decide = [self](const std::string& name) { return judge_name(self->stack, name); };
  hooks.may_pin = [self](const core::IpAddress& at) {
    if (inside(at, self->stack.off_limits)) return false;
    switch (core::kind_of(at)) {
      case core::AddressKind::global:
        return true;
      case core::AddressKind::never:
        return false;
      default:
        return opened_by_block(self->stack.maximum, at) && opened_by_block(self->stack.policy, at);
    }
  };
  hooks.pin = [this, weak = std::weak_ptr(service)](PinRequest pin,
                                                    Deadline deadline) -> net::Task<Result<>> {
    const std::shared_ptr<Service> held = weak.lock();
    if (!held) co_return fail(Code::unavailable, "the network is gone");
    FB_CO_TRY_ASSIGN(const net::Mutex::Guard turn, co_await held->rules.lock(deadline));
    const core::Time expires = clock_.now() + pin.lifetime;
    // Its rules have other numbers when the policy has changed since.
    const core::NameDecision decision = core::decide_name(held->stack, pin.name);
    if (!decision.allowed)
      co_return fail(Code::unavailable, "the policy has changed", Repair{"ask again"});
    const auto pins = core::pins_for(decision, pin.addresses, expires);
    if (pins.empty()) co_return Result<>();
    held->given.add(pin.name, pin.addresses, expires);
    auto add = [&]() { return held->site->firewall().add_pins(pins); };
    co_return co_await net::run_blocking(pool_, add);
  };
  hooks.decided = [self](const NameEvent& event) { self->log->named(event); };
  return hooks;
}

// ---------------------------------------------------------------------------------------- dismiss

net::Task<void> Networks::dismiss(std::string id, Deadline deadline) {
  auto at = services_.find(id);
  if (at == services_.end()) co_return;
  const std::shared_ptr<Service> service = std::move(at->second);
  services_.erase(at);
  const auto turn = co_await service->turn.lock(deadline);
  service->dismissed = true;
  co_await stop_serving(service, deadline);
}

net::Task<void> Networks::stop_serving(std::shared_ptr<Service> service, Deadline deadline) {
  const std::string& id = service->id;
  // While servers can still hear of it.
  if (service->tls_gate) co_await service->tls_gate->close(deadline);
  if (!service->admitted) {
    if (service->resolver) co_await service->resolver->close(deadline);
    service->log.reset();
    (void)sys::remove_tree(directory(id));
    co_return;
  }
  auto count = [&]() -> Result<> {
    FB_TRY_ASSIGN(const Counters counters, service->site->firewall().counters());
    // Their bytes are told of when they end.
    (void)service->site->firewall().forget_connections();
    FB_TRY(sys::mkdirs(directory(id), 0700));
    return sys::swap_file(counters_path(id), json::serialize(to_json(counters)) + "\n");
  };
  (void)co_await net::run_blocking(pool_, count);
  if (service->resolver) co_await service->resolver->close(deadline);
  if (service->log) {
    service->log->unwatch();
    (void)service->log->flush();
  }
}

net::Task<Result<Counters>> Networks::counters(std::string id) {
  auto at = services_.find(id);
  if (at == services_.end()) co_return read_counters(counters_path(id));
  const std::shared_ptr<Service> service = at->second;
  auto count = [&]() { return service->site->firewall().counters(); };
  co_return co_await net::run_blocking(pool_, count);
}

void Networks::forget(core::Seconds older_than,
                      const std::function<bool(const std::string&)>& lives) {
  auto names = sys::list_dir(config_.data_dir + "/egress");
  if (!names) return;
  const auto limit = std::filesystem::file_time_type::clock::now() - older_than;
  for (const std::string& id : *names) {
    std::error_code ec;
    const auto written = std::filesystem::last_write_time(directory(id), ec);
    if (ec || written > limit || lives(id)) continue;
    (void)sys::remove_tree(directory(id));
  }
}

Result<json::object> Networks::log_json(const std::string& id, std::uint64_t limit, bool suggest) {
  DecisionSummary summary;
  if (auto at = services_.find(id); at != services_.end() && at->second->log) {
    FB_TRY(at->second->log->flush());
    summary = at->second->log->summary();
  } else {
    summary = DecisionFile(directory(id)).read_summary();
  }
  json::object answer = summary.to_json();
  json::array decisions;
  for (const Decision& decision : recent_decisions(directory(id), limit, std::nullopt))
    decisions.push_back(to_json(decision));
  answer["decisions"] = std::move(decisions);
  if (suggest) {
    FB_TRY_ASSIGN(const core::EgressPolicy policy, summary.suggestion("suggested"));
    json::object suggested = json::parse(core::to_json(policy)).as_object();
    suggested.erase("name");  // whoever keeps it gives it one
    answer["suggestion"] = std::move(suggested);
  }
  return answer;
}

std::optional<std::string> Networks::news(const std::string& id) {
  with_news_.erase(id);
  auto at = services_.find(id);
  if (at == services_.end() || !at->second->log) return std::nullopt;
  const DecisionSummary& summary = at->second->log->summary();
  if (summary.denied() == std::exchange(at->second->told_denials, summary.denied()))
    return std::nullopt;
  return json::serialize(summary.to_json()) + "\n";
}

// ---------------------------------------------------------------------------- without a server

Result<std::vector<std::string>> found_networks(const std::string& data_dir) {
  FB_TRY_ASSIGN(std::vector<std::string> ids, joined_machines(data_dir));
  auto pins = sys::list_dir(netns_directory(data_dir));
  if (pins) ids.insert(ids.end(), pins->begin(), pins->end());
  std::ranges::sort(ids);
  const auto again = std::ranges::unique(ids);
  ids.erase(again.begin(), again.end());
  return ids;
}

Result<> remove_network(const std::string& data_dir, const std::string& id) {
  FB_TRY(remove_link_of(data_dir, id));
  return remove_namespace(netns_directory(data_dir) + "/" + id);
}

Result<> remove_host_side(const std::string& data_dir) {
  FB_TRY_ASSIGN(const std::vector<std::string> left, found_networks(data_dir));
  if (!left.empty()) return {};
  return remove_host_table(data_dir);
}

}  // namespace firebreak::egress
