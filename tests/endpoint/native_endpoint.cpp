#include "endpoint/native_endpoint.h"

#include <csignal>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "net/tls_identity.h"

namespace firebreak::testing_support {

class NativeEndpoint::Entrance final : public ingress::Entrance {
 public:
  explicit Entrance(NativeEndpoint& owner) : owner_(owner) {}

  std::optional<ingress::Destination> find(const core::MicrovmId& microvm) override {
    const bool own = microvm == owner_.microvm_;
    if (!own && microvm != owner_.neighbour_) return std::nullopt;
    return ingress::Destination{.microvm = microvm,
                                .tenant = core::TenantId(own ? "one" : "two"),
                                .endpoint = core::EndpointId(owner_.endpoint_),
                                .memory_mib = 512,
                                .hooks = owner_.options_.hooks};
  }
  net::Task<Result<session::Guest>> enter(core::MicrovmId, Deadline) override {
    co_return session::Guest(std::make_unique<Hold>(*this), owner_.gate_, owner_.outlet_);
  }

  std::uint64_t in = 0;
  std::uint64_t out = 0;

 private:
  class Hold final : public session::Hold {
   public:
    explicit Hold(Entrance& entrance) : entrance_(entrance) {}
    const core::Microvm& microvm() const override { return entrance_.owner_.record_; }
    machine::AgentClient& agent() const override { return *entrance_.owner_.agent_; }
    void count(std::uint64_t more_in, std::uint64_t more_out) const override {
      entrance_.in += more_in;
      entrance_.out += more_out;
    }

   private:
    Entrance& entrance_;
  };

  NativeEndpoint& owner_;
};

NativeEndpoint::NativeEndpoint(net::asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      entrance_(std::make_unique<Entrance>(*this)) {}

NativeEndpoint::~NativeEndpoint() {
  listener_.reset();
  proxy_.reset();
  if (agent_) agent_->close();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<> NativeEndpoint::spawn_agent() {
  FB_TRY_ASSIGN(auto ctl, sys::socketpair(SOCK_STREAM));
  FB_TRY_ASSIGN(auto data, sys::socketpair(SOCK_STREAM));
  const std::string ctl_number = std::to_string(ctl.second.get());
  const std::string data_number = std::to_string(data.second.get());
  pid_ = ::fork();
  if (pid_ == 0) {
    ::fcntl(ctl.second.get(), F_SETFD, 0);
    ::fcntl(data.second.get(), F_SETFD, 0);
    ::execl(options_.agent.c_str(), options_.agent.c_str(), "--serve-fds", ctl_number.c_str(),
            data_number.c_str(), "--no-boot", nullptr);
    ::_exit(126);
  }
  const auto channel = [this](UniqueFd& fd) {
    net::Channel::Socket socket(executor_);
    socket.assign(net::asio::local::stream_protocol(), fd.release());
    return net::Channel::start(std::move(socket));
  };
  agent_ = std::make_unique<machine::AgentClient>(channel(ctl.first), channel(data.first));
  return {};
}

net::Task<Result<>> NativeEndpoint::start() {
  FB_CO_TRY(spawn_agent());
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  FB_CO_TRY(co_await agent_->ctl_call("POST", "/tenant",
                                      json::object{{"root", {{"device", "none"}}}}, deadline));
  FB_CO_TRY_ASSIGN(ingress::TokenKeys keys,
                   ingress::TokenKeys::load(options_.dir + "/endpoint.keys", clock_.now()));
  tokens_ = std::make_unique<ingress::TokenChecker>(std::move(keys), clock_);
  proxy_ = std::make_unique<ingress::Proxy>(
      executor_, *entrance_, *tokens_, metrics_,
      ingress::ProxyOptions{.domain = "box.test",
                            .limits_by_size = options_.limits,
                            .connections_of_tenant = options_.connections_of_tenant});
  std::optional<net::TlsFiles> tls;
  if (options_.tls) {
    FB_CO_TRY_ASSIGN(
        const net::LocalIdentity identity,
        net::make_local_ca(options_.dir + "/tls", {"localhost", "127.0.0.1", "*.box.test"}));
    tls = identity.server;
  }
  auto handler = [this](net::HttpExchange& exchange) { return proxy_->handle(exchange); };
  FB_CO_TRY_ASSIGN(listener_, net::HttpServer::listen(executor_, "127.0.0.1:0", tls, handler));
  co_return Result<>();
}

std::string NativeEndpoint::url() const {
  return (options_.tls ? "https://" : "http://") + listener_->address();
}

std::string NativeEndpoint::token(const std::string& ports, core::Seconds life,
                                  core::TokenKind kind, Whose whose, const std::string& id) {
  const core::MicrovmId microvm = whose == Whose::own         ? microvm_
                                  : whose == Whose::neighbour ? neighbour_
                                                              : core::new_microvm_id();
  const ingress::TokenClaims claims{.id = core::TokenId(id),
                                    .microvm = microvm,
                                    .kind = kind,
                                    .ports = core::parse_ports(ports).value(),
                                    .expires = clock_.now() + life};
  return ingress::seal_claims(tokens_->keys(), claims).value();
}

std::uint64_t NativeEndpoint::bytes_in() const {
  return entrance_->in;
}

std::uint64_t NativeEndpoint::bytes_out() const {
  return entrance_->out;
}

}  // namespace firebreak::testing_support
