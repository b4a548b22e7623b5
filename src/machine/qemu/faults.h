// Named steps of the engine's operations. A test may do harm at each (kill the process, fill the
// disk, delete a file) and then look at what is left. In production the callback is empty. One
// executor.
#pragma once

#include <functional>
#include <string_view>

namespace firebreak::machine {

class FaultPoints {
 public:
  using Callback = std::function<void(std::string_view point)>;
  void set(Callback callback) { callback_ = std::move(callback); }
  void reach(std::string_view point) const {
    if (callback_) callback_(point);
  }

 private:
  Callback callback_;
};

}  // namespace firebreak::machine
