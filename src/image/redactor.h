// Keeps credentials out of what is shown: the names and passwords in addresses that the operator
// gave, wherever a command prints them. One object for each output; single thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/image_config.h"

namespace firebreak::image {

// "name:password" of each address in the values, and what programs make of it: the password alone,
// decoded, or in a header.
std::vector<std::string> credentials_in(const EnvList& variables);

class Redactor {
 public:
  explicit Redactor(std::vector<std::string> hidden);

  // What can be shown by now. The beginning of a credential waits for what follows.
  std::string feed(std::string_view text);
  // What still waits, when nothing follows.
  std::string finish() { return std::move(waiting_); }

 private:
  std::vector<std::string> hidden_;  // longest first
  std::string waiting_;
};

}  // namespace firebreak::image
