// What the command line prints for people. Text of guests and tenants goes through here, so that it
// can neither steer the terminal nor forge a line; commands do not write to std::cout themselves.
// Only exec, code, shell and cp pass bytes on as they are. One thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "base/result.h"

namespace firebreak::client {

void print_line(std::string_view text);      // standard output
void print_error(std::string_view message);  // standard error: "firebreak: MESSAGE"
void print_json(const json::value& value);
void print_json_text(std::string_view json);  // one value, as it came

// Columns as wide as their widest cell, one line for each row.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { add(std::move(head)); }
  void add(std::vector<std::string> row);
  std::string text() const;
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // printable
};

// A log of a guest on its way to one of our descriptors: printable where that is a terminal, as it
// is elsewhere.
class LogOutput {
 public:
  explicit LogOutput(int fd);
  Result<> write(std::string_view bytes);
  // Once, after the last byte.
  Result<> finish();

 private:
  int fd_;
  bool terminal_;
  PrintableStream printable_;
};

}  // namespace firebreak::client
