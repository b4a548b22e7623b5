// A record as a line of OCSF 1.x JSON. The record itself stands in it word by word, with its hash,
// so that the line can be proven; everything else follows from the record. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "audit/record.h"

namespace firebreak::audit {

// Without the end of the line.
void append_line(std::string& out, const Record& record, std::string_view hash);

struct Line {
  Record record;
  std::string_view hash;       // in the line
  std::string_view canonical;  // the same
};
// nullopt: no line of a record. Whether all of it follows from the record, only writing it again
// tells.
std::optional<Line> read_line(std::string_view line);

}  // namespace firebreak::audit
