// What tests are told by whoever starts them. Any thread.
#pragma once

#include <cstddef>
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

// Of what a test makes many: as many as suffice to see it, or as ./dev test --long says.
inline std::size_t how_many(std::size_t enough) {
  const char* text = std::getenv("FIREBREAK_MANY");
  return text != nullptr ? std::strtoul(text, nullptr, 10) : enough;
}

}  // namespace firebreak::testing_support
