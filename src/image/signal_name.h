// Signals as STOPSIGNAL writes them. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

namespace firebreak::image {

// "SIGTERM", "term", "RTMIN+3" or "15".
std::optional<int> signal_number(std::string_view text);

}  // namespace firebreak::image
