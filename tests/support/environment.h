// What tests are told by whoever starts them. Any thread.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

namespace firebreak::testing_support {

inline std::string environment_or_die(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    std::cerr << name << " is not set: run the tests through ./dev test\n";
    std::exit(2);
  }
  return value;
}

}  // namespace firebreak::testing_support
