// Where a copy out of a guest goes. The path that the user has typed is followed as it is, with the
// user's own links; the name that is added to it is one entry of that directory and never followed,
// because an earlier copy may have put a link there. Pure functions; any thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::client {

struct Landing {
  UniqueFd directory;
  std::string name;  // of the file in it; a file or a link of that name is to be replaced
};

// For a file called `source` in the guest: into the directory `target`, or as `target`.
Result<Landing> land_file(const std::string& target, const std::string& source);

// For a directory called `source` in the guest: below the directory `target` if it exists, or as
// `target`. An empty name or "." copies the content only.
Result<UniqueFd> land_directory(const std::string& target, const std::string& source);

}  // namespace firebreak::client
