// The argument of --chmod: an octal number, or symbolic as of chmod(1). Value; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::image {

class FileMode {
 public:
  static Result<FileMode> parse(std::string_view text);
  // The permission bits of a file that had `mode`.
  std::uint32_t apply(std::uint32_t mode, bool is_dir) const;

 private:
  struct Change {
    std::uint32_t who = 0;           // 0700, 070, 07 or several
    char operation = '=';            // '+', '-', '='
    std::uint32_t bits = 0;          // rwx as in 07
    bool executable_if_any = false;  // X
    bool set_id = false;             // s
    bool sticky = false;             // t
    char copied = 0;                 // u, g or o: the bits they have
  };
  static Result<> parse_clause(std::string_view clause, std::vector<Change>& changes);
  static std::uint32_t apply(const Change& change, std::uint32_t mode, bool is_dir);

  bool absolute_ = false;
  std::uint32_t mode_ = 0;
  std::vector<Change> changes_;
};

}  // namespace firebreak::image
