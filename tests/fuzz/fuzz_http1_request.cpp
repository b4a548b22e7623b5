// HTTP/1.1 requests of any client: the same in any pieces, within limits, nothing ambiguous.
#include "http1_driver.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  firebreak::fuzz::drive_http1(firebreak::wire::Http1Parser::Role::request,
                               {reinterpret_cast<const char*>(data), size});
  return 0;
}
