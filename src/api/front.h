// All façades behind one listener, in an order that is written down once: the first that claims a
// request answers it. Owned by the server; one executor.
#pragma once

#include <memory>
#include <vector>

#include "api/facade.h"
#include "base/result.h"

namespace firebreak::api {

class Front {
 public:
  // Code::internal for a façade that does not say what it serves: it would not be started.
  Result<> add(std::unique_ptr<Facade> facade);
  net::Task<void> handle(net::HttpExchange& exchange);

 private:
  // GET /surfaces: what every façade can be asked, and what of guests it carries.
  net::Task<void> reply_surfaces(net::HttpExchange& exchange) const;

  std::vector<std::unique_ptr<Facade>> facades_;
};

}  // namespace firebreak::api
