// HTTP/2 client session against a hostile server (the host's end of a channel to a hostile guest).
#include "h2_driver.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  firebreak::fuzz::H2Driver driver(false);
  driver.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
