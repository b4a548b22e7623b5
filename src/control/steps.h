// Named steps of what the server does: a test ends a whole server at one of them, or looks at what
// is written there. Owned by whoever wires the program; the function may be called on any thread.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

namespace firebreak::control {

class Steps {
 public:
  Steps() = default;
  explicit Steps(std::function<void(std::string_view point)> told) : told_(std::move(told)) {}
  void reach(std::string_view point) const {
    if (told_) told_(point);
  }

 private:
  std::function<void(std::string_view)> told_;
};

}  // namespace firebreak::control
