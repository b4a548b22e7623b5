// A public API on top of the same core. It translates names, errors and framing, and decides
// nothing. The Front asks each one in turn whether a request is for it. Owned by the server; one
// executor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace firebreak::api {

// What of a guest the answers of a route carry. A handler gets into guests only on a route that
// says that it carries something of them.
enum class Carries : std::uint8_t {
  nothing,      // records and settings of the server
  guest_bytes,  // what a guest printed, wrote or said: it passed the outlet
  traffic,      // the application's own connections: the outlet counts them
};

// One thing that a façade can be asked.
struct Surface {
  std::string name;  // "POST /v1/microvms/{id}/exec", "lambda:GetMicrovm"
  Carries carries;
};

class Facade {
 public:
  virtual ~Facade() = default;
  virtual std::string_view name() const = 0;
  // The request is for this façade. Asked in the order of the Front's list.
  virtual bool claims(const net::HttpRequest& request, const net::Target& target) const = 0;
  virtual net::Task<void> handle(net::HttpExchange& exchange, net::Target target) = 0;
  // Everything it can be asked.
  virtual std::vector<Surface> surface() const = 0;
};

}  // namespace firebreak::api
