// Results of code that are no plain text: written to files, or shown in terminals that can show
// pictures. What they hold comes from a guest: no name and no byte of it reaches a path or,
// undecoded, the terminal. Pure but for the files; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::cli {

// Text that a terminal shows as it is: text, markdown, json.
bool is_plain(std::string_view kind);

// Result `data` of that kind as a new file in the directory, which is made when it is missing:
// result-1.png, or the next number that is free. Its path.
Result<std::string> save_result(const std::string& directory, std::string_view kind,
                                const std::string& data);

enum class Pictures { none, kitty, iterm };
// What the terminal understands, by TERM, TERM_PROGRAM and KITTY_WINDOW_ID.
Pictures pictures_of(std::string_view term, std::string_view program, bool kitty_window);

// What makes the terminal show the picture; nothing when it cannot.
std::optional<std::string> picture_text(Pictures how, std::string_view kind,
                                        const std::string& data);

}  // namespace firebreak::cli
