// Text as characters where patterns need them: UTF-8 decoded, any other byte kept as a character of
// its own, so that every text comes back unchanged. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace firebreak::wire {

std::u32string to_characters(std::string_view text);
std::string to_bytes(std::u32string_view characters);

}  // namespace firebreak::wire
