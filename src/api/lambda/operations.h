// The operations of Lambda MicroVMs, API version 2025-09-09, as rows: method, path, answer's status
// and the table of their input. Constants; any thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/facade.h"
#include "api/lambda/shapes.h"

namespace firebreak::api::lambda {

struct Operation {
  std::string_view name;
  std::string_view method;
  std::string_view path;  // as Route::pattern
  int status = 200;
  Carries carries;  // reasons of states and builds may quote a guest
  std::span<const Member> input;
};

// With extensions a run may live longer and idle shorter than on AWS.
std::vector<Operation> operations(bool extensions = false);

}  // namespace firebreak::api::lambda
