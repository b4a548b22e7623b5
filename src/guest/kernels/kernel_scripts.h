// The kernels of this folder, as text; kernel_scripts.cpp is made from them by CMake.
#pragma once

#include <string_view>

namespace firebreak::guest {

extern const std::string_view kPythonKernel;
extern const std::string_view kBashKernel;
extern const std::string_view kNodeKernel;

}  // namespace firebreak::guest
