#include "server.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/front.h"
#include "api/native/native_api.h"
#include "api/probes.h"
#include "aws_services.h"
#include "base/sys.h"
#include "base/text.h"
#include "control/check.h"
#include "control/counting_outlet.h"
#include "control/images.h"
#include "control/key_ring.h"
#include "control/limits_gate.h"
#include "control/supervisor.h"
#include "control/version_config.h"
#include "egress/host_names.h"
#include "egress/networks.h"
#include "ingress/guest_entrance.h"
#include "ingress/proxy.h"
#include "ingress/token_ring.h"
#include "machine/engines.h"
#include "machine/host_probe.h"
#include "machine/qemu/qemu_engine.h"
#include "net/http_server.h"
#include "net/loop_lag.h"
#include "net/task_group.h"
#include "net/tls_identity.h"
#include "obs/exceptions.h"
#include "server_addresses.h"
#include "server_values.h"
#include "session/guest.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::cli {
namespace {

using net::Task;
namespace asio = net::asio;

constexpr const char* kPythonImage = "python";
constexpr std::uint32_t kPythonMemoryMib = 512;
// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);

// FIREBREAK_FAULT=POINT[:N] ends this process, as a crash would, when the point is reached the N-th
// time: how the tests show that nothing is lost. FIREBREAK_PAUSE stops it there instead, for harm
// that a living server has to cope with.
class FaultPoint {
 public:
  FaultPoint(const char* variable, int signal) : signal_(signal) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return;
    point_ = text;
    if (const auto at = point_.rfind(':'); at != std::string::npos) {
      left_ = static_cast<int>(parse_u64(point_.substr(at + 1)).value_or(1));
      point_.resize(at);
    }
  }
  void reach(std::string_view point) {
    // raise: the thread that is at the point does not go on.
    if (!point_.empty() && point == point_ && --left_ == 0) ::raise(signal_);
  }

 private:
  int signal_;
  std::string point_;
  std::atomic<int> left_ = 1;
};

