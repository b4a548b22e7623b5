// Where our resolver asks: names in, addresses out. Implemented by HostNames (the host's own
// resolvers) and by fakes in tests. Shared by all microVMs; one executor.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/address.h"
#include "net/task.h"

namespace firebreak::egress {

enum class Family { v4, v6 };

struct Resolved {
  enum class Status {
    found,
    no_data,  // the name exists, but has no address of this family
    no_name
  };
  Status status = Status::found;
  std::vector<core::IpAddress> addresses;  // at least one when found
  std::chrono::seconds ttl{0};             // the shortest on the way, aliases included
};

class Upstream {
 public:
  virtual ~Upstream() = default;
  // `name` is absolute (no search domain is tried), without a dot at the end. An error: nobody
  // could say.
  virtual net::Task<Result<Resolved>> resolve(std::string name, Family family,
                                              Deadline deadline) = 0;
};

}  // namespace firebreak::egress
