// The one way out of a guest: every byte and value that a caller, a log or a record gets from a
// guest passes an Outlet. It counts, by where the bytes come from, and takes secrets out
// (redacting_outlet.h). Owned by the server; one executor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/ids.h"

namespace firebreak::control {

// Where bytes of a guest come from. Traffic is the application's own: it is counted and never
// changed.
enum class Origin : std::uint8_t {
  exec,      // what a command printed
  terminal,  // what a terminal showed
  code,      // what code printed, its results and errors
  file,      // contents, names and properties of files
  archive,   // tar archives
  log,       // what the application printed
  build,     // what a build's instructions printed
  reason,    // what a guest said about a failure: in records, events and errors
  traffic,   // connections to the application: tunnels and endpoints
};
inline constexpr std::size_t kOrigins = 9;
std::string_view to_string(Origin origin);

struct Passage {
  core::TenantId tenant;
  core::MicrovmId microvm;  // empty: a machine that builds an image
  Origin origin = Origin::exec;
};

// One stream of bytes on its way out. What pass() gives back is what may leave now; what it keeps
// for later comes with a later call, at the latest with end(). Destroying it drops what it kept.
class Flow {
 public:
  virtual ~Flow() = default;
  // Bytes in front of what is wanted, for a stream that is read from its middle: they are looked at
  // and do not leave.
  virtual void context(std::string bytes) = 0;
  virtual std::string pass(std::string bytes) = 0;
  virtual std::string end() = 0;
};

class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual std::unique_ptr<Flow> open(const Passage& passage) = 0;
  // How many bytes before and behind a range of a stream must be looked at, too.
  virtual std::size_t reach(const core::TenantId& tenant) const = 0;
  // The application's own traffic, which flows past.
  virtual void count_traffic(const core::TenantId& tenant, std::uint64_t bytes) = 0;

  // For a value that is whole.
  std::string pass_whole(const Passage& passage, std::string bytes) {
    const auto flow = open(passage);
    std::string out = flow->pass(std::move(bytes));
    out += flow->end();
    return out;
  }
};

}  // namespace firebreak::control