class Server {
 public:
  Server(const ServerConfig& config, ServerAddresses addresses)
      : config_(config),
        addresses_(std::move(addresses)),
        log_(STDERR_FILENO,
             config.log_format == "json" ? obs::LogFormat::json : obs::LogFormat::text,
             level_of(config.log_level)) {}
  ~Server() { pool_.join(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Result<> run() {
    FB_TRY(open());
    asio::signal_set signals(io_, SIGTERM, SIGINT);
    signals.async_wait([this](boost::system::error_code ec, int) {
      if (!ec) ending_.spawn("stop", stop());
    });
    tasks_.spawn("loop_lag", net::measure_loop_lag(metrics_));
    starting_.spawn("start", begin());
    io_.run();
    ::unlink((config_.data_dir + "/server.json").c_str());
    return outcome_;
  }

 private:
  Result<> open() {
    FB_TRY(sys::mkdirs(config_.data_dir, 0700));
    FB_TRY_ASSIGN(auto store, store::open_sqlite_store(
                                  {.path = config_.data_dir + "/firebreak.db", .vfs = ""}));
    db_ = std::make_unique<store::Database>(io_.get_executor(), std::move(store));
    FB_TRY_ASSIGN(const wire::SealingKey master,
                  control::load_master_key(config_.data_dir + "/master.key"));
    keys_ = std::make_unique<control::KeyRing>(*db_, clock_, master);

    const machine::HostPaths paths{
        .data_dir = config_.data_dir, .guest_dir = config_.guest_dir, .holder = config_.holder};
    const auto choice = machine::choose_accelerator(paths, machine::host_qemu_version(), false,
                                                    Deadline::in(machine::kTrialTime));
    log_.info("accelerator", {{"use", to_string(choice.accelerator)}, {"reason", choice.reason}});
    machine::QemuConfig engine{.data_dir = config_.data_dir,
                               .kernel = paths.kernel(),
                               .initramfs = paths.initramfs(),
                               .holder = paths.holder,
                               .accelerator = choice.accelerator,
                               .uids = {config_.uid_first, config_.uid_count},
                               .cgroup_root = config_.cgroup};
    open_networks();
    engine.networks = networks_.get();
    // For `firebreak check` when no server runs.
    const json::object host{{"cgroup", config_.cgroup},
                            {"initramfs", engine.initramfs},
                            {"uidFirst", config_.uid_first},
                            {"uidCount", config_.uid_count}};
    FB_TRY(sys::replace_file(config_.data_dir + "/host.json", json::serialize(host) + "\n", 0600));
    FB_TRY_ASSIGN(engine_, machine::QemuEngine::create(engine, io_.get_executor(), pool_));
    engine_->host().faults().set(
        [this](std::string_view point) { reach("machine." + std::string(point)); });
    engines_.emplace(*engine_);
    catalogue_ = std::make_unique<image::Catalogue>(*engines_, io_.get_executor(), clock_);
    services_.emplace(control::Services{
        .engines = *engines_,
        .db = *db_,
        .catalogue = *catalogue_,
        .clock = clock_,
        .log = log_,
        .metrics = metrics_,
        .gate = gate_,
        .outlet = outlet_,
        .traffic = control::Traffic(metrics_),
        .executor = io_.get_executor(),
        .pool = pool_,
        .options = options_of(config_),
        .fault = [this](std::string_view point) { reach(point); },
        .app_log = control::AppLog(io_.get_executor(), config_.data_dir + "/logs"),
        .data_dir = config_.data_dir,
        .networks = networks_.get(),
        .keys = keys_.get(),
        .changed = net::Broadcast(io_.get_executor())});
    supervisor_ = std::make_unique<control::Supervisor>(*services_);
    FB_TRY_ASSIGN(auto policies, read_policies(config_.egress_policies));
    supervisor_->egress().set_common(std::move(policies));
    FB_TRY_ASSIGN(const auto roles, read_roles(config_.roles));
    supervisor_->roles().set_common(roles);
    FB_TRY_ASSIGN(const BaseDisks disks, base_disks_of(config_, paths));
    if (auto kept = engine_->keep_bases(disks.directory); !kept)
      log_.warn("a base is not kept", {{"error", kept.error().text()}});
    images_ = std::make_unique<control::Images>(*services_, supervisor_->pool(), disks.python,
                                                disks.ca_mark(), config_.data_dir + "/builds");
    FB_TRY(say_what_builds_get(disks));
    FB_TRY(open_builds(disks));
    FB_TRY_ASSIGN(ingress::TokenKeys keys,
                  ingress::TokenKeys::load(config_.data_dir + "/endpoint.keys", clock_.now()));
    tokens_ = std::make_unique<ingress::TokenRing>(*supervisor_, std::move(keys), pool_);
    guests_ = std::make_unique<session::Guests>(*supervisor_);
    entrance_ = std::make_unique<ingress::GuestEntrance>(supervisor_->registry(), *guests_);
    proxy_ = std::make_unique<ingress::Proxy>(
        io_.get_executor(), *entrance_, tokens_->checker(), metrics_,
        ingress::ProxyOptions{.domain = config_.endpoint_domain,
                              .limits_by_size = config_.endpoint_limits},
        exceptions_);
    objects_ = std::make_unique<object::ObjectStore>(
        config_.data_dir + "/objects",
        object::ObjectLimits{.tenant_bytes = config_.object_quota_mib << 20,
                             .object_bytes = config_.object_max_mib << 20},
        clock_);
    FB_TRY(objects_->load());
    FB_TRY_ASSIGN(remote_objects_, remote_objects_of(config_, clock_));
    artifacts_ = std::make_unique<api::Artifacts>(
        *objects_, remote_objects_.get(), supervisor_->roles(), pool_, builds_->directory());
    FB_TRY_ASSIGN(auto aws,
                  make_aws_api(config_, {.supervisor = *supervisor_,
                                         .images = *images_,
                                         .builds = *builds_,
                                         .keys = *keys_,
                                         .objects = *objects_,
                                         .artifacts = *artifacts_,
                                         .pool = pool_,
                                         .tokens = *tokens_,
                                         .endpoint = [this](const core::Microvm& microvm) {
                                           return endpoints_.of(microvm.endpoint);
                                         }}));
    // AWS first: its requests are told by their signature, whatever their path.
    FB_TRY(front_.add(std::move(aws)));
    FB_TRY(front_.add(std::make_unique<api::NativeApi>(
        *supervisor_, *guests_, *keys_, *images_, *builds_, pool_, *tokens_, endpoints_,
        [this](bool repair) { return check(repair); })));
    FB_TRY(front_.add(std::make_unique<api::Probes>(metrics_)));
    return {};
  }

  // Names of variables only: a value may hold a password.
  Result<> say_what_builds_get(const BaseDisks& disks) {
    if (disks.ca)
      log_.info("certificates", {{"note", image::describe(*disks.ca)}});
    else if (config_.guest_ca == "host")
      log_.warn("certificates", {{"note", std::string("this host has no ") + image::kCaBundle +
                                              ": guests trust what their images bring"}});
    FB_TRY_ASSIGN(const control::BuildEnv env, build_env_of(config_));
    for (const auto& [name, value] : env.variables)
      log_.info("variable for builds", {{"name", name}});
    for (const std::string& name : env.unset)
      log_.warn("variable for builds",
                {{"name", name}, {"note", "it is not set for this server: left out"}});
    return {};
  }

  Result<> open_builds(const BaseDisks& disks) {
    FB_TRY_ASSIGN(layers_, image::LayerCache::open(config_.data_dir + "/layers"));
    FB_TRY_ASSIGN(cache_mounts_, image::CacheMounts::open(config_.data_dir + "/cache-mounts"));
    FB_TRY_ASSIGN(control::BuildsConfig builds, builds_of(config_, disks));
    builds_ = std::make_unique<control::Builds>(*services_, *images_, supervisor_->egress(),
                                                supervisor_->capacity(), *layers_, *cache_mounts_,
                                                pool_, std::move(builds));
    return {};
  }

  const core::TenantLimits* limits_of(const core::TenantId& id) const {
    const core::Tenant* tenant = keys_->tenant(id);
    return tenant == nullptr ? nullptr : &tenant->limits;
  }

  // Any thread.
  void reach(std::string_view point) {
    log_.debug("step", {{"point", point}});
    crash_.reach(point);
    pause_.reach(point);
  }

  // Where the host cannot, microVMs run without networks, and runs that ask for one are refused.
  void open_networks() {
    if (!config_.networks) return;
    Result<> opened = [this]() -> Result<> {
      FB_TRY_ASSIGN(
          names_, egress::HostNames::create(io_.get_executor(), {.servers = config_.dns_servers}));
      FB_TRY_ASSIGN(networks_, egress::Networks::open({.data_dir = config_.data_dir,
                                                       .upstream = names_.get(),
                                                       .exceptions = exceptions_},
                                                      io_.get_executor(), pool_, clock_, log_));
      return {};
    }();
    if (!opened) log_.warn("no networks for microVMs", {{"error", opened.error().text()}});
  }

  Task<Result<control::CheckReport>> check(bool repair) {
    control::RunningServer server{
        .machines =
            [this] {
              auto ids = supervisor_->pool().ids();
              const auto& building = images_->building();
              ids.insert(building.begin(), building.end());
              return ids;
            },
        .settle = [this](std::string id) { return supervisor_->settle(core::MicrovmId(id)); },
        .lost = [this](core::SnapshotRef snapshot) -> Task<bool> {
          co_return (co_await images_->lost(std::move(snapshot))).has_value();
        }};
    control::CheckContext context =
        control::host_context(*db_, *engines_, config_.data_dir, std::move(server));
    return control::check_host(std::move(context), repair);
  }

  // A server that could not start ends; one that an exception kept from it as well.
  Task<void> begin() {
    std::exception_ptr thrown;
    try {
      outcome_ = co_await start();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (stopping_) co_return;  // told to end before it was there
    if (thrown) {
      exceptions_.report("start", "", thrown);
      outcome_ = fail(Code::internal, "an exception ended the server's start; its log says which");
    }
    if (outcome_) co_return;
    (void)co_await tasks_.close(Deadline::in(kCutTime));
    io_.stop();
  }

  Task<Result<>> start() {
    const core::Isolation isolation = engine_->isolation();
    FB_CO_TRY(co_await db_->run([isolation](store::Store& store) {
      return store.record_isolation(core::kFirstEngine, isolation);
    }));
    FB_CO_TRY(co_await first_start());
    FB_CO_TRY(co_await keys_->load());
    FB_CO_TRY(co_await tokens_->load());
    FB_CO_TRY(co_await images_->recover());
    FB_CO_TRY(co_await builds_->prune());
    FB_CO_TRY(co_await supervisor_->start());
    if (config_.python_image) {
      // Whoever asks for it from the first moment on finds it, or finds it being built.
      tasks_.spawn("python_image", make_python_image());
      const Deadline begun = Deadline::in(std::chrono::seconds(30));
      while (!python_begun_ && !begun.passed()) (void)co_await python_changed_.wait(begun);
    }
    FB_CO_TRY(listen());
    co_return Result<>();
  }

  // Tenants `system` and `default`, and the first key, written for the operator.
  Task<Result<>> first_start() {
    FB_CO_TRY_ASSIGN(const auto tenants, co_await db_->run([](const store::Store& store) {
      return store.list_tenants();
    }));
    const std::string file = config_.data_dir + "/credentials.json";
    if (!tenants.empty() && sys::exists(file)) co_return Result<>();
    if (tenants.empty()) {
      const core::Tenant system{core::kSystemTenant, "system", {}, clock_.now()};
      const core::Tenant first{core::new_tenant_id(), "default", {}, clock_.now()};
      FB_CO_TRY(co_await db_->run([&](store::Store& store) -> Result<> {
        FB_TRY(store.create_tenant(system));
        return store.create_tenant(first);
      }));
    }
    FB_CO_TRY(co_await keys_->load());
    for (const core::Tenant& tenant : keys_->tenants()) {
      if (tenant.name != "default") continue;
      FB_CO_TRY_ASSIGN(const control::IssuedKey key,
                       co_await keys_->issue(tenant.id, "first", true));
      const json::object text{{"accountId", tenant.id.str()},
                              {"accessKeyId", key.key.id.str()},
                              {"secretAccessKey", key.secret_access_key},
                              {"apiKey", key.api_key}};
      FB_CO_TRY(sys::replace_file(file, json::serialize(text) + "\n", 0600));
    }
    co_return Result<>();
  }

  // One local CA for both listeners, made when either needs it.
  Result<net::TlsFiles> local_certificate(std::string& ca_file) {
    std::vector<std::string> names{"localhost", "127.0.0.1", "::1"};
    const auto add = [&names](const std::string& name) {
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    add(host_of(config_.listen));
    add(host_of(config_.endpoint_listen));
    add(host_of(config_.endpoint_host));
    add(config_.endpoint_domain);
    if (!config_.endpoint_domain.empty()) add("*." + config_.endpoint_domain);
    FB_TRY_ASSIGN(const net::LocalIdentity local,
                  net::make_local_ca(config_.data_dir + "/tls", names));
    ca_file = local.ca_file;
    return local.server;
  }

  Result<> listen_endpoints(std::string& ca_file) {
    net::TlsFiles tls{config_.endpoint_certificate, config_.endpoint_key};
    if (config_.endpoint_certificate.empty()) {
      FB_TRY_ASSIGN(tls, local_certificate(ca_file));
    }
    auto handler = [this](net::HttpExchange& exchange) { return proxy_->handle(exchange); };
    FB_TRY_ASSIGN(endpoint_listener_,
                  net::HttpServer::serve(io_.get_executor(), std::move(addresses_.endpoints), tls,
                                         handler, {}, exceptions_));
    const std::string real = endpoint_listener_->address();
    const std::string port = real.substr(real.rfind(':') + 1);
    const std::string host = host_of(config_.endpoint_host);
    if (host.empty()) {
      endpoints_.authority = real;
    } else {
      const bool with_port = config_.endpoint_host.size() > host.size();
      endpoints_.authority = with_port ? config_.endpoint_host : host + ":" + port;
    }
    if (!config_.endpoint_domain.empty())
      endpoints_.domain = config_.endpoint_domain + (port == "443" ? "" : ":" + port);
    return {};
  }

  Result<> listen() {
    std::string ca_file;
    FB_TRY(listen_endpoints(ca_file));
    std::optional<net::TlsFiles> tls;
    if (!config_.tls_certificate.empty()) {
      tls = {config_.tls_certificate, config_.tls_key};
    } else if (config_.tls) {
      FB_TRY_ASSIGN(tls, local_certificate(ca_file));
    }
    auto handler = [this](net::HttpExchange& exchange) { return front_.handle(exchange); };
    FB_TRY_ASSIGN(listener_, net::HttpServer::serve(io_.get_executor(), std::move(addresses_.api),
                                                    tls, handler, {}, exceptions_));
    const std::string url = (tls ? "https://" : "http://") + listener_->address();
    const std::string endpoint_url = "https://" + endpoints_.authority;
    json::object about{{"pid", ::getpid()}, {"url", url}, {"endpointUrl", endpoint_url}};
    if (!ca_file.empty()) about["caFile"] = ca_file;
    FB_TRY(
        sys::replace_file(config_.data_dir + "/server.json", json::serialize(about) + "\n", 0600));
    std::cout << "listening on " << url << " " << endpoint_url << std::endl;
    return {};
  }

  // Made when it is missing, and again when this host cannot load it any more (another QEMU), or
  // it trusts other certificates than guests should.
  Task<void> make_python_image() {
    const auto begun = [this] {
      python_begun_ = true;
      python_changed_.notify();
    };
    auto known = co_await images_->find(core::kSystemTenant, kPythonImage);
    if (known) {
      const core::ImageId id = known->id;
      auto version =
          co_await db_->run([&id](const store::Store& store) { return store.latest_runnable(id); });
      if (version && *version && control::guest_ca_in(**version) == images_->ca() &&
          co_await catalogue_->load(core::snapshot_of(**version),
                                    Deadline::in(std::chrono::seconds(60)))) {
        begun();
        co_return;
      }
    }
    control::BaseImageRequest request{.name = kPythonImage,
                                      .memory_mib = kPythonMemoryMib,
                                      .app_is_pid1 = false,
                                      .python_context = true};
    auto progress = [this, begun](std::string_view step) {
      begun();
      log_.info("image", {{"name", kPythonImage}, {"step", step}});
    };
    auto built =
        co_await images_->build_from_base(core::kSystemTenant, {}, std::move(request), progress,
                                          Deadline::in(std::chrono::minutes(10)));
    begun();
    if (!built) log_.error("image", {{"name", kPythonImage}, {"error", built.error().text()}});
  }

  Task<void> stop() {
    stopping_ = true;
    try {
      co_await end_all();
    } catch (...) {
      exceptions_.report("stop", "", std::current_exception());
    }
    io_.stop();
  }

  Task<void> end_all() {
    log_.info("stopping");
    const Deadline deadline = Deadline::in(std::chrono::seconds(30));
    // A start that is still under way is cut as by a crash, which the next server mends.
    for (net::TaskGroup* group : {&starting_, &tasks_}) {
      if (!co_await group->close(Deadline::in(kCutTime)))
        log_.warn("tasks are cut", {{"running", static_cast<int>(group->size())}});
    }
    const Deadline drained = Deadline::in(std::chrono::seconds(5));
    if (listener_) co_await listener_->drain(drained);
    if (endpoint_listener_) co_await endpoint_listener_->drain(drained);
    co_await builds_->close(deadline);
    co_await supervisor_->stop(deadline);
    if (networks_) (void)egress::remove_host_side(config_.data_dir);
  }

  ServerConfig config_;
  ServerAddresses addresses_;  // until the listeners have them
  core::SystemClock clock_;
  obs::Log log_;
  obs::Metrics metrics_;
  FaultPoint crash_{"FIREBREAK_FAULT", SIGKILL};
  FaultPoint pause_{"FIREBREAK_PAUSE", SIGSTOP};
  const obs::Exceptions exceptions_{log_, metrics_};
  asio::io_context io_{1};
  net::TaskGroup tasks_{io_.get_executor(), exceptions_};
  net::TaskGroup starting_{io_.get_executor(), exceptions_};  // may end the tasks
  net::TaskGroup ending_{io_.get_executor(), exceptions_};    // ends both
  Result<> outcome_;                                          // of the start
  bool stopping_ = false;
  net::Event python_changed_{io_.get_executor()};
  bool python_begun_ = false;  // it is there, or its build is written in the store
  asio::thread_pool pool_{4};
  std::unique_ptr<store::Database> db_;
  std::unique_ptr<control::KeyRing> keys_;
  control::LimitsGate gate_{[this](const core::TenantId& id) { return limits_of(id); }, clock_,
                            metrics_};
  control::CountingOutlet outlet_{metrics_};
  std::unique_ptr<egress::HostNames> names_;
  std::unique_ptr<egress::Networks> networks_;
  std::unique_ptr<machine::QemuEngine> engine_;
  std::optional<machine::Engines> engines_;  // the default is the one it is made with
  std::unique_ptr<image::Catalogue> catalogue_;
  std::optional<control::Services> services_;
  std::unique_ptr<control::Supervisor> supervisor_;
  std::unique_ptr<control::Images> images_;
  std::unique_ptr<image::LayerCache> layers_;
  std::unique_ptr<image::CacheMounts> cache_mounts_;
  std::unique_ptr<control::Builds> builds_;
  std::unique_ptr<ingress::TokenRing> tokens_;
  std::unique_ptr<session::Guests> guests_;
  std::unique_ptr<ingress::GuestEntrance> entrance_;
  std::unique_ptr<ingress::Proxy> proxy_;
  ingress::EndpointAddress endpoints_;
  std::unique_ptr<object::ObjectStore> objects_;
  std::unique_ptr<object::RemoteObjects> remote_objects_;
  std::unique_ptr<api::Artifacts> artifacts_;
  api::Front front_;
  std::unique_ptr<net::HttpServer> listener_;
  std::unique_ptr<net::HttpServer> endpoint_listener_;
};

}  // namespace

Result<> serve(const ServerConfig& config) {
  FB_TRY(check_can_serve(config));
  // Before anything is written or started: a server that cannot answer leaves no trace.
  FB_TRY_ASSIGN(ServerAddresses addresses, take_addresses(config));
  // Orphans of jails come to us and are reaped.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ::signal(SIGPIPE, SIG_IGN);
  Server server(config, std::move(addresses));
  return server.run();
}

}  // namespace firebreak::cli
