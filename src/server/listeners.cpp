#include "server/listeners.h"

#include <algorithm>

#include <unistd.h>

#include "base/json.h"
#include "base/sys.h"
#include "net/tls_identity.h"
#include "server/server_values.h"

namespace firebreak::server {
namespace {

// What clients call the endpoints: what the operator says, else where they really are.
ingress::EndpointAddress address_of(const ServerConfig& config, const std::string& real) {
  ingress::EndpointAddress address;
  const std::string port = real.substr(real.rfind(':') + 1);
  const std::string host = host_of(config.endpoint_host);
  if (host.empty()) {
    address.authority = real;
  } else {
    const bool with_port = config.endpoint_host.size() > host.size();
    address.authority = with_port ? config.endpoint_host : host + ":" + port;
  }
  if (!config.endpoint_domain.empty())
    address.domain = config.endpoint_domain + (port == "443" ? "" : ":" + port);
  return address;
}

}  // namespace

Result<net::TlsFiles> Listeners::local_certificate(const ServerConfig& config) {
  std::vector<std::string> names{"localhost", "127.0.0.1", "::1"};
  const auto add = [&names](const std::string& name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  add(host_of(config.listen));
  add(host_of(config.endpoint_listen));
  add(host_of(config.endpoint_host));
  add(config.endpoint_domain);
  if (!config.endpoint_domain.empty()) add("*." + config.endpoint_domain);
  FB_TRY_ASSIGN(const net::LocalIdentity local,
                net::make_local_ca(config.data_dir + "/tls", names));
  ca_file_ = local.ca_file;
  return local.server;
}

Result<> Listeners::listen_endpoints(const ServerConfig& config, const Surroundings& surroundings,
                                     net::BoundAddress address, Doors& doors) {
  net::TlsFiles tls{config.endpoint_certificate, config.endpoint_key};
  if (config.endpoint_certificate.empty()) {
    FB_TRY_ASSIGN(tls, local_certificate(config));
  }
  auto handler = [&doors](net::HttpExchange& exchange) { return doors.handle_endpoint(exchange); };
  FB_TRY_ASSIGN(endpoints_, net::HttpServer::serve(
                                surroundings.io.get_executor(), std::move(address), tls, handler,
                                {}, obs::Exceptions{surroundings.log, surroundings.metrics}));
  ingress::EndpointAddress known = address_of(config, endpoints_->address());
  endpoint_url_ = "https://" + known.authority;
  doors.set_endpoints(std::move(known));
  return {};
}

Result<> Listeners::listen_api(const ServerConfig& config, const Surroundings& surroundings,
                               net::BoundAddress address, Doors& doors) {
  std::optional<net::TlsFiles> tls;
  if (!config.tls_certificate.empty()) {
    tls = {config.tls_certificate, config.tls_key};
  } else if (config.tls) {
    FB_TRY_ASSIGN(tls, local_certificate(config));
  }
  auto handler = [&doors](net::HttpExchange& exchange) { return doors.handle_api(exchange); };
  FB_TRY_ASSIGN(
      api_, net::HttpServer::serve(surroundings.io.get_executor(), std::move(address), tls, handler,
                                   {}, obs::Exceptions{surroundings.log, surroundings.metrics}));
  url_ = (tls ? "https://" : "http://") + api_->address();
  return {};
}

Result<std::unique_ptr<Listeners>> Listeners::open(const ServerConfig& config,
                                                   const Surroundings& surroundings,
                                                   ServerAddresses addresses, Doors& doors) {
  std::unique_ptr<Listeners> listeners(new Listeners());
  FB_TRY(listeners->listen_endpoints(config, surroundings, std::move(addresses.endpoints), doors));
  FB_TRY(listeners->listen_api(config, surroundings, std::move(addresses.api), doors));
  json::object about{
      {"pid", ::getpid()}, {"url", listeners->url_}, {"endpointUrl", listeners->endpoint_url_}};
  if (!listeners->ca_file_.empty()) about["caFile"] = listeners->ca_file_;
  FB_TRY(sys::replace_file(config.data_dir + "/server.json", json::serialize(about) + "\n", 0600));
  return listeners;
}

net::Task<void> Listeners::drain(Deadline deadline) {
  co_await api_->drain(deadline);
  co_await endpoints_->drain(deadline);
}

}  // namespace firebreak::server
