// A TCP connection to a port in the tenant's network namespace, carried by an HTTP stream. Data
// thread, which is in that namespace.
#pragma once

#include <memory>

#include "guest/accept_line.h"
#include "guest/exchange.h"
#include "guest/reactor.h"

namespace firebreak::guest {

std::unique_ptr<StreamHandler> open_tunnel(Reactor& reactor, AcceptLine& line,
                                           const Request& request,
                                           const std::shared_ptr<Exchange>& exchange);

}  // namespace firebreak::guest
