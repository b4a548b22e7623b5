// A body on its way into S3: framing, hashes and checksums that the request announced, checked as
// the bytes pass. Owned by the request; one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/aws/aws_call.h"
#include "wire/aws_chunked.h"
#include "wire/checksum.h"

namespace firebreak::api {

class S3Body {
 public:
  // Code::invalid or a named refusal for headers that do not fit together.
  static AwsResult<S3Body> from(const AwsCall& call);

  // Bytes of the object, as declared.
  std::uint64_t size() const { return size_; }
  // Decodes a piece; the object's bytes are appended.
  AwsResult<> feed(std::string_view bytes, std::string& out);
  // At the end: everything that was announced must agree.
  AwsResult<> finish();
  std::string etag() const { return etag_; }
  const std::map<std::string, std::string>& checksums() const { return verified_; }

 private:
  S3Body() = default;
  AwsResult<> read_checksums(const AwsCall& call);

  std::uint64_t size_ = 0;
  std::uint64_t seen_ = 0;
  std::optional<wire::AwsChunkedDecoder> chunks_;
  wire::Checksum md5_{wire::Checksum::Kind::md5};
  std::string content_md5_;  // base64, as announced
  std::string payload_hash_;
  std::optional<wire::Checksum> sha256_;
  std::optional<wire::Checksum> checksum_;
  std::string checksum_header_;
  std::string announced_;  // its value; empty when it comes as a trailer
  bool in_trailer_ = false;
  std::string etag_;
  std::map<std::string, std::string> verified_;
};

}  // namespace firebreak::api
