// The certificate of an installation that was given none: a local CA and a server certificate
// signed by it, kept as files in one directory. Blocking; any thread.
#pragma once

#include <string>
#include <vector>

#include "net/http_server.h"

namespace firebreak::net {

struct LocalIdentity {
  std::string ca_file;  // what clients trust
  TlsFiles server;
};

// Uses what is in `dir` (ca.pem, ca.key, server.pem, server.key), makes what is missing, and issues
// the server's certificate anew when it expires within 30 days, is for other names, or is not by
// this CA. Names are DNS names ("*.box.test" too) or IP addresses. Both keys are EC P-256, mode
// 0600; the CA lives 10 years, the certificate one.
Result<LocalIdentity> make_local_ca(const std::string& dir,
                                    const std::vector<std::string>& hostnames);

}  // namespace firebreak::net
