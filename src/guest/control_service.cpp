#include "guest/control_service.h"

#include <cerrno>

#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/log.h"
#include "guest/sock_destroy.h"

namespace firebreak::guest {
namespace {

using namespace std::chrono_literals;

constexpr auto kFreezeDeadline = 5s;
constexpr auto kPowerOffDelay = 20ms;  // the answer leaves first

Result<std::vector<std::byte>> read_entropy(const std::string& hex) {
  auto bytes = from_hex(hex);
  if (!bytes) return fail(Code::invalid, "entropy must be hex digits");
  return *std::move(bytes);
}

// Member "metadata", where a body has one.
Result<std::optional<Metadata::Values>> read_metadata(JsonReader& reader) {
  const json::object* given = reader.object("metadata", false);
  if (given == nullptr) return std::nullopt;
  FB_TRY_ASSIGN(auto values, Metadata::parse(*given));
  return values;
}

}  // namespace

ControlService::ControlService(Reactor& reactor, DataSide& data, TenantState& state,
                               Metadata& metadata, MetadataServer& metadata_server,
                               std::unique_ptr<Identity> identity)
    : reactor_(reactor),
      data_(data),
      state_(state),
      metadata_(metadata),
      metadata_server_(metadata_server),
      identity_(std::move(identity)) {}

std::unique_ptr<StreamHandler> ControlService::open(const Request& request,
                                                    const std::shared_ptr<Exchange>& exchange) {
  const auto answer = [exchange](const Result<json::object>& result) {
    if (!result) return exchange->error(result.error());
    exchange->json(200, *result);
  };
  const auto call = [&](auto method) {
    return json_call(exchange,
                     [answer, method](const json::object& body) { answer(method(body)); });
  };
  if (request.method == "GET") {
    if (request.path == "/health")
      answer(health());
    else if (request.path == "/resources")
      answer(resources());
    else
      exchange->error({Code::not_found, "no such operation", {}});
    return nullptr;
  }
  if (request.method == "POST") {
    if (request.path == "/wake") return call([this](const auto& body) { return wake(body); });
    if (request.path == "/freeze") return call([this](const auto& body) { return freeze(body); });
    if (request.path == "/thaw") return call([this](const auto& body) { return thaw(body); });
    if (request.path == "/fsfreeze") return call([this](const auto&) { return fs_freeze(true); });
    if (request.path == "/fsthaw") return call([this](const auto&) { return fs_freeze(false); });
    if (request.path == "/network") return call([this](const auto& body) { return network(body); });
    if (request.path == "/egress") return call([this](const auto& body) { return egress(body); });
    if (request.path == "/metadata")
      return call([this](const auto& body) { return set_metadata(body); });
    if (request.path == "/tenant") {
      return json_call(exchange,
                       [this, exchange](const auto& body) { create_tenant(body, exchange); });
    }
    if (request.path == "/rehearse")
      return call([this](const auto& body) { return rehearse(body); });
    if (request.path == "/poweroff") {
      return json_call(exchange, [this, exchange](const auto&) { power_off(*exchange); });
    }
  }
  exchange->error({Code::not_found, "no such operation", {}});
  return nullptr;
}

json::object ControlService::health() const {
  const auto uptime = Reactor::Clock::now() - started_;
  const std::string_view phase = to_string(state_.phase());
  return {{"protocol", kProtocolVersion},
          {"agent", FIREBREAK_VERSION},
          {"pid", ::getpid()},
          {"uptime_ms", std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()},
          {"tenant", json::string_view(phase.data(), phase.size())},
          {"generation", state_.generation()},
          {"app", state_.app()}};
}

void ControlService::create_tenant(const json::object& body,
                                   const std::shared_ptr<Exchange>& exchange) {
  auto spec = parse_tenant_spec(body);
  if (spec && identity_) {
    if (auto fresh = set_birth(body); !fresh) return exchange->error(fresh.error());
    // Before it exists, so that its mounts show the files filled in; the kernel's name is set by
    // PID 1 itself.
    if (auto named = identity_->set_hostname(spec->hostname, false); !named)
      return exchange->error(named.error());
    if (auto set = identity_->set_resolver(spec->network); !set)
      return exchange->error(set.error());
    network_ = spec->network;
  }
  if (!spec) return exchange->error(spec.error());
  data_.create_tenant(*std::move(spec), reactor_, [this, exchange](Result<TenantHandles> made) {
    tenant_made(std::move(made), *exchange);
  });
}

// The kernel may have been frozen long ago, and copied: clock, random numbers and identity are new
// before there is a tenant.
Result<> ControlService::set_birth(const json::object& body) {
  JsonReader reader(body);
  const std::int64_t realtime = reader.has("realtime_ns") ? reader.i64("realtime_ns") : 0;
  const std::string entropy = reader.string_or("entropy", "");
  const std::string machine_id = reader.string_or("machine_id", "");
  FB_TRY(reader.result());
  if (realtime != 0) FB_TRY(identity_->set_clock(realtime));
  if (!machine_id.empty()) FB_TRY(identity_->set_machine_id(machine_id));
  if (entropy.empty()) return {};
  FB_TRY_ASSIGN(const auto seed, read_entropy(entropy));
  return identity_->add_entropy(seed);
}

void ControlService::tenant_made(Result<TenantHandles> made, Exchange& exchange) {
  if (!made) {
    log("making the tenant failed: " + made.error().text());
    return exchange.error(made.error());
  }
  // From now on sethostname() of this thread is the tenant's.
  if (made->pidfd && ::setns(made->pidfd.get(), CLONE_NEWUTS) != 0)
    return exchange.error(fail_errno("join the tenant's host name").error());
  tenant_ = *std::move(made);
  if (tenant_->cgroup) {
    auto guard = ThrashGuard::start(reactor_, tenant_->cgroup->fd());
    if (!guard) return exchange.error(guard.error());
    thrash_guard_ = *std::move(guard);
  }
  if (tenant_->metadata) metadata_server_.serve(std::move(tenant_->metadata->socket));
  exchange.json(200, {{"pid", tenant_->pid}});
}

Result<json::object> ControlService::wake(const json::object& body) {
  FB_TRY(become(body, Thawed::tenant));
  return json::object{{"metadata", true}};
}

Result<> ControlService::become(const json::object& body, Thawed thawed) {
  JsonReader reader(body);
  const std::int64_t realtime = reader.i64("realtime_ns");
  const std::string entropy = reader.string("entropy");
  const std::string hostname = reader.string("hostname");
  const std::string machine_id = reader.string("machine_id");
  const std::uint64_t generation = reader.u64("generation");
  const bool has_network = reader.has("network");
  const bool network = has_network && reader.boolean_or("network", false);
  const bool thaw_after = reader.boolean_or("thaw", true);
  FB_TRY_ASSIGN(auto metadata, read_metadata(reader));
  FB_TRY(reader.result());
  if (!tenant_ || !tenant_->freezer || state_.phase() != Phase::frozen)
    return fail(Code::conflict, "the tenant is not frozen");
  FB_TRY_ASSIGN(const auto seed, read_entropy(entropy));
  FB_TRY(identity_->set_clock(realtime));
  FB_TRY(identity_->add_entropy(seed));
  FB_TRY(identity_->set_hostname(hostname));
  FB_TRY(identity_->set_machine_id(machine_id));
  if (has_network) FB_TRY(set_network(network));
  state_.set_generation(generation);
  if (thawed == Thawed::tenant) data_.reseed_contexts();
  if (thawed == Thawed::tenant && metadata) metadata_.set(*std::move(metadata));
  if (!thaw_after) return {};
  const std::unique_lock gate(state_.gate(), kFreezeDeadline);
  if (!gate.owns_lock()) return fail(Code::timeout, "a process is being started");
  FB_TRY((thawed == Thawed::tenant ? tenant_->freezer : tenant_->shadow)->thaw());
  if (thawed == Thawed::tenant) {
    state_.thawed();
    metadata_.release();
  }
  return {};
}

Result<json::object> ControlService::network(const json::object& body) {
  JsonReader reader(body);
  const bool network = reader.boolean_or("network", false);
  if (!reader.has("network")) reader.reject("network", "is missing");
  FB_TRY(reader.result());
  if (!tenant_ || !tenant_->card) return fail(Code::conflict, "there is no tenant");
  FB_TRY(set_network(network));
  return json::object();
}

Result<json::object> ControlService::egress(const json::object& body) {
  JsonReader reader(body);
  const std::string summary = reader.string("summary");
  FB_TRY(reader.result());
  if (!identity_) return fail(Code::conflict, "this agent has no machine");
  FB_TRY(identity_->set_egress_summary(summary));
  return json::object();
}

// A frozen tenant's memory may be on its way to the disk: what belongs there comes with the wake.
Result<json::object> ControlService::set_metadata(const json::object& body) {
  JsonReader reader(body);
  if (!reader.has("metadata")) reader.reject("metadata", "is missing");
  FB_TRY_ASSIGN(auto metadata, read_metadata(reader));
  FB_TRY(reader.result());
  if (state_.phase() != Phase::running) return fail(Code::conflict, "the tenant does not run");
  metadata_.set(*std::move(metadata));
  return json::object();
}

Result<> ControlService::set_network(bool network) {
  if (network == network_) return {};
  FB_TRY(network ? tenant_->card->give() : tenant_->card->take());
  FB_TRY(identity_->set_resolver(network));
  network_ = network;
  return {};
}

Result<json::object> ControlService::freeze(const json::object& body) {
  JsonReader reader(body);
  const bool destroy = reader.boolean_or("destroy_sockets", false);
  const bool sync = reader.boolean_or("sync", false);
  FB_TRY(reader.result());
  if (!tenant_ || !tenant_->freezer) return fail(Code::conflict, "there is no tenant to freeze");
  const Deadline deadline = Deadline::in(kFreezeDeadline);
  const std::unique_lock gate(state_.gate(), deadline.at());
  if (!gate.owns_lock()) return fail(Code::timeout, "a process is being started");
  if (state_.phase() == Phase::exited) return fail(Code::conflict, "the tenant has exited");
  FB_TRY(tenant_->freezer->freeze(deadline));
  state_.frozen();
  metadata_.hold();
  // After the freeze: no new connection can appear, and the kernel needs no help of the owners to
  // end the old ones.
  std::uint64_t destroyed = 0;
  if (destroy) {
    FB_TRY_ASSIGN(destroyed, destroy_outside_sockets(tenant_->sock_diag.get()));
  }
  if (sync && ::syncfs(tenant_->disk.get()) != 0) return fail_errno("sync");
  return json::object{{"sockets_destroyed", destroyed}};
}

Result<json::object> ControlService::thaw(const json::object& body) {
  JsonReader reader(body);
  const bool timed = reader.has("realtime_ns");
  const std::int64_t realtime = timed ? reader.i64("realtime_ns") : 0;
  FB_TRY_ASSIGN(auto metadata, read_metadata(reader));
  FB_TRY(reader.result());
  if (!tenant_ || !tenant_->freezer) return fail(Code::conflict, "there is no tenant to thaw");
  if (timed) FB_TRY(identity_->set_clock(realtime));
  if (metadata) metadata_.set(*std::move(metadata));
  const std::unique_lock gate(state_.gate(), kFreezeDeadline);
  if (!gate.owns_lock()) return fail(Code::timeout, "a process is being started");
  FB_TRY(tenant_->freezer->thaw());
  state_.thawed();
  metadata_.release();
  return json::object();
}

Result<json::object> ControlService::rehearse(const json::object& body) {
  if (!tenant_ || !tenant_->freezer || state_.phase() != Phase::frozen)
    return fail(Code::conflict, "the tenant is not frozen");
  // Twice, with a name of another length first: files then grow as well as shrink, and everything
  // is again what it was. But for the network card: where it is wanted it goes out and comes in,
  // and stays with the tenant, who sees it at the wake or, if that takes it away, never.
  const std::string name = identity_->hostname();
  const std::string other = name.size() > 1 ? name.substr(1) : name + name;
  for (const std::string& hostname : {other, name}) {
    FB_TRY(tenant_->shadow->freeze(Deadline::in(kFreezeDeadline)));
    FB_TRY_ASSIGN(const std::int64_t now, realtime_ns());
    json::object same = body;
    if (same.contains("network") && hostname == other) same["network"] = false;
    same["realtime_ns"] = now;
    same["hostname"] = hostname;
    same["machine_id"] = identity_->machine_id();
    same["generation"] = state_.generation();
    same["thaw"] = true;
    FB_TRY(become(same, Thawed::shadow));
  }
  // The way into a suspend as well; it is frozen already, so nothing changes.
  FB_TRY(freeze({{"destroy_sockets", true}, {"sync", true}}));
  return json::object();
}

Result<json::object> ControlService::fs_freeze(bool freeze) {
  if (!tenant_ || !tenant_->disk) return fail(Code::conflict, "there is no root disk");
  if (::ioctl(tenant_->disk.get(), freeze ? FIFREEZE : FITHAW, 0) != 0) {
    if (errno == EBUSY || errno == EINVAL)
      return fail(Code::conflict, freeze ? "the disk is frozen already" : "the disk is not frozen");
    return fail_errno(freeze ? "freeze the disk" : "thaw the disk");
  }
  return json::object();
}

Result<json::object> ControlService::resources() const {
  if (!tenant_ || !tenant_->cgroup) return fail(Code::conflict, "there is no tenant");
  const Cgroup& cgroup = *tenant_->cgroup;
  json::object answer;
  FB_TRY_ASSIGN(answer["cpu_usec"], cgroup.key("cpu.stat", "usage_usec"));
  FB_TRY_ASSIGN(answer["memory_bytes"], cgroup.number("memory.current"));
  if (const auto peak = cgroup.number("memory.peak")) answer["memory_peak_bytes"] = *peak;
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return fail_errno("sysinfo");
  answer["memory_total_bytes"] = std::uint64_t{info.totalram} * info.mem_unit;
  struct statfs disk{};
  if (::fstatfs(tenant_->disk.get(), &disk) != 0) return fail_errno("statfs");
  const auto block = static_cast<std::uint64_t>(disk.f_bsize);
  answer["disk_used_bytes"] = (disk.f_blocks - disk.f_bfree) * block;
  answer["disk_total_bytes"] = disk.f_blocks * block;
  FB_TRY_ASSIGN(answer["pids"], cgroup.number("pids.current"));
  return answer;
}

void ControlService::power_off(Exchange& exchange) {
  if (!identity_) return exchange.error({Code::conflict, "this agent has no machine", {}});
  exchange.json(200, {});
  reactor_.after(kPowerOffDelay, [] {
    ::sync();
    fatal("power off");
  });
}

}  // namespace firebreak::guest
