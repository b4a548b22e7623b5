// Certificates that guests trust beside those of their images: what --guest-ca names, and how it is
// joined with a bundle that is there already. Values and functions of texts, but for
// read_guest_ca; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::image {

// Where Debian's programs look.
inline constexpr const char* kCaBundle = "/etc/ssl/certs/ca-certificates.crt";

// Which bundle it was, for keys, records and logs.
struct CaMark {
  std::string sha256;  // of the file, in hex; empty: there is none
  std::uint64_t certificates = 0;
  friend bool operator==(const CaMark&, const CaMark&) = default;
};

struct GuestCa {
  struct Certificate {
    std::string pem;      // one block, with the end of its last line
    std::string subject;  // OpenSSL's hash of it, by which a directory of certificates is searched
  };
  CaMark mark;
  bool of_host = false;                   // or a file that the operator named
  std::vector<Certificate> certificates;  // each once
  // The same with those of Debian, for images without a bundle that is known to have them.
  std::string bundle;
};

// Code::invalid for a text without certificates, or with an unreadable one. Leaves out everything
// else in the text, such as a private key.
Result<GuestCa> parse_guest_ca(std::string_view text);
// `choice` as of --guest-ca: "none", "host" or a file. Nothing for "none", and for a host that has
// no bundle.
Result<std::optional<GuestCa>> read_guest_ca(const std::string& choice,
                                             const std::string& host_bundle = kCaBundle);

// Those that a bundle lacks. A bundle from a guest is only compared as text, never decoded.
std::vector<GuestCa::Certificate> beyond(std::string_view bundle, const GuestCa& ca);
// The bundle with `more` behind it.
std::string with_certificates(std::string_view bundle,
                              const std::vector<GuestCa::Certificate>& more);
// The blocks of `first`, then those of `second` that are not among them.
std::string united(std::string_view first, std::string_view second);

// "guests trust the host's certificates: 144 of them, sha256 ..."
std::string describe(const GuestCa& ca);

// What programs need to be told that do not look where Debian's do, of an image whose own bundle
// has the certificates.
std::map<std::string, std::string> ca_environment();
// For one command, in an image that may have no bundle: everything is told where it lies.
std::map<std::string, std::string> lent_ca_environment(const std::string& path);

}  // namespace firebreak::image
