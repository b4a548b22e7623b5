// An internet in network namespaces, for tests of egress: public and private addresses, metadata,
// IPv6 twins, resolvers; and a "host" namespace in which the test and its servers live from then
// on, so that nothing of this machine's own network is touched. Owned by the test program.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"

namespace firebreak::testing_support {

class FakeInternet {
 public:
  // Moves the calling thread, and what it starts, into the host's namespace.
  static std::unique_ptr<FakeInternet> enter();
  ~FakeInternet();
  FakeInternet(const FakeInternet&) = delete;
  FakeInternet& operator=(const FakeInternet&) = delete;

  // Option of a server that should ask this internet's resolver.
  static std::string dns_option() { return "--dns-servers=198.51.100.1:53"; }
  // A server that listens here is found in this internet under the other address.
  static constexpr std::string_view kRelayed = "198.51.100.2:9000";
  static constexpr std::string_view kRelayUrl = "http://203.0.113.40:9000";
  // Certificate of the CA that its sites' certificates are by; for allowed.example and
  // 203.0.113.10.
  std::string ca_file() const { return log_ + ".ca"; }
  // What arrived there, one line each ("tcp 203.0.113.10 80 from ...", "dns name 1"); and the first
  // packet of each kind ("seen 17 203.0.113.10 4000 from 198.51.100.2": protocol, to,
  // port or type of ICMP).
  std::vector<std::string> arrived() const;
  bool has_arrived(const std::string& beginning) const { return count_arrived(beginning) > 0; }
  std::size_t count_arrived(const std::string& beginning) const;
  // Until it has; false after half a minute.
  bool wait_arrived(const std::string& beginning) const;

 private:
  FakeInternet() = default;
  bool start(const std::string& script);

  UniqueFd world_;
  std::string log_;
  pid_t pid_ = -1;
};

}  // namespace firebreak::testing_support
