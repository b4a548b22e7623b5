#include "wire/aws_chunked.h"

#include <algorithm>
#include <span>

#include "base/text.h"
#include "wire/crypto.h"
#include "wire/http1.h"
#include "wire/sigv4.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kMaxLine = 1024;
constexpr std::size_t kMaxTrailers = 16;
constexpr std::string_view kSignature = "chunk-signature=";

std::optional<std::uint64_t> parse_hex_size(std::string_view text) {
  if (text.empty() || text.size() > 12) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = (value << 4) | (digit < 16 ? digit : digit - 6);
  }
  return value;
}

std::string hex(const std::string& bytes) {
  return to_hex(std::as_bytes(std::span(bytes)));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Result<AwsChunkedFraming> aws_chunked_framing(std::string_view payload_hash) {
  AwsChunkedFraming framing;
  framing.signed_chunks = payload_hash.starts_with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
  framing.trailer = payload_hash.ends_with("-TRAILER");
  if (payload_hash != "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" &&
      payload_hash != "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" &&
      payload_hash != "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    return fail(Code::invalid, "x-amz-content-sha256 has a value that is not supported");
  return framing;
}

AwsChunkedDecoder::AwsChunkedDecoder(AwsChunkedFraming framing, std::uint64_t decoded_length)
    : framing_(std::move(framing)), expected_(decoded_length) {}

Result<bool> AwsChunkedDecoder::take_line(std::string_view& bytes) {
  const auto at = bytes.find('\n');
  line_ += bytes.substr(0, at);
  bytes.remove_prefix(at == std::string_view::npos ? bytes.size() : at + 1);
  if (line_.size() > kMaxLine) return fail(Code::invalid, "aws-chunked: a line is too long");
  if (at == std::string_view::npos) return false;
  if (!line_.ends_with('\r')) return fail(Code::invalid, "aws-chunked: a line must end in CR LF");
  line_.pop_back();
  return true;
}

Result<> AwsChunkedDecoder::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    if (state_ == State::done)
      return fail(Code::invalid, "aws-chunked: bytes follow the last chunk");
    if (state_ == State::data) {
      const std::string_view part = bytes.substr(0, left_);
      out += part;
      if (framing_.signed_chunks) chunk_hash_.update(part);
      left_ -= part.size();
      bytes.remove_prefix(part.size());
      if (left_ == 0) state_ = State::data_end;
      continue;
    }
    FB_TRY_ASSIGN(const bool complete, take_line(bytes));
    if (!complete) continue;
    FB_TRY(on_line());
    line_.clear();
  }
  return {};
}

Result<> AwsChunkedDecoder::on_line() {
  if (state_ == State::size) return chunk_line();
  if (state_ == State::trailers) return trailer_line();
  if (!line_.empty()) return fail(Code::invalid, "aws-chunked: a chunk is longer than it says");
  return chunk_end();
}

Result<> AwsChunkedDecoder::chunk_line() {
  const auto at = line_.find(';');
  const auto size = parse_hex_size(std::string_view(line_).substr(0, at));
  if (!size) return fail(Code::invalid, "aws-chunked: a chunk has no size");
  const std::string_view extension =
      at == std::string::npos ? std::string_view() : std::string_view(line_).substr(at + 1);
  chunk_signature_ = extension.starts_with(kSignature) ? extension.substr(kSignature.size()) : "";
  if (*size > expected_ - seen_)
    return fail(Code::invalid, "aws-chunked: more bytes than x-amz-decoded-content-length says");
  seen_ += *size;
  left_ = *size;
  last_ = *size == 0;
  if (!last_) {
    state_ = State::data;
    return {};
  }
  FB_TRY(chunk_end());
  state_ = State::trailers;
  return {};
}

Result<> AwsChunkedDecoder::check_signature(std::string_view algorithm, std::string_view hashes,
                                            std::string_view given) {
  const std::string expected =
      sigv4_signature(framing_.signing_key,
                      std::string(algorithm) + "\n" + framing_.timestamp + "\n" + framing_.scope +
                          "\n" + framing_.seed_signature + "\n" + std::string(hashes));
  if (!equal_secrets(expected, given))
    return fail(Code::denied, "aws-chunked: the signature of a chunk does not match");
  framing_.seed_signature = expected;
  return {};
}

Result<> AwsChunkedDecoder::chunk_end() {
  state_ = State::size;
  if (!framing_.signed_chunks) return {};
  const std::string hash = hex(chunk_hash_.finish());
  chunk_hash_ = Checksum(Checksum::Kind::sha256);
  return check_signature("AWS4-HMAC-SHA256-PAYLOAD", sha256_hex("") + "\n" + hash,
                         chunk_signature_);
}

Result<> AwsChunkedDecoder::trailer_line() {
  if (line_.empty()) return last();
  const auto at = line_.find(':');
  if (!framing_.trailer || at == std::string::npos || trailers_.size() == kMaxTrailers)
    return fail(Code::invalid, "aws-chunked: a trailer that was not announced");
  const std::string name = to_lower(std::string_view(line_).substr(0, at));
  const std::string_view value = trimmed(std::string_view(line_).substr(at + 1));
  if (name == "x-amz-trailer-signature") {
    trailer_signature_ = value;
  } else {
    trailers_.push_back({name, std::string(value)});
  }
  return {};
}

Result<> AwsChunkedDecoder::last() {
  if (seen_ != expected_)
    return fail(Code::invalid, "aws-chunked: fewer bytes than x-amz-decoded-content-length says");
  if (framing_.signed_chunks && framing_.trailer) {
    std::string lines;
    for (const HeaderField& trailer : trailers_) lines += trailer.name + ":" + trailer.value + "\n";
    FB_TRY(check_signature("AWS4-HMAC-SHA256-TRAILER", sha256_hex(lines), trailer_signature_));
  }
  state_ = State::done;
  return {};
}

}  // namespace firebreak::wire
