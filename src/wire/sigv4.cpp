#include "wire/sigv4.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "wire/crypto.h"

namespace firebreak::wire {
namespace {

using Kind = SigV4Refusal::Kind;

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::size_t kMaxSignedHeaders = 128;
constexpr std::int64_t kMaxExpires = 7L * 24 * 3600;

std::unexpected<SigV4Refusal> refuse(Kind kind, std::string message) {
  return std::unexpected(SigV4Refusal{kind, std::move(message)});
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

struct SplitTarget {
  std::string_view path;
  std::string_view query;
};

SplitTarget split_target(std::string_view target) {
  const auto at = target.find('?');
  if (at == std::string_view::npos) return {target, {}};
  return {target.substr(0, at), target.substr(at + 1)};
}

using Pair = std::pair<std::string_view, std::string_view>;

// Still encoded.
std::vector<Pair> query_pairs(std::string_view query) {
  std::vector<Pair> pairs;
  for (std::string_view part : split(query, '&')) {
    if (part.empty()) continue;
    const auto at = part.find('=');
    pairs.emplace_back(part.substr(0, at),
                       at == std::string_view::npos ? std::string_view() : part.substr(at + 1));
  }
  return pairs;
}

std::optional<std::string> query_value(const std::vector<Pair>& pairs, std::string_view name) {
  const auto at = std::ranges::find(pairs, name, &Pair::first);
  if (at == pairs.end()) return std::nullopt;
  return percent_decode(at->second);
}

SigV4Result<> read_credential(std::string_view credential, SigV4Claim& claim) {
  const auto parts = split(credential, '/');
  if (parts.size() != 5 || parts[4] != "aws4_request" ||
      std::ranges::any_of(parts, [](std::string_view part) { return part.empty(); }))
    return refuse(Kind::malformed, "Credential must be KEY/DATE/REGION/SERVICE/aws4_request");
  claim.access_key_id = parts[0];
  claim.date = parts[1];
  claim.region = parts[2];
  claim.service = parts[3];
  return {};
}

SigV4Result<> read_signed_headers(std::string_view list, SigV4Claim& claim) {
  for (std::string_view name : split(list, ';')) {
    if (name.empty() || claim.signed_headers.size() == kMaxSignedHeaders ||
        std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; }))
      return refuse(Kind::malformed, "SignedHeaders must be a list of lower-case names");
    claim.signed_headers.emplace_back(name);
  }
  return {};
}

SigV4Result<> read_authorization(std::string_view value, SigV4Claim& claim) {
  value.remove_prefix(kAlgorithm.size());
  std::string_view credential;
  std::string_view headers;
  std::string_view signature;
  for (std::string_view part : split(value, ',')) {
    part = trim(part);
    const auto at = part.find('=');
    const std::string_view name = part.substr(0, at);
    const std::string_view text = at == std::string_view::npos ? "" : part.substr(at + 1);
    if (name == "Credential") credential = text;
    if (name == "SignedHeaders") headers = text;
    if (name == "Signature") signature = text;
  }
  if (credential.empty() || headers.empty() || signature.empty())
    return refuse(Kind::malformed,
                  "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature'");
  if (auto read = read_credential(credential, claim); !read) return read;
  claim.signature = signature;
  return read_signed_headers(headers, claim);
}

SigV4Result<> read_query(const std::vector<Pair>& pairs, SigV4Claim& claim) {
  claim.presigned = true;
  const auto credential = query_value(pairs, "X-Amz-Credential");
  const auto headers = query_value(pairs, "X-Amz-SignedHeaders");
  const auto expires = query_value(pairs, "X-Amz-Expires");
  const auto seconds = expires ? parse_u64(*expires) : std::nullopt;
  if (query_value(pairs, "X-Amz-Algorithm") != kAlgorithm || !credential || !headers || !seconds)
    return refuse(Kind::malformed,
                  "a presigned request needs X-Amz-Algorithm, X-Amz-Credential, X-Amz-Date, "
                  "X-Amz-Expires, X-Amz-SignedHeaders and X-Amz-Signature");
  if (*seconds == 0 || *seconds > static_cast<std::uint64_t>(kMaxExpires))
    return refuse(Kind::malformed, "X-Amz-Expires must be 1 to 604800 seconds");
  if (auto read = read_credential(*credential, claim); !read) return read;
  claim.expires = static_cast<std::int64_t>(*seconds);
  claim.signature = query_value(pairs, "X-Amz-Signature").value_or("");
  claim.timestamp = query_value(pairs, "X-Amz-Date").value_or("");
  claim.session_token = query_value(pairs, "X-Amz-Security-Token").value_or("");
  claim.payload_hash = query_value(pairs, "X-Amz-Content-Sha256").value_or("");
  return read_signed_headers(*headers, claim);
}

// What could be added to a signed request without breaking its signature must not mean anything.
SigV4Result<> check_signed_headers(const SigV4Request& request, const SigV4Claim& claim) {
  const auto is_signed = [&claim](std::string_view name) {
    return std::ranges::find(claim.signed_headers, name) != claim.signed_headers.end();
  };
  if (!is_signed("host")) return refuse(Kind::malformed, "the host header must be signed");
  for (const HeaderField& header : request.headers) {
    if (header.name.starts_with("x-amz-") && !is_signed(header.name))
      return refuse(Kind::mismatch, "the header " + header.name + " must be signed");
  }
  return {};
}

// As the services but S3 see a path: no empty segments, no dots, and encoded once more.
std::string normalised_path(std::string_view path) {
  std::vector<std::string_view> kept;
  for (std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
    } else {
      kept.push_back(part);
    }
  }
  std::string out;
  for (std::string_view part : kept) out += "/" + percent_encode(part, "");
  if (out.empty() || path.ends_with('/')) out += '/';
  return out;
}

