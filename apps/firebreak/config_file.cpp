#include "config_file.h"

#include <fstream>

#include <CLI/CLI.hpp>

namespace firebreak::cli {

Result<std::vector<ConfigEntry>> read_config_file(const std::string& file) {
  std::ifstream text(file);
  if (!text) return fail(Code::invalid, "cannot read the configuration " + file);
  std::vector<ConfigEntry> entries;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      // These two mark where a table begins and ends.
      if (item.name != "++" && item.name != "--") entries.push_back({item.fullname(), item.inputs});
    }
  } catch (const CLI::Error& error) {
    return fail(Code::invalid, file + ": " + error.what());
  }
  return entries;
}

}  // namespace firebreak::cli
