// Named steps of the engine's operations. A test may do harm at each (kill the process, fill the
// disk, delete a file) or let the next system call fail, and then look at what is left. In
// production the callbacks are empty. One executor sets them; any thread reaches steps.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"

namespace firebreak::machine {

class FaultPoints {
 public:
  using Callback = std::function<void(std::string_view point)>;
  void set(Callback callback) { callback_ = std::move(callback); }
  void reach(std::string_view point) const {
    if (callback_) callback_(point);
  }

  // What a disk does that a test cannot break by itself. The callback's error is the step's.
  using Check = std::function<Result<>(std::string_view point)>;
  void set_check(Check check) { check_ = std::move(check); }
  Result<> check(std::string_view point) const { return check_ ? check_(point) : Result<>(); }

 private:
  Callback callback_;
  Check check_;
};

}  // namespace firebreak::machine
