// Where a server listens: one address for the façades, one for the endpoints, with the certificates
// of both. Owned by the Server; one executor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/http_server.h"
#include "server/doors.h"
#include "server/server_addresses.h"

namespace firebreak::server {

class Listeners {
 public:
  // Serves at once, and writes server.json, which tells clients on this host where.
  static Result<std::unique_ptr<Listeners>> open(const ServerConfig& config,
                                                 const Surroundings& surroundings,
                                                 ServerAddresses addresses, Doors& doors);
  // Takes no new connections, lets open requests finish until the deadline, then cuts them.
  net::Task<void> drain(Deadline deadline);

  const std::string& url() const { return url_; }                    // of the façades
  const std::string& endpoint_url() const { return endpoint_url_; }  // of the endpoints

 private:
  Listeners() = default;
  Result<> listen_endpoints(const ServerConfig& config, const Surroundings& surroundings,
                            net::BoundAddress address, Doors& doors);
  Result<> listen_api(const ServerConfig& config, const Surroundings& surroundings,
                      net::BoundAddress address, Doors& doors);
  // One local CA for both listeners, made when either needs it.
  Result<net::TlsFiles> local_certificate(const ServerConfig& config);

  std::string ca_file_;
  std::string url_;
  std::string endpoint_url_;
  std::unique_ptr<net::HttpServer> endpoints_;
  std::unique_ptr<net::HttpServer> api_;
};

}  // namespace firebreak::server
