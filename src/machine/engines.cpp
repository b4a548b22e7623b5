#include "machine/engines.h"

namespace firebreak::machine {

Result<Engine*> Engines::get(const std::string& name) const {
  if (const auto at = by_name_.find(name); at != by_name_.end()) return at->second;
  std::string known;
  for (const auto& [other, engine] : by_name_) known += (known.empty() ? "" : ", ") + other;
  return fail(Code::unavailable,
              "this server does not have the engine " + name + " (it has " + known + ")",
              Repair{"start a server with that engine on this data directory, "
                     "or build the image again for new microVMs"});
}

std::vector<Engine*> Engines::all() const {
  std::vector<Engine*> list;
  for (const auto& [name, engine] : by_name_) list.push_back(engine);
  return list;
}

}  // namespace firebreak::machine
