// Records where the time of an operation goes. Value; one thread.
#pragma once

#include <chrono>
#include <string>

#include "machine/engine.h"

namespace firebreak::machine {

class Stopwatch {
 public:
  // The phase that ends now.
  void lap(std::string name) {
    const auto now = std::chrono::steady_clock::now();
    phases_.push_back(
        {std::move(name), std::chrono::duration_cast<std::chrono::microseconds>(now - last_)});
    last_ = now;
  }
  const Phases& phases() const { return phases_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  Phases phases_;
};

}  // namespace firebreak::machine
