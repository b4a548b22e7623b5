// Text of guests and tenants for a person's terminal or log: what would steer a terminal, forge a
// line or hide its direction is shown as an escape (\n, \x1b, \u202e) instead of acted on. All else
// stays as it is, a backslash included. Pure functions, and a state for streams; any thread.
#pragma once

#include <string>
#include <string_view>

namespace firebreak {

// One line, whatever the text holds: control characters (C0, DEL, C1), marks that turn the
// direction of writing, separators of lines, and bytes that are not UTF-8 are escaped.
std::string printable(std::string_view text);

// The same for JSON as it was serialised on one line, with JSON's own escapes: it still means the
// same. Bytes that are not UTF-8 become U+FFFD.
std::string printable_json(std::string_view json);

// The same for text of many lines that comes in pieces, cut anywhere: line ends and tabs stay.
class PrintableStream {
 public:
  std::string next(std::string_view piece);
  // What was held back because more could have followed.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace firebreak
