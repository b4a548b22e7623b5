// The engines that this server has, by name. A machine or snapshot is always handled by the engine
// that its record names; new images are made by the standard one. Owns none of them; wired once,
// then only read. One executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "machine/engine.h"

namespace firebreak::machine {

class Engines {
 public:
  explicit Engines(Engine& standard) : standard_(&standard) { add(standard); }
  void add(Engine& engine) { by_name_[engine.name()] = &engine; }

  // Makes what names no engine.
  Engine& standard() const { return *standard_; }
  // Code::unavailable when this server does not have it.
  Result<Engine*> get(const std::string& name) const;
  std::vector<Engine*> all() const;

 private:
  Engine* standard_;
  std::map<std::string, Engine*> by_name_;
};

}  // namespace firebreak::machine