std::string canonical_path(std::string_view path, std::string_view service) {
  if (service != "s3") return normalised_path(path);
  // Clients differ in what they leave unencoded on the wire; what is signed is one form.
  const auto decoded = percent_decode(path);
  return decoded ? percent_encode(*decoded) : std::string(path);
}

std::string canonical_query(std::string_view query, bool presigned) {
  std::vector<Pair> pairs = query_pairs(query);
  if (presigned)
    std::erase_if(pairs, [](const Pair& pair) { return pair.first == "X-Amz-Signature"; });
  std::ranges::sort(pairs);
  std::string out;
  for (const auto& [name, value] : pairs) {
    if (!out.empty()) out += '&';
    out += name;
    out += '=';
    out += value;
  }
  return out;
}

void put_collapsed(std::string_view value, std::string& out) {
  bool space = false;
  for (char c : trim(value)) {
    if (c == ' ' && space) continue;
    space = c == ' ';
    out += c;
  }
}

std::string header_value(const SigV4Request& request, std::string_view name) {
  std::string out;
  if (name == "host") {
    put_collapsed(request.host, out);
    return out;
  }
  bool first = true;
  for (const HeaderField& header : request.headers) {
    if (header.name != name) continue;
    if (!first) out += ',';
    first = false;
    put_collapsed(header.value, out);
  }
  return out;
}

}  // namespace

std::string SigV4Claim::scope() const {
  return date + "/" + region + "/" + service + "/aws4_request";
}

std::int64_t parse_amz_date(std::string_view text) {
  if (text.size() != 16 || text[8] != 'T' || text[15] != 'Z') return -1;
  const auto number = [text](std::size_t at, std::size_t size) {
    return parse_u64(text.substr(at, size));
  };
  const auto year = number(0, 4);
  const auto month = number(4, 2);
  const auto day = number(6, 2);
  const auto hour = number(9, 2);
  const auto minute = number(11, 2);
  const auto second = number(13, 2);
  if (!year || !month || !day || !hour || !minute || !second) return -1;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) return -1;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return (days * 86400L) + static_cast<std::int64_t>((*hour * 3600) + (*minute * 60) + *second);
}

