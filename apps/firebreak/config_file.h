// A configuration file of `name = value` lines in TOML. CLI11 reads it; no other file sees that
// library's headers, which take seconds to compile. Value; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace firebreak::cli {

struct ConfigEntry {
  std::string name;                 // with its table, as in "table.name"
  std::vector<std::string> values;  // several of a list
};

// The error names the file.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& file);

}  // namespace firebreak::cli
