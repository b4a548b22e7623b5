// Scripts with which shells complete words of `firebreak`. Each asks the program itself
// (`firebreak complete-words`), which knows commands, options, ids and names. Values.
#pragma once

#include <string_view>

namespace firebreak::cli {

// Of "bash", "zsh" or "fish".
std::string_view completion_script(std::string_view shell);

}  // namespace firebreak::cli
