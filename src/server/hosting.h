// What a server runs microVMs on: engines and networks. The server of the command line has QEMU on
// this host (qemu_hosting.h); a test brings its own. Owned by the Server; one executor.
#pragma once

#include <string>

#include "machine/engines.h"

namespace firebreak::egress {
class Networks;
}

namespace firebreak::server {

class Hosting {
 public:
  virtual ~Hosting() = default;
  virtual const machine::Engines& engines() const = 0;
  // nullptr: microVMs run without networks, and runs that ask for one are refused.
  virtual egress::Networks* networks() const = 0;
  // Snapshots stand on what is in this directory from now on.
  virtual Result<> keep_bases(const std::string& directory) = 0;
  // After the last call of a machine.
  virtual void close() = 0;
};

}  // namespace firebreak::server
