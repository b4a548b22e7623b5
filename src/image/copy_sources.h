// Which entries of a build context a COPY takes, and where they go. Reads nothing but the tree;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "image/build_context.h"

namespace firebreak::image {

struct CopyItem {
  std::string path;    // in the context; empty, with `to`: the destination is a directory
  std::string to;      // below the destination
  bool named = false;  // a file that the instruction names: may become the destination itself
  friend bool operator==(const CopyItem&, const CopyItem&) = default;
};

struct CopySelection {
  // Directories before what they hold, each `to` once; of a query in order, once for each source.
  std::vector<CopyItem> items;
  std::string digest;  // of names, modes and contents; not of times or owners
};

struct CopyQuery {
  std::vector<std::string> sources;
  std::vector<std::string> excludes;
  // One source after the other: for ADD, where archives among them may hold the same names.
  bool in_order = false;
};

// not_found for a source that is not there, with the reason if that is .dockerignore. A pattern
// that matches nothing is fine as long as something is left to copy. Many patterns on many files
// take long, hence the deadline. Blocking.
Result<CopySelection> select_sources(const BuildContext& context, const wire::IgnoreRules& ignore,
                                     const CopyQuery& query, Deadline deadline);

}  // namespace firebreak::image
