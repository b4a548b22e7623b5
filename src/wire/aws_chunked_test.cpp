#include "wire/aws_chunked.h"

#include <gtest/gtest.h>

#include "wire/crypto.h"
#include "wire/sigv4.h"

namespace firebreak::wire {
namespace {

// The example of Amazon's documentation: 65 KiB of 'a' in two chunks.
AwsChunkedFraming published() {
  SigV4Claim claim;
  claim.date = "20130524";
  claim.region = "us-east-1";
  claim.service = "s3";
  auto framing = aws_chunked_framing("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
  EXPECT_TRUE(framing);
  framing->signing_key = sigv4_signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", claim);
  framing->timestamp = "20130524T000000Z";
  framing->scope = claim.scope();
  framing->seed_signature = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
  return *framing;
}

std::string published_body() {
  return "10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
         "\r\n" +
         std::string(65536, 'a') +
         "\r\n400;chunk-signature="
         "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n" +
         std::string(1024, 'a') +
         "\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"
         "\r\n\r\n";
}

Result<std::string> decode(AwsChunkedDecoder& decoder, std::string_view body, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < body.size(); at += piece)
    FB_TRY(decoder.feed(body.substr(at, piece), out));
  return out;
}

TEST(AwsChunked, PublishedExampleInPieces) {
  for (const std::size_t piece : {1UL, 7UL, 4096UL, 1UL << 20}) {
    AwsChunkedDecoder decoder(published(), 66560);
    auto out = decode(decoder, published_body(), piece);
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(*out, std::string(66560, 'a'));
    EXPECT_TRUE(decoder.done());
  }
}

TEST(AwsChunked, AChangedByteBreaksItsChunk) {
  std::string body = published_body();
  body.at(1000) = 'b';
  AwsChunkedDecoder decoder(published(), 66560);
  auto out = decode(decoder, body, 4096);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::denied);
}

TEST(AwsChunked, LengthMustBeAsDeclared) {
  AwsChunkedDecoder more(published(), 66559);
  EXPECT_FALSE(decode(more, published_body(), 4096));
  AwsChunkedDecoder fewer(published(), 66561);
  EXPECT_FALSE(decode(fewer, published_body(), 4096));
}

TEST(AwsChunked, UnsignedWithTrailer) {
  auto framing = aws_chunked_framing("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
  ASSERT_TRUE(framing);
  AwsChunkedDecoder decoder(*framing, 5);
  auto out = decode(decoder, "5\r\nhello\r\n0\r\nX-Amz-Checksum-CRC32: NhCmhg==\r\n\r\n", 3);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(*out, "hello");
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(find_header(decoder.trailers(), "x-amz-checksum-crc32"), "NhCmhg==");
}

TEST(AwsChunked, SignedTrailer) {
  AwsChunkedFraming framing = published();
  framing.trailer = true;
  const auto sign = [&framing](const std::string& algorithm, const std::string& hashes) {
    const std::string signature = sigv4_signature(
        framing.signing_key, algorithm + "\n" + framing.timestamp + "\n" + framing.scope + "\n" +
                                 framing.seed_signature + "\n" + hashes);
    framing.seed_signature = signature;
    return signature;
  };
  const AwsChunkedFraming first = framing;
  const std::string empty = sha256_hex("");
  const std::string data = sign("AWS4-HMAC-SHA256-PAYLOAD", empty + "\n" + sha256_hex("hello"));
  const std::string last = sign("AWS4-HMAC-SHA256-PAYLOAD", empty + "\n" + empty);
  const std::string trailer =
      sign("AWS4-HMAC-SHA256-TRAILER", sha256_hex("x-amz-checksum-crc32:NhCmhg==\n"));
  const std::string head = "5;chunk-signature=" + data + "\r\nhello\r\n0;chunk-signature=" + last +
                           "\r\nx-amz-checksum-crc32:NhCmhg==\r\n";
  AwsChunkedDecoder decoder(first, 5);
  EXPECT_TRUE(decode(decoder, head + "x-amz-trailer-signature:" + trailer + "\r\n\r\n", 11));
  EXPECT_TRUE(decoder.done());
  AwsChunkedDecoder unsigned_trailer(first, 5);
  EXPECT_FALSE(decode(unsigned_trailer, head + "\r\n", 11));
}

TEST(AwsChunked, RefusesWrongFraming) {
  EXPECT_FALSE(aws_chunked_framing("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"));
  for (const std::string body : {"x\r\n", "5\nhello", "5\r\nhelloX\r\n", "0\r\n\r\nmore",
                                 "fffffffffffff\r\n", "0\r\nno colon\r\n\r\n", "-1\r\n"}) {
    AwsChunkedFraming framing{.trailer = true};
    AwsChunkedDecoder decoder(framing, body.starts_with("0") ? 0 : 5);
    EXPECT_FALSE(decode(decoder, body, 64)) << body;
  }
  AwsChunkedDecoder endless({}, 5);
  EXPECT_FALSE(decode(endless, std::string(5000, '1'), 64));
}

TEST(Checksums, KnownValues) {
  const auto of = [](Checksum::Kind kind, std::string_view text) {
    Checksum checksum(kind);
    checksum.update(text.substr(0, 4));
    checksum.update(text.substr(4));
    return base64(checksum.finish());
  };
  EXPECT_EQ(of(Checksum::Kind::crc32, "123456789"), "y/Q5Jg==");
  EXPECT_EQ(of(Checksum::Kind::crc32c, "123456789"), "4waSgw==");
  EXPECT_EQ(of(Checksum::Kind::crc64nvme, "123456789"), "rosUhgp5mIg=");
  EXPECT_EQ(of(Checksum::Kind::sha1, "123456789"), "98O8HYCOBHMq32eZZczDTKeuNEE=");
  EXPECT_EQ(of(Checksum::Kind::md5, "123456789"), "JfnnlDI7RTiF9RgfG2JNCw==");
  EXPECT_EQ(parse_checksum("CRC64NVME"), Checksum::Kind::crc64nvme);
  EXPECT_FALSE(parse_checksum("md5"));
}

}  // namespace
}  // namespace firebreak::wire
