// Files of sandboxes as tools and resources give them. One executor.
#pragma once

#include <string>
#include <vector>

#include "session/files.h"

namespace firebreak::api::mcp {

inline constexpr std::uint64_t kMostFile = 4UL << 20;  // bytes of a file in one answer

struct FileContent {
  std::string path;
  std::string bytes;
  std::string mime;
  std::uint64_t size = 0;  // of the whole file
  bool readable = false;   // as text
};
net::Task<Result<FileContent>> fetch_file(const session::Guest& guest, std::string path,
                                          std::uint64_t offset, std::uint64_t length);

struct Listing {
  std::vector<session::FileInfo> entries;  // by name
  bool more = false;
};
net::Task<Result<Listing>> list_sorted(const session::Guest& guest, std::string path,
                                       std::size_t most);

}  // namespace firebreak::api::mcp
