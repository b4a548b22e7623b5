// Disks that images stand on, kept where the images are: an image goes on when the directory it was
// made from moves, is removed, or gets other disks. Blocking; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace firebreak::machine {

// A link in `directory` to the very file that `disk` leads to, made if it is missing; the same name
// for the same file. Where the file system cannot link it: the file itself, behind all links. A
// disk that is not there stays as it is named.
Result<std::string> keep_base(const std::string& disk, const std::string& directory);

}  // namespace firebreak::machine
