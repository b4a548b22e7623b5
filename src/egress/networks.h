// The networks of all microVMs: makes and removes their namespaces, loads policies, serves names,
// keeps the log of decisions. Owned by the program. attach() and detach() block and may be called
// from any thread; everything else belongs to one executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/clock.h"
#include "core/egress_decision.h"
#include "egress/host_side.h"
#include "egress/site.h"
#include "egress/upstream.h"
#include "machine/network_backend.h"
#include "net/semaphore.h"
#include "obs/exceptions.h"
#include "obs/log.h"

namespace firebreak::egress {

struct NetworksConfig {
  std::string data_dir;
  Upstream* upstream = nullptr;  // outlives it
  bool ipv6 = host_has_ipv6();
  obs::Exceptions exceptions = {};  // of the tasks that serve guests
};

class Networks final : public machine::NetworkBackend {
  struct Service;  // of an admitted microVM

 public:
  // The turn to say what decides for one microVM: everybody else waits while it lives. Read the
  // policies while holding it, so that the last holder loads the newest.
  class Admission {
   public:
    // From now on this stack decides; `off_limits` is filled in here. Connections that it does not
    // allow are cut. Fails closed: after an error nothing passes.
    net::Task<Result<>> decide_by(core::EgressStack stack, Deadline deadline) {
      return networks_->decide_by(service_, std::move(stack), deadline);
    }

   private:
    friend class Networks;
    Admission(Networks& networks, std::shared_ptr<Service> service, net::Mutex::Guard turn)
        : networks_(&networks), service_(std::move(service)), turn_(std::move(turn)) {}
    Networks* networks_;
    std::shared_ptr<Service> service_;
    net::Mutex::Guard turn_;
  };

  static Result<std::unique_ptr<Networks>> open(NetworksConfig config,
                                                net::asio::any_io_executor executor,
                                                net::asio::thread_pool& pool,
                                                const core::Clock& clock, obs::Log& log);
  ~Networks() override;
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;

  const std::string& data_dir() const { return config_.data_dir; }
  Result<> attach(const std::string& id, const MakeLink& make_link) override;
  Result<> detach(const std::string& id) override;

  // Makes what admit() needs. Nothing passes yet, and no name is answered.
  net::Task<Result<>> prepare(std::string id);
  // For a microVM that is to have a network from now on.
  net::Task<Result<Admission>> admit(std::string id, Deadline deadline);
  // For one that has: nothing for any other.
  net::Task<Result<std::optional<Admission>>> admit_again(std::string id, Deadline deadline);
  // Nothing is served any more; what was counted is kept for the next admit(). The namespace is
  // detach()'s.
  net::Task<void> dismiss(std::string id, Deadline deadline);
  // Removes logs that nobody wrote to for so long and whose microVM is gone.
  void forget(core::Seconds older_than, const std::function<bool(const std::string&)>& lives);

  // Its latest decisions, whether it runs or not; with the smallest policy that would have
  // sufficed.
  Result<json::object> log_json(const std::string& id, std::uint64_t limit, bool suggest);
  // What the guest may know about its denials, as JSON; nothing when that has not changed.
  std::optional<std::string> news(const std::string& id);
  // Those for which news() may have something; asking it takes them off.
  const std::set<std::string>& with_news() const { return with_news_; }
  // Since it was first admitted.
  net::Task<Result<Counters>> counters(std::string id);

 private:
  Networks(NetworksConfig config, net::asio::any_io_executor executor, net::asio::thread_pool& pool,
           const core::Clock& clock, obs::Log& log, std::unique_ptr<HostSide> host);

  std::string pin_path(const std::string& id) const { return config_.data_dir + "/netns/" + id; }
  std::string directory(const std::string& id) const { return config_.data_dir + "/egress/" + id; }
  std::string counters_path(const std::string& id) const {
    return directory(id) + "/counters.json";
  }
  net::Task<Result<std::shared_ptr<Site>>> find_site(std::string id);
  net::Task<Result<std::shared_ptr<Service>>> service_of(std::string id);
  // The host and other microVMs.
  Result<> add_off_limits(core::EgressStack& stack);
  Result<> open_log(Service& service);
  // With its turn held.
  net::Task<Result<>> decide_by(std::shared_ptr<Service> service, core::EgressStack stack,
                                Deadline deadline);
  net::Task<void> stop_serving(std::shared_ptr<Service> service, Deadline deadline);
  net::Task<Result<>> serve(std::shared_ptr<Service> service);
  ResolverHooks hooks_for(const std::shared_ptr<Service>& service);
  net::Task<Result<>> open_tls_gate(std::shared_ptr<Service> service);
  net::Task<Result<>> load(std::shared_ptr<Service> service, core::EgressStack stack,
                           Deadline deadline);

  NetworksConfig config_;
  net::asio::any_io_executor executor_;
  net::asio::thread_pool& pool_;
  const core::Clock& clock_;
  obs::Log& log_;
  std::unique_ptr<HostSide> host_;
  std::mutex sites_mutex_;
  std::map<std::string, std::shared_ptr<Site>> sites_;
  std::set<std::string> with_news_;  // told by the logs of the services, also at their end
  std::map<std::string, std::shared_ptr<Service>> services_;
};

// Machines that have a namespace or a link, for a look without a server; and their removal.
Result<std::vector<std::string>> found_networks(const std::string& data_dir);
Result<> remove_network(const std::string& data_dir, const std::string& id);
// What is left on the host when the last network has gone.
Result<> remove_host_side(const std::string& data_dir);

}  // namespace firebreak::egress
