#include "net/tls_identity.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/sys.h"

namespace firebreak::net {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Deleter<X509_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Address = std::unique_ptr<ASN1_OCTET_STRING, Deleter<ASN1_OCTET_STRING_free>>;
using Number = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

constexpr long kDay = 24L * 60 * 60;
constexpr long kCaDays = 3650;
constexpr long kServerDays = 365;
constexpr long kRenewDays = 30;
constexpr std::size_t kMaxCommonName = 64;
constexpr mode_t kKeyMode = 0600;
constexpr mode_t kCertMode = 0644;

struct Pair {
  Cert cert;
  Key key;
};

std::unexpected<Error> openssl_failure(const std::string& doing) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return fail(Code::internal, doing, reason == nullptr ? "no reason given" : reason);
}

// "DNS:a,IP:127.0.0.1": OpenSSL's own notation, in which a comma or a line in a name would be read
// as another entry.
Result<std::string> alternative_names(const std::vector<std::string>& hostnames) {
  std::string out;
  for (const std::string& name : hostnames) {
    const bool plain = !name.empty() && name.size() <= 253 && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-._*:").find(c) != std::string_view::npos;
    });
    if (!plain) return fail(Code::invalid, "not a host name for a certificate: '" + name + "'");
    const Address address(a2i_IPADDRESS(name.c_str()));
    if (!address && name.find(':') != std::string::npos)
      return fail(Code::invalid, "not a host name for a certificate: '" + name + "'");
    out.append(out.empty() ? "" : ",").append(address ? "IP:" : "DNS:").append(name);
  }
  ERR_clear_error();
  if (out.empty()) return fail(Code::invalid, "a certificate needs a host name");
  return out;
}

Result<Cert> read_cert(const std::string& path) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Cert cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!cert) return fail(Code::corrupt, "not a certificate: " + path);
  return cert;
}

Result<Key> read_key(const std::string& path) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!key) return fail(Code::corrupt, "not a private key: " + path);
  return key;
}

Result<Pair> read_pair(const std::string& cert_file, const std::string& key_file) {
  Pair pair;
  FB_TRY_ASSIGN(pair.cert, read_cert(cert_file));
  FB_TRY_ASSIGN(pair.key, read_key(key_file));
  if (X509_check_private_key(pair.cert.get(), pair.key.get()) != 1) {
    ERR_clear_error();
    return fail(Code::corrupt, "the key " + key_file + " is not of " + cert_file);
  }
  return pair;
}

std::string text_of(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// The key first: a certificate whose key is missing is of no use, the reverse is repaired.
Result<> write_pair(const Pair& pair, const std::string& cert_file, const std::string& key_file) {
  const Bio key(BIO_new(BIO_s_mem()));
  const Bio cert(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(key.get(), pair.key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1 ||
      PEM_write_bio_X509(cert.get(), pair.cert.get()) != 1)
    return openssl_failure("cannot write a certificate");
  FB_TRY(sys::replace_file(key_file, text_of(key), kKeyMode));
  return sys::replace_file(cert_file, text_of(cert), kCertMode);
}

Result<> add_extension(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (!extension || X509_add_ext(cert, extension.get(), -1) != 1)
    return openssl_failure("cannot make a certificate's extension");
  return {};
}

// A certificate for a new key, not yet signed. Valid since a day ago: clocks differ.
Result<Pair> new_pair(const std::string& name, long days) {
  Pair pair{.cert = Cert(X509_new()), .key = Key(EVP_EC_gen("P-256"))};
  const Number serial(BN_new());
  X509* cert = pair.cert.get();
  if (!pair.cert || !pair.key || !serial ||
      BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(cert)) == nullptr)
    return openssl_failure("cannot make a key");
  X509_set_version(cert, X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(cert), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(cert), days * kDay);
  X509_set_pubkey(cert, pair.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.data()),
                             static_cast<int>(name.size()), -1, 0);
  return pair;
}

Result<> sign(X509* cert, EVP_PKEY* key) {
  if (X509_sign(cert, key, EVP_sha256()) == 0) return openssl_failure("cannot sign a certificate");
  return {};
}

Result<Pair> make_ca() {
  // A name of its own: two CAs of the same name confuse clients that know both.
  FB_TRY_ASSIGN(Pair ca, new_pair("Firebreak local CA " + sys::random_hex(4), kCaDays));
  X509* cert = ca.cert.get();
  X509_set_issuer_name(cert, X509_get_subject_name(cert));
  FB_TRY(add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  FB_TRY(add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign"));
  FB_TRY(add_extension(cert, cert, NID_subject_key_identifier, "hash"));
  FB_TRY(sign(cert, ca.key.get()));
  return ca;
}

Result<Pair> make_server(const Pair& ca, const std::string& hostname, const std::string& names) {
  FB_TRY_ASSIGN(Pair server, new_pair(hostname.substr(0, kMaxCommonName), kServerDays));
  X509* cert = server.cert.get();
  X509_set_issuer_name(cert, X509_get_subject_name(ca.cert.get()));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_basic_constraints, "critical,CA:FALSE"));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_key_usage, "critical,digitalSignature"));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_ext_key_usage, "serverAuth"));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_subject_key_identifier, "hash"));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_authority_key_identifier, "keyid:always"));
  FB_TRY(add_extension(cert, ca.cert.get(), NID_subject_alt_name, names));
  FB_TRY(sign(cert, ca.key.get()));
  return server;
}

// Whether the certificate still serves: by this CA, for these names, not about to expire.
bool is_current(X509* cert, X509* ca, const std::string& names) {
  std::time_t renew = std::time(nullptr) + kRenewDays * kDay;
  const Extension wanted(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()));
  const int at = X509_get_ext_by_NID(cert, NID_subject_alt_name, -1);
  const bool current = X509_verify(cert, X509_get0_pubkey(ca)) == 1 &&
                       X509_cmp_time(X509_get0_notAfter(cert), &renew) > 0 && wanted && at >= 0 &&
                       ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(wanted.get()),
                                             X509_EXTENSION_get_data(X509_get_ext(cert, at))) == 0;
  ERR_clear_error();
  return current;
}

Result<Pair> get_ca(const std::string& cert_file, const std::string& key_file) {
  // A CA that clients already trust is never replaced silently.
  if (sys::exists(cert_file)) return read_pair(cert_file, key_file);
  FB_TRY_ASSIGN(Pair ca, make_ca());
  FB_TRY(write_pair(ca, cert_file, key_file));
  return ca;
}

}  // namespace

Result<LocalIdentity> make_local_ca(const std::string& dir,
                                    const std::vector<std::string>& hostnames) {
  FB_TRY_ASSIGN(const std::string names, alternative_names(hostnames));
  FB_TRY(sys::mkdirs(dir, 0755));
  LocalIdentity identity{
      .ca_file = dir + "/ca.pem",
      .server = {.certificate_file = dir + "/server.pem", .key_file = dir + "/server.key"}};
  FB_TRY_ASSIGN(const Pair ca, get_ca(identity.ca_file, dir + "/ca.key"));
  const auto old = read_pair(identity.server.certificate_file, identity.server.key_file);
  if (old && is_current(old->cert.get(), ca.cert.get(), names)) return identity;
  FB_TRY_ASSIGN(const Pair server, make_server(ca, hostnames[0], names));
  FB_TRY(write_pair(server, identity.server.certificate_file, identity.server.key_file));
  return identity;
}

}  // namespace firebreak::net
