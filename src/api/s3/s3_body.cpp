#include "api/s3/s3_body.h"

#include <span>

#include "base/text.h"
#include "wire/http1.h"

namespace firebreak::api {
namespace {

std::string hex(const std::string& bytes) {
  return to_hex(std::as_bytes(std::span(bytes)));
}

std::unexpected<AwsError> bad_digest(const std::string& what) {
  return refuse("BadDigest", 400, "The " + what + " you specified did not match what we received");
}

constexpr std::string_view kChecksumPrefix = "x-amz-checksum-";

}  // namespace

// Which checksum is announced: a header with its value, or a trailer's name.
AwsResult<> S3Body::read_checksums(const AwsCall& call) {
  std::string header(call.header("x-amz-trailer"));
  in_trailer_ = !header.empty();
  for (const wire::HeaderField& field : call.exchange.request().headers) {
    if (!in_trailer_ && field.name.starts_with(kChecksumPrefix) &&
        wire::parse_checksum(std::string_view(field.name).substr(kChecksumPrefix.size()))) {
      header = field.name;
      announced_ = field.value;
    }
  }
  if (header.empty()) return {};
  header = wire::to_lower(header);
  const auto kind =
      header.starts_with(kChecksumPrefix)
          ? wire::parse_checksum(std::string_view(header).substr(kChecksumPrefix.size()))
          : std::nullopt;
  if (!kind || (in_trailer_ && !chunks_))
    return refuse("InvalidRequest", 400, "The value specified in x-amz-trailer is not supported");
  checksum_.emplace(*kind);
  checksum_header_ = header;
  return {};
}

AwsResult<S3Body> S3Body::from(const AwsCall& call) {
  S3Body body;
  const std::string& hash = call.claim.payload_hash;
  const bool chunked = hash.starts_with("STREAMING-");
  const auto length =
      parse_u64(call.header(chunked ? "x-amz-decoded-content-length" : "content-length"));
  if (!length)
    return refuse("MissingContentLength", 411, "You must provide the Content-Length HTTP header.");
  body.size_ = *length;
  if (chunked) {
    FB_TRY_ASSIGN(wire::AwsChunkedFraming framing, wire::aws_chunked_framing(hash));
    framing.signing_key = call.signing_key;
    framing.timestamp = call.claim.timestamp;
    framing.scope = call.claim.scope();
    framing.seed_signature = call.claim.signature;
    body.chunks_.emplace(std::move(framing), *length);
  } else if (!hash.empty() && hash != wire::kUnsignedPayload) {
    body.payload_hash_ = hash;
    body.sha256_.emplace(wire::Checksum::Kind::sha256);
  }
  body.content_md5_ = call.header("content-md5");
  if (auto read = body.read_checksums(call); !read) return std::unexpected(read.error());
  return body;
}

AwsResult<> S3Body::feed(std::string_view bytes, std::string& out) {
  const std::size_t before = out.size();
  if (chunks_) {
    if (auto fed = chunks_->feed(bytes, out); !fed)
      return fed.error().code == Code::denied
                 ? AwsResult<>(refuse("SignatureDoesNotMatch", 403, fed.error().message))
                 : AwsResult<>(refuse("InvalidRequest", 400, fed.error().message));
  } else {
    out += bytes;
  }
  const std::string_view added = std::string_view(out).substr(before);
  seen_ += added.size();
  md5_.update(added);
  if (sha256_) sha256_->update(added);
  if (checksum_) checksum_->update(added);
  return {};
}

AwsResult<> S3Body::finish() {
  if (seen_ != size_ || (chunks_ && !chunks_->done()))
    return refuse("IncompleteBody", 400,
                  "You did not provide the number of bytes specified by the Content-Length HTTP "
                  "header");
  if (sha256_ && hex(sha256_->finish()) != payload_hash_)
    return refuse("XAmzContentSHA256Mismatch", 400,
                  "The provided 'x-amz-content-sha256' header does not match what was computed.");
  const std::string md5 = md5_.finish();
  etag_ = hex(md5);
  if (!content_md5_.empty() && wire::base64(md5) != content_md5_) return bad_digest("Content-MD5");
  if (!checksum_) return {};
  if (in_trailer_) announced_ = wire::find_header(chunks_->trailers(), checksum_header_);
  const std::string computed = wire::base64(checksum_->finish());
  if (announced_ != computed) return bad_digest(checksum_header_);
  verified_[checksum_header_] = computed;
  return {};
}

}  // namespace firebreak::api
