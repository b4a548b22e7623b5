// Lines of the monitor (an escaped guest may write them): parsed or refused with the guest's code,
// never more.
#include <cstdlib>

#include "machine/qemu/qmp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using firebreak::machine::Qmp;
  const auto line = Qmp::parse_line({reinterpret_cast<const char*>(data), size});
  if (!line) {
    if (line.error().code != firebreak::Code::guest) std::abort();
    return 0;
  }
  // An answer goes to whoever asked for this id; what is not an answer must not end anybody's wait.
  if (!line->id && !line->answer) std::abort();
  if (line->id && line->answer) (void)firebreak::json::serialize(*line->answer);
  return 0;
}
