// AWS Signature Version 4 without I/O. The verifying side: what a request claims, and whether the
// secret of the key it names agrees, in header form and as a presigned query. The signing side: the
// headers of a request of our own. Pure; any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "wire/h2_session.h"

namespace firebreak::wire {

// A request as it came: nothing decoded, nothing normalised.
struct SigV4Request {
  std::string_view method;
  std::string_view target;  // path and query
  std::string_view host;    // with the port, as sent
  const Headers& headers;   // names in lower case
};

struct SigV4Refusal {
  enum class Kind {
    missing,    // nothing is signed
    malformed,  // a signature that cannot be read
    skewed,     // signed too long ago or in the future
    expired,    // a presigned request after its time
    mismatch    // the signature is of something else, or of another secret
  };
  Kind kind = Kind::malformed;
  std::string message;
};
template <class T = void>
using SigV4Result = std::expected<T, SigV4Refusal>;

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
// How far the clocks may be apart; S3 allows more.
inline constexpr std::int64_t kSigV4Skew = 5L * 60;
inline constexpr std::int64_t kSigV4SkewOfS3 = 15L * 60;

// What a request says about itself; to be believed only after check_sigv4.
struct SigV4Claim {
  bool presigned = false;
  std::string access_key_id;
  std::string date;  // yyyymmdd
  std::string region;
  std::string service;
  std::vector<std::string> signed_headers;
  std::string signature;  // 64 lower-case hex digits
  std::string timestamp;  // yyyymmddThhmmssZ
  std::int64_t signed_at = 0;
  std::int64_t expires = 0;  // presigned: seconds
  std::string session_token;
  std::string payload_hash;  // as claimed: hex, UNSIGNED-PAYLOAD, STREAMING-...; "" when absent

  std::string scope() const;  // "20260101/eu-1/s3/aws4_request"
};

SigV4Result<SigV4Claim> read_sigv4(const SigV4Request& request);

// `payload_hash`: the claimed one, or of the body when none was claimed. `now` in Unix seconds.
SigV4Result<> check_sigv4(const SigV4Request& request, const SigV4Claim& claim,
                          std::string_view secret, std::string_view payload_hash, std::int64_t now);

struct SigV4Key {
  std::string access_key_id;
  std::string secret;
  std::string session_token;  // of short-lived credentials
};

// What a client adds to a request's headers to sign it: date, hash, token, and a signature of
// these, of the host and of every "x-amz-" header that the request has already.
Headers sign_sigv4(const SigV4Request& request, const SigV4Key& key, const std::string& region,
                   const std::string& service, const std::string& payload_hash, std::int64_t now);

// The parts, for chunk signatures.
std::string sigv4_signing_key(std::string_view secret, const SigV4Claim& claim);
std::string sigv4_canonical_request(const SigV4Request& request, const SigV4Claim& claim,
                                    std::string_view payload_hash);
std::string sigv4_signature(std::string_view signing_key, std::string_view string_to_sign);
std::string sigv4_string_to_sign(const SigV4Claim& claim, std::string_view canonical_request);

// "20260131T235959Z" as Unix seconds; -1 when it is no such time.
std::int64_t parse_amz_date(std::string_view text);
std::string amz_date(std::int64_t unix_seconds);

}  // namespace firebreak::wire
