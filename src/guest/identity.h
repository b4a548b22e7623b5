// What makes a clone of a snapshot unique: clock, kernel random generator, host name, machine id.
// Kept ready so that waking costs few system calls. Owned by the control service; ctl thread, which
// has joined the tenant's UTS namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::guest {

class Identity {
 public:
  // Makes the files in `dir`, which are bound into the tenant's /etc.
  static Result<std::unique_ptr<Identity>> create(const std::string& dir);

  Result<> set_clock(std::int64_t realtime_ns) const;
  // 32 to 64 bytes from the host; the generator is reseeded with them at once.
  Result<> add_entropy(std::span<const std::byte> bytes) const;
  Result<> set_hostname(const std::string& name, bool in_kernel = true);
  Result<> set_machine_id(const std::string& hex);
  // The resolver of the microVM's network, or none.
  Result<> set_resolver(bool network);
  // What the host says about the connections it refused.
  Result<> set_egress_summary(std::string_view text);

  const std::string& hostname() const { return hostname_; }
  const std::string& machine_id() const { return machine_id_; }

 private:
  struct File {
    UniqueFd fd;
    std::size_t size = 0;
    // In place: the tenant's mounts show this inode.
    Result<> write(std::string_view text);
  };
  Identity() = default;

  UniqueFd random_;
  File machine_id_file_;
  File hostname_file_;
  File hosts_file_;
  File resolver_file_;
  File egress_file_;
  std::string hostname_;
  std::string machine_id_;
};

Result<std::int64_t> realtime_ns();

}  // namespace firebreak::guest
