// Against Amazon's published examples: the signatures are theirs, the requests are written anew.
#include "wire/sigv4.h"

#include <gtest/gtest.h>

#include "wire/crypto.h"

namespace firebreak::wire {
namespace {

using Kind = SigV4Refusal::Kind;

constexpr std::string_view kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
constexpr std::string_view kS3Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const std::string kEmpty = sha256_hex("");

struct Sent {
  std::string method = "GET";
  std::string target = "/";
  std::string host = "example.amazonaws.com";
  Headers headers{{"x-amz-date", "20150830T123600Z"}};
  std::string body{};

  SigV4Request request() const { return {method, target, host, headers}; }
  void sign(const std::string& names, const std::string& signature,
            const std::string& scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request") {
    headers.push_back({"authorization", "AWS4-HMAC-SHA256 Credential=" + scope +
                                            ", SignedHeaders=" + names +
                                            ", Signature=" + signature});
  }
  // Signs it as a client with the secret would.
  void sign_with(std::string_view secret, const std::string& names, const std::string& scope) {
    sign(names, std::string(64, '0'), scope);
    auto claim = read_sigv4(request());
    ASSERT_TRUE(claim) << claim.error().message;
    const std::string hash = claim->payload_hash.empty() ? sha256_hex(body) : claim->payload_hash;
    const std::string signature = sigv4_signature(
        sigv4_signing_key(secret, *claim),
        sigv4_string_to_sign(*claim, sigv4_canonical_request(request(), *claim, hash)));
    headers.pop_back();
    sign(names, signature, scope);
  }
  SigV4Result<> check(std::int64_t now, std::string_view secret = kSecret) const {
    auto claim = read_sigv4(request());
    if (!claim) return std::unexpected(claim.error());
    const std::string hash = claim->payload_hash.empty() ? sha256_hex(body) : claim->payload_hash;
    return check_sigv4(request(), *claim, secret, hash, now);
  }
};

std::int64_t suite_time() {
  return parse_amz_date("20150830T123600Z");
}

struct Vector {
  const char* name;
  const char* method;
  const char* target;
  Headers extra;
  const char* names;
  const char* body;
  const char* signature;
};

class PublishedVectors : public testing::TestWithParam<Vector> {};

TEST_P(PublishedVectors, Verify) {
  const Vector& vector = GetParam();
  Sent sent{.method = vector.method, .target = vector.target, .body = vector.body};
  for (const HeaderField& header : vector.extra) sent.headers.push_back(header);
  sent.sign(vector.names, vector.signature);
  auto checked = sent.check(suite_time());
  EXPECT_TRUE(checked) << checked.error().message;
  sent.method = "PUT";
  EXPECT_FALSE(sent.check(suite_time()));
}

INSTANTIATE_TEST_SUITE_P(
    Suite, PublishedVectors,
    testing::Values(Vector{"Vanilla",
                           "GET",
                           "/",
                           {},
                           "host;x-amz-date",
                           "",
                           "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
                    Vector{"QueryOrder",
                           "GET",
                           "/?Param2=value2&Param1=value1",
                           {},
                           "host;x-amz-date",
                           "",
                           "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
                    Vector{"Slashes",
                           "GET",
                           "//",
                           {},
                           "host;x-amz-date",
                           "",
                           "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
                    Vector{"Relative",
                           "GET",
                           "/example/..",
                           {},
                           "host;x-amz-date",
                           "",
                           "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
                    Vector{"Dot",
                           "GET",
                           "/./",
                           {},
                           "host;x-amz-date",
                           "",
                           "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
                    Vector{"PostVanilla",
                           "POST",
                           "/",
                           {},
                           "host;x-amz-date",
                           "",
                           "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
                    Vector{"HeaderTrim",
                           "GET",
                           "/",
                           {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\" "}},
                           "host;my-header1;my-header2;x-amz-date",
                           "",
                           "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
                    Vector{"Form",
                           "POST",
                           "/",
                           {{"content-type", "application/x-www-form-urlencoded"}},
                           "content-type;host;x-amz-date",
                           "Param1=value1",
                           "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SigV4, S3GetObjectExample) {
  Sent sent{.target = "/test.txt",
            .host = "examplebucket.s3.amazonaws.com",
            .headers = {{"range", "bytes=0-9"},
                        {"x-amz-content-sha256", kEmpty},
                        {"x-amz-date", "20130524T000000Z"}}};
  sent.sign("host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request");
  auto checked = sent.check(parse_amz_date("20130524T000000Z"), kS3Secret);
  EXPECT_TRUE(checked) << checked.error().message;
}

Sent presigned() {
  return {.target =
              "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
              "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date="
              "20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
              "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
          .host = "examplebucket.s3.amazonaws.com",
          .headers = {}};
}

TEST(SigV4, S3PresignedExample) {
  const Sent sent = presigned();
  auto claim = read_sigv4(sent.request());
  ASSERT_TRUE(claim) << claim.error().message;
  EXPECT_TRUE(claim->presigned);
  EXPECT_EQ(claim->access_key_id, "AKIAIOSFODNN7EXAMPLE");
  const std::int64_t then = parse_amz_date("20130524T000000Z");
  EXPECT_TRUE(check_sigv4(sent.request(), *claim, kS3Secret, kUnsignedPayload, then + 86400));
  auto late = check_sigv4(sent.request(), *claim, kS3Secret, kUnsignedPayload, then + 86401);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, Kind::expired);
  auto early = check_sigv4(sent.request(), *claim, kS3Secret, kUnsignedPayload, then - 901);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind, Kind::skewed);
}

TEST(SigV4, PathIsEncodedTwiceExceptForS3) {
  const std::string scope = "AKIDEXAMPLE/20150830/us-east-1/";
  for (const auto& [service, path] : std::vector<std::pair<std::string, std::string>>{
           {"lambda", "/a/arn%253Aaws"}, {"s3", "/a/arn%3Aaws"}}) {
    Sent sent{.target = "/a/arn%3Aaws"};
    sent.sign("host;x-amz-date", std::string(64, 'a'), scope + service + "/aws4_request");
    auto claim = read_sigv4(sent.request());
    ASSERT_TRUE(claim);
    const std::string canonical = sigv4_canonical_request(sent.request(), *claim, kEmpty);
    EXPECT_NE(canonical.find("\n" + path + "\n"), std::string::npos) << canonical;
  }
}

TEST(SigV4, S3KeepsDotsAndSlashesAndHasOneFormOfEncoding) {
  Sent sent{.target = "/b//../a%7eb(c)"};
  sent.sign("host;x-amz-date", std::string(64, 'a'), "K/20150830/r/s3/aws4_request");
  auto claim = read_sigv4(sent.request());
  ASSERT_TRUE(claim);
  EXPECT_NE(sigv4_canonical_request(sent.request(), *claim, kEmpty).find("\n/b//../a~b%28c%29\n"),
            std::string::npos);
}

TEST(SigV4, ClockSkewIsFiveMinutesAndFifteenForS3) {
  for (const auto& [service, skew] : {std::pair{"lambda", 300L}, std::pair{"s3", 900L}}) {
    Sent sent;
    sent.sign_with(kSecret, "host;x-amz-date",
                   "K/20150830/r/" + std::string(service) + "/aws4_request");
    EXPECT_TRUE(sent.check(suite_time() + skew));
    EXPECT_TRUE(sent.check(suite_time() - skew));
    for (const std::int64_t off : {-skew - 1, skew + 1}) {
      auto refused = sent.check(suite_time() + off);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, Kind::skewed);
    }
  }
}

TEST(SigV4, WrongSecretBodyOrHeaderDoesNotMatch) {
  Sent sent{.method = "POST", .body = "{}"};
  sent.headers.push_back({"x-amz-security-token", "token"});
  sent.sign_with(kSecret, "host;x-amz-date;x-amz-security-token",
                 "K/20150830/r/lambda/aws4_request");
  ASSERT_TRUE(sent.check(suite_time()));
  EXPECT_EQ(sent.check(suite_time(), "other").error().kind, Kind::mismatch);
  Sent changed = sent;
  changed.body = "{ }";
  EXPECT_EQ(changed.check(suite_time()).error().kind, Kind::mismatch);
  changed = sent;
  changed.headers[1].value = "other";
  EXPECT_EQ(changed.check(suite_time()).error().kind, Kind::mismatch);
  changed = sent;
  changed.host = "elsewhere";
  EXPECT_EQ(changed.check(suite_time()).error().kind, Kind::mismatch);
}

TEST(SigV4, WhatMattersMustBeSigned) {
  Sent sent;
  sent.headers.push_back({"x-amz-meta-extra", "1"});
  sent.sign_with(kSecret, "host;x-amz-date", "K/20150830/r/s3/aws4_request");
  auto refused = sent.check(suite_time());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the header x-amz-meta-extra must be signed");
  Sent hostless;
  hostless.sign_with(kSecret, "x-amz-date", "K/20150830/r/s3/aws4_request");
  EXPECT_FALSE(hostless.check(suite_time()));
}

TEST(SigV4, RefusesWhatCannotBeRead) {
  const std::string good(64, 'a');
  const auto kind_of = [](const Headers& headers, const std::string& target = "/") {
    auto claim = read_sigv4({"GET", target, "h", headers});
    EXPECT_FALSE(claim);
    return claim ? Kind::mismatch : claim.error().kind;
  };
  EXPECT_EQ(kind_of({}), Kind::missing);
  EXPECT_EQ(kind_of({{"authorization", "Bearer x"}}), Kind::missing);
  EXPECT_EQ(kind_of({{"authorization", "AWS4-HMAC-SHA256"}}), Kind::malformed);
  for (const std::string scope :
       {"K/20150830/r/s3", "K/20150830/r/s3/aws5_request", "//r/s3/aws4_request",
        "K/20150831/r/s3/aws4_request", "K/2015/r/s3/aws4_request"}) {
    Sent sent;
    sent.sign("host", good, scope);
    EXPECT_EQ(kind_of(sent.headers), Kind::malformed) << scope;
  }
  Sent undated{.headers = {}};
  undated.sign("host", good);
  EXPECT_EQ(kind_of(undated.headers), Kind::malformed);
  Sent odd;
  odd.sign("Host", good);
  EXPECT_EQ(kind_of(odd.headers), Kind::malformed);
  Sent brief;
  brief.sign("host", "abc");
  EXPECT_EQ(kind_of(brief.headers), Kind::malformed);
  std::string target = presigned().target;
  EXPECT_EQ(kind_of({}, target.replace(target.find("86400"), 5, "604801")), Kind::malformed);
}

// Amazon's example of a request for a bucket's lifecycle.
TEST(SigV4, SignsAsPublished) {
  const SigV4Key key{"AKIAIOSFODNN7EXAMPLE", std::string(kS3Secret), ""};
  const Headers none;
  const Headers added =
      sign_sigv4({"GET", "/?lifecycle", "examplebucket.s3.amazonaws.com", none}, key, "us-east-1",
                 "s3", kEmpty, parse_amz_date("20130524T000000Z"));
  EXPECT_EQ(find_header(added, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(SigV4, WhatIsSignedIsVerified) {
  const SigV4Key key{"AKIDEXAMPLE", std::string(kSecret), "token"};
  Sent sent{.target = "/bucket/a%20key", .headers = {{"x-amz-te", "a"}}};
  const std::int64_t now = suite_time();
  for (const HeaderField& field :
       sign_sigv4(sent.request(), key, "eu-1", "s3", std::string(kUnsignedPayload), now))
    sent.headers.push_back(field);
  auto checked = sent.check(now);
  EXPECT_TRUE(checked) << checked.error().message;
  EXPECT_FALSE(sent.check(now, kS3Secret));
  sent.headers[0].value = "b";
  EXPECT_FALSE(sent.check(now));
}

TEST(SigV4, Dates) {
  EXPECT_EQ(parse_amz_date("19700102T000001Z"), 86401);
  EXPECT_EQ(amz_date(86401), "19700102T000001Z");
  for (const char* bad : {"", "20150230T000000Z", "20150830T240000Z", "20150830T12360 Z",
                          "20150830 123600Z", "2015-08-30T123600"})
    EXPECT_EQ(parse_amz_date(bad), -1) << bad;
}

}  // namespace
}  // namespace firebreak::wire
