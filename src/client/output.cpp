#include "client/output.h"

#include <algorithm>
#include <iostream>

#include <unistd.h>

#include "base/sys.h"

namespace firebreak::client {

void print_line(std::string_view text) {
  std::cout << printable(text) << "\n";
}

void print_error(std::string_view message) {
  std::cerr << "firebreak: " << printable(message) << "\n";
}

void print_json(const json::value& value) {
  print_json_text(json::serialize(value));
}

// Whoever follows a stream of them sees each at once.
void print_json_text(std::string_view json) {
  std::cout << printable_json(json) << std::endl;
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

void TextTable::print() const {
  std::cout << text();
}

LogOutput::LogOutput(int fd) : fd_(fd), terminal_(::isatty(fd) != 0) {}

Result<> LogOutput::write(std::string_view bytes) {
  return terminal_ ? sys::write_all(fd_, printable_.next(bytes)) : sys::write_all(fd_, bytes);
}

Result<> LogOutput::finish() {
  return sys::write_all(fd_, printable_.finish());
}

}  // namespace firebreak::client
