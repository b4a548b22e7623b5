// HTTP/2 server session against a hostile client (any HTTP/2 listener, and the agent).
#include "h2_driver.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  firebreak::fuzz::H2Driver driver(true);
  driver.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
