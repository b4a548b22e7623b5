#include "image/guest_ca.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <set>

#include <openssl/x509.h>

#include "base/sys.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
constexpr std::size_t kLine = 64;
constexpr std::size_t kMaxCertificates = 5000;

// What is between the marks of each block, without white space: two certificates are the same if
// this is.
std::vector<std::string> bodies_of(std::string_view text) {
  std::vector<std::string> bodies;
  for (std::size_t at = text.find(kBegin); at != std::string_view::npos;
       at = text.find(kBegin, at)) {
    at += kBegin.size();
    const std::size_t end = text.find(kEnd, at);
    if (end == std::string_view::npos) break;
    std::string body(text.substr(at, end - at));
    std::erase_if(body, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
    bodies.push_back(std::move(body));
    at = end;
  }
  return bodies;
}

std::string block_of(const std::string& body) {
  std::string pem = std::string(kBegin) + "\n";
  for (std::size_t i = 0; i < body.size(); i += kLine) pem += body.substr(i, kLine) + "\n";
  return pem + std::string(kEnd) + "\n";
}

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
};

Result<std::string> subject_of(const std::string& body, std::size_t number) {
  const std::string der = wire::from_base64(body).value_or("");
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* const end = at + der.size();
  const std::unique_ptr<X509, FreeX509> certificate(
      d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (!certificate || at != end)
    return fail(Code::invalid,
                "certificate " + std::to_string(number) + " of the bundle cannot be read");
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%08lx", X509_subject_name_hash(certificate.get()));
  return std::string(text.data());
}

}  // namespace

Result<GuestCa> parse_guest_ca(std::string_view text) {
  GuestCa ca;
  std::set<std::string> seen;
  std::size_t number = 0;
  for (const std::string& body : bodies_of(text)) {
    ++number;
    if (!seen.insert(body).second) continue;
    FB_TRY_ASSIGN(std::string subject, subject_of(body, number));
    ca.certificates.push_back({.pem = block_of(body), .subject = std::move(subject)});
  }
  if (ca.certificates.empty())
    return fail(Code::invalid, "it holds no certificate in PEM form (BEGIN CERTIFICATE)");
  if (ca.certificates.size() > kMaxCertificates)
    return fail(Code::invalid,
                "it holds more than " + std::to_string(kMaxCertificates) + " certificates");
  ca.mark = {.sha256 = wire::sha256_hex(text), .certificates = ca.certificates.size()};
  return ca;
}

Result<std::optional<GuestCa>> read_guest_ca(const std::string& choice,
                                             const std::string& host_bundle) {
  if (choice == "none") return std::nullopt;
  const bool of_host = choice == "host";
  if (of_host && !sys::exists(host_bundle)) return std::nullopt;
  const std::string& file = of_host ? host_bundle : choice;
  auto text = sys::read_file(file);
  if (!text)
    return fail(text.error(), "--guest-ca must be 'host', 'none' or a PEM file that can be read");
  auto ca = parse_guest_ca(*text);
  if (!ca) return fail(ca.error(), "--guest-ca " + choice + ", " + file);
  ca->of_host = of_host;
  return ca;
}

std::vector<GuestCa::Certificate> beyond(std::string_view bundle, const GuestCa& ca) {
  std::set<std::string> there;
  for (const std::string& body : bodies_of(bundle)) there.insert(block_of(body));
  std::vector<GuestCa::Certificate> more;
  for (const GuestCa::Certificate& certificate : ca.certificates)
    if (!there.contains(certificate.pem)) more.push_back(certificate);
  return more;
}

std::string with_certificates(std::string_view bundle,
                              const std::vector<GuestCa::Certificate>& more) {
  std::string out(bundle);
  if (!out.empty() && !out.ends_with('\n')) out += '\n';
  for (const GuestCa::Certificate& certificate : more) out += certificate.pem;
  return out;
}

std::string united(std::string_view first, std::string_view second) {
  std::set<std::string> seen;
  std::string out;
  for (const std::string_view bundle : {first, second})
    for (const std::string& body : bodies_of(bundle))
      if (seen.insert(body).second) out += block_of(body);
  return out;
}

std::string describe(const GuestCa& ca) {
  return std::string("guests trust ") + (ca.of_host ? "the host's" : "the operator's") +
         " certificates: " + std::to_string(ca.mark.certificates) + " of them, sha256 " +
         ca.mark.sha256;
}

std::map<std::string, std::string> ca_environment() {
  return {{"NODE_EXTRA_CA_CERTS", kCaBundle},
          {"REQUESTS_CA_BUNDLE", kCaBundle},
          {"SSL_CERT_FILE", kCaBundle}};
}

std::map<std::string, std::string> lent_ca_environment(const std::string& path) {
  std::map<std::string, std::string> env;
  for (const char* name : {"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
                           "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
    env[name] = path;
  return env;
}

}  // namespace firebreak::image
