// Makes bytes smaller, for what is kept and seldom read: zstd, which Decompressor takes apart.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

std::string compress(std::string_view bytes);
// Code::corrupt for damaged data, and for more than `most` bytes.
Result<std::string> expand(std::string_view bytes, std::size_t most);

}  // namespace firebreak::wire
