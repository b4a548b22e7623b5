// A terminal over WebSocket for a client with a shell token. The client is authenticated, the guest
// is hostile. One executor.
#pragma once

#include "ingress/route.h"
#include "session/guest.h"

namespace firebreak::ingress {

// The server sends text {"type":"session_init","session_id":...}, then binary frames are the
// terminal's bytes both ways. Text {"type":"resize","cols":C,"rows":R} resizes; other text is
// typed. When the shell ends the close is 1000 "shell exited".
net::Task<Result<>> serve_shell(net::HttpExchange& exchange, const Route& route,
                                const session::Guest& guest);

}  // namespace firebreak::ingress