std::string amz_date(std::int64_t unix_seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const auto two = [](std::int64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  std::string year = std::to_string(static_cast<int>(date.year()));
  year.insert(0, year.size() < 4 ? 4 - year.size() : 0, '0');
  return year + two(static_cast<unsigned>(date.month())) + two(static_cast<unsigned>(date.day())) +
         "T" + two(clock.hours().count()) + two(clock.minutes().count()) +
         two(clock.seconds().count()) + "Z";
}

SigV4Result<SigV4Claim> read_sigv4(const SigV4Request& request) {
  SigV4Claim claim;
  const std::string_view authorization = find_header(request.headers, "authorization");
  const auto pairs = query_pairs(split_target(request.target).query);
  if (authorization.starts_with(kAlgorithm)) {
    if (auto read = read_authorization(authorization, claim); !read)
      return std::unexpected(read.error());
    claim.timestamp = find_header(request.headers, "x-amz-date");
    claim.session_token = find_header(request.headers, "x-amz-security-token");
  } else if (authorization.empty() && query_value(pairs, "X-Amz-Algorithm")) {
    if (auto read = read_query(pairs, claim); !read) return std::unexpected(read.error());
    if (claim.session_token.empty())
      claim.session_token = find_header(request.headers, "x-amz-security-token");
  } else {
    return refuse(Kind::missing, "Missing Authentication Token");
  }
  if (claim.payload_hash.empty())
    claim.payload_hash = find_header(request.headers, "x-amz-content-sha256");
  claim.signed_at = parse_amz_date(claim.timestamp);
  if (claim.signed_at < 0)
    return refuse(Kind::malformed, "X-Amz-Date must be present, as yyyymmddThhmmssZ");
  if (!claim.timestamp.starts_with(claim.date) || claim.date.size() != 8)
    return refuse(Kind::malformed, "the date in Credential must be that of X-Amz-Date");
  if (claim.signature.size() != 64 || !is_lower_hex(claim.signature))
    return refuse(Kind::malformed, "Signature must be 64 hexadecimal digits");
  return claim;
}

std::string sigv4_canonical_request(const SigV4Request& request, const SigV4Claim& claim,
                                    std::string_view payload_hash) {
  const SplitTarget target = split_target(request.target);
  std::string out(request.method);
  out += "\n" + canonical_path(target.path, claim.service) + "\n" +
         canonical_query(target.query, claim.presigned) + "\n";
  std::string names;
  for (const std::string& name : claim.signed_headers) {
    out += name + ":" + header_value(request, name) + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  out += "\n" + names + "\n" + std::string(payload_hash);
  return out;
}

std::string sigv4_string_to_sign(const SigV4Claim& claim, std::string_view canonical_request) {
  return std::string(kAlgorithm) + "\n" + claim.timestamp + "\n" + claim.scope() + "\n" +
         sha256_hex(canonical_request);
}

std::string sigv4_signing_key(std::string_view secret, const SigV4Claim& claim) {
  std::string key = hmac_sha256("AWS4" + std::string(secret), claim.date);
  key = hmac_sha256(key, claim.region);
  key = hmac_sha256(key, claim.service);
  return hmac_sha256(key, "aws4_request");
}

std::string sigv4_signature(std::string_view signing_key, std::string_view string_to_sign) {
  const std::string mac = hmac_sha256(signing_key, string_to_sign);
  return to_hex(std::as_bytes(std::span(mac)));
}

SigV4Result<> check_sigv4(const SigV4Request& request, const SigV4Claim& claim,
                          std::string_view secret, std::string_view payload_hash,
                          std::int64_t now) {
  const std::int64_t skew = claim.service == "s3" ? kSigV4SkewOfS3 : kSigV4Skew;
  if (claim.signed_at > now + skew)
    return refuse(Kind::skewed, "Signature not yet current: " + claim.timestamp +
                                    " is still later than " + amz_date(now + skew));
  if (claim.presigned) {
    if (now > claim.signed_at + claim.expires) return refuse(Kind::expired, "Request has expired");
  } else if (now > claim.signed_at + skew) {
    return refuse(Kind::skewed, "Signature expired: " + claim.timestamp + " is now earlier than " +
                                    amz_date(now - skew));
  }
  if (auto complete = check_signed_headers(request, claim); !complete) return complete;
  const std::string canonical = sigv4_canonical_request(request, claim, payload_hash);
  const std::string expected =
      sigv4_signature(sigv4_signing_key(secret, claim), sigv4_string_to_sign(claim, canonical));
  if (!equal_secrets(expected, claim.signature)) {
    return refuse(Kind::mismatch,
                  "The request signature we calculated does not match the signature you provided. "
                  "Check your AWS Secret Access Key and signing method.");
  }
  return {};
}

Headers sign_sigv4(const SigV4Request& request, const SigV4Key& key, const std::string& region,
                   const std::string& service, const std::string& payload_hash, std::int64_t now) {
  SigV4Claim claim;
  claim.timestamp = amz_date(now);
  claim.date = claim.timestamp.substr(0, 8);
  claim.region = region;
  claim.service = service;
  Headers added{{"x-amz-content-sha256", payload_hash}, {"x-amz-date", claim.timestamp}};
  if (!key.session_token.empty()) added.push_back({"x-amz-security-token", key.session_token});
  Headers all = request.headers;
  all.insert(all.end(), added.begin(), added.end());
  claim.signed_headers = {"host"};
  for (const HeaderField& header : all)
    if (header.name.starts_with("x-amz-")) claim.signed_headers.push_back(header.name);
  std::ranges::sort(claim.signed_headers);
  const SigV4Request complete{request.method, request.target, request.host, all};
  const std::string canonical = sigv4_canonical_request(complete, claim, payload_hash);
  std::string names;
  for (const std::string& name : claim.signed_headers) names += (names.empty() ? "" : ";") + name;
  added.push_back({"authorization", std::string(kAlgorithm) + " Credential=" + key.access_key_id +
                                        "/" + claim.scope() + ", SignedHeaders=" + names +
                                        ", Signature=" +
                                        sigv4_signature(sigv4_signing_key(key.secret, claim),
                                                        sigv4_string_to_sign(claim, canonical))});
  return added;
}

}  // namespace firebreak::wire
