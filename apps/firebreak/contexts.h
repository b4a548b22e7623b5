// The servers that a user has logged in to, each under a name, in config.json of the user's
// configuration directory; readable by the user alone. Values; one thread.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace firebreak::cli {

struct ServerContext {
  std::string url;
  std::string api_key;
  std::string ca_file;  // may be empty: the system's CAs

  bool operator==(const ServerContext&) const = default;
};

struct Contexts {
  std::string current;  // the one that is used when none is named; may be empty
  std::map<std::string, ServerContext> servers;

  bool operator==(const Contexts&) const = default;
};

// $XDG_CONFIG_HOME/firebreak/config.json, or the same in ~/.config. Empty without a home.
std::string contexts_file();
// None when there is no file.
Result<Contexts> read_contexts();
Result<> write_contexts(const Contexts& contexts);
// An error that names those there are.
Result<ServerContext> find_context(const Contexts& contexts, const std::string& name);

}  // namespace firebreak::cli
