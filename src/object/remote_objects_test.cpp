#include "object/remote_objects.h"

#include <filesystem>

#include "base/sys.h"
#include "net/http_test_support.h"
#include "wire/crypto.h"

namespace firebreak::object {
namespace {

const core::TenantId kOne(std::string("111111111111"));
const core::TenantId kTwo(std::string("222222222222"));

TEST(RemoteGrants, CoverWhatTheyName) {
  auto grants =
      parse_remote_grants("111111111111=code,222222222222=shared/two/,*=all/in/{account}");
  ASSERT_TRUE(grants) << grants.error().message;
  const auto may = [&](const core::TenantId& tenant, const char* bucket, const char* key) {
    return std::ranges::any_of(
        *grants, [&](const RemoteGrant& grant) { return grant.covers(tenant, bucket, key); });
  };
  EXPECT_TRUE(may(kOne, "code", "any/app.zip"));
  EXPECT_FALSE(may(kTwo, "code", "any/app.zip"));
  EXPECT_TRUE(may(kTwo, "shared", "two/app.zip"));
  EXPECT_FALSE(may(kTwo, "shared", "twofold/app.zip"));
  EXPECT_FALSE(may(kTwo, "shared", "app.zip"));
  EXPECT_TRUE(may(kOne, "all", "in/111111111111/app.zip"));
  EXPECT_FALSE(may(kOne, "all", "in/222222222222/app.zip"));
}

TEST(RemoteGrants, AKeyCannotLeaveItsFolder) {
  const auto grants = parse_remote_grants("111111111111=code/one");
  ASSERT_TRUE(grants);
  for (const char* key : {"one/../two/app.zip", "one/./app.zip", "one//app.zip", "one/", "one"})
    EXPECT_FALSE(grants->front().covers(kOne, "code", key)) << key;
}

TEST(RemoteGrants, RefuseWhatWouldNotKeepTenantsApart) {
  for (const char* bad : {"*=code", "*=code/shared", "code", "default=code", "111111111111=",
                          "111111111111=UPPER", "111111111111=code/a/../b", "1111111111111=code"})
    EXPECT_FALSE(parse_remote_grants(bad)) << bad;
  EXPECT_TRUE(parse_remote_grants("*=code-{account}"));
}

TEST(RemoteCredentials, AreReadFromTheDefaultProfile) {
  auto key = parse_credentials(
      "# mine\n[other]\naws_access_key_id = no\n[default]\r\naws_access_key_id=AKIA1\n"
      "aws_secret_access_key = a/b=c \n\n; end\naws_session_token=t\n[last]\n"
      "aws_secret_access_key=no\n");
  ASSERT_TRUE(key) << key.error().message;
  EXPECT_EQ(key->access_key_id, "AKIA1");
  EXPECT_EQ(key->secret, "a/b=c");
  EXPECT_EQ(key->session_token, "t");
  EXPECT_FALSE(parse_credentials(""));
  EXPECT_FALSE(parse_credentials("[default]\naws_access_key_id=AKIA1\n"));
}

TEST(RemoteEndpoint, IsAnAddressWithoutAPath) {
  EXPECT_TRUE(check_remote_endpoint("http://127.0.0.1:9000"));
  EXPECT_TRUE(check_remote_endpoint("https://s3.eu-west-1.amazonaws.com"));
  for (const char* bad :
       {"", "s3.amazonaws.com", "ftp://h", "http://", "http://h/", "http://u:p@h", "http://h?x"})
    EXPECT_FALSE(check_remote_endpoint(bad)) << bad;
}

class Remote : public net::HttpTest {
 protected:
  Remote() : file_(std::filesystem::temp_directory_path() / ("remote-" + sys::random_hex(8))) {
    write_secret("right");
  }
  ~Remote() override { std::filesystem::remove(file_); }

  void write_secret(const std::string& secret) {
    EXPECT_TRUE(sys::replace_file(
        file_, "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=" + secret + "\n", 0600));
  }
  void open() {
    auto opened = RemoteObjects::open({.endpoint = "http://" + server_->address(),
                                       .region = "eu-1",
                                       .credentials_file = file_,
                                       .grants = {{"111111111111", "code", "apps/"}}},
                                      clock_);
    ASSERT_TRUE(opened) << opened.error().message;
    remote_ = *std::move(opened);
  }
  // All of an object, or why not.
  net::Task<Result<std::string>> fetch(std::string key, std::uint64_t limit = 100) {
    FB_CO_TRY_ASSIGN(auto object, co_await remote_->get(kOne, "code", key, limit, net::soon()));
    std::string all;
    for (;;) {
      FB_CO_TRY_ASSIGN(const std::string bytes, co_await object->read(net::soon()));
      if (bytes.empty()) co_return all;
      all += bytes;
    }
  }
  std::string refused(const std::string& key) {
    std::string message = "it was given";
    run([&]() -> net::Task<void> {
      auto got = co_await fetch(key);
      if (!got) message = got.error().reason.empty() ? got.error().message : got.error().reason;
    });
    return message;
  }

  std::string file_;
  core::SystemClock clock_;
  std::unique_ptr<RemoteObjects> remote_;
};

TEST_F(Remote, AsksWithASignature) {
  std::string target;
  serve([&](net::HttpExchange& exchange) -> net::Task<void> {
    const net::HttpRequest& http = exchange.request();
    target = http.target;
    const wire::SigV4Request request{http.method, http.target, http.authority, http.headers};
    auto claim = wire::read_sigv4(request);
    const std::int64_t now = core::to_unix_ms(clock_.now()) / 1000;
    const bool good = claim && claim->region == "eu-1" && claim->service == "s3" &&
                      wire::check_sigv4(request, *claim, "right", wire::sha256_hex(""), now);
    (void)co_await exchange.reply(good ? 200 : 403, {}, good ? "the bytes" : "", net::soon());
  });
  open();
  run([&]() -> net::Task<void> {
    auto got = co_await fetch("apps/a b+c.zip");
    CO_REQUIRE(got);
    EXPECT_EQ(*got, "the bytes");
    EXPECT_EQ(target, "/code/apps/a%20b%2Bc.zip");
  });
  // Keys may be replaced while the server runs.
  write_secret("wrong");
  EXPECT_EQ(refused("apps/a"), "object_denied");
}

TEST_F(Remote, WhatItMayNotNameIsNotAskedFor) {
  int asked = 0;
  serve([&](net::HttpExchange& exchange) -> net::Task<void> {
    ++asked;
    (void)co_await exchange.reply(200, {}, "bytes", net::soon());
  });
  open();
  EXPECT_TRUE(remote_->has(kOne, "code"));
  EXPECT_FALSE(remote_->has(kOne, "other"));
  EXPECT_FALSE(remote_->has(kTwo, "code"));
  for (const char* key : {"elsewhere/a", "apps/../elsewhere/a", "apps"})
    EXPECT_EQ(refused(key), "object_denied") << key;
  EXPECT_EQ(asked, 0);
}

TEST_F(Remote, AnswersBecomeTheReasonsOfBuilds) {
  struct Case {
    int status;
    const char* code;
    const char* reason;
  };
  Case now{};
  serve([&](net::HttpExchange& exchange) -> net::Task<void> {
    const std::string body = now.code == nullptr
                                 ? "no XML"
                                 : "<Error><Code>" + std::string(now.code) + "</Code></Error>";
    (void)co_await exchange.reply(now.status, {{"location", "http://127.0.0.1:1/"}}, body,
                                  net::soon());
  });
  open();
  for (const Case& each :
       {Case{404, "NoSuchKey", "object_not_found"}, Case{404, "NoSuchBucket", "bucket_not_found"},
        Case{404, nullptr, "object_not_found"}, Case{403, "AccessDenied", "object_denied"},
        Case{403, "SignatureDoesNotMatch", "object_denied"},
        Case{403, "InvalidObjectState", "object_archived"},
        Case{301, "PermanentRedirect", "bucket_elsewhere"}, Case{307, nullptr, "bucket_elsewhere"},
        Case{400, "AuthorizationHeaderMalformed", "bucket_elsewhere"},
        Case{503, "SlowDown", "the S3 endpoint fails (SlowDown); try again"},
        Case{500, "<b>", "the S3 endpoint fails (status 500); try again"}}) {
    now = each;
    EXPECT_EQ(refused("apps/a"), each.reason) << each.status;
  }
}

TEST_F(Remote, TooMuchIsRefusedBeforeTheBodyAndInIt) {
  bool chunked = false;
  serve([&](net::HttpExchange& exchange) -> net::Task<void> {
    wire::Headers headers;
    if (!chunked) headers.push_back({"content-length", "1000000000000"});
    CO_REQUIRE(co_await exchange.start(200, headers, net::soon()));
    for (int i = 0; chunked && i < 20; ++i)
      if (!co_await exchange.write("0123456789", net::soon())) co_return;
    (void)co_await exchange.wait_gone(net::soon());
  });
  open();
  for (const bool each : {false, true}) {
    chunked = each;
    run([&]() -> net::Task<void> {
      auto got = co_await fetch("apps/a");
      EXPECT_FALSE(got);
      if (!got) EXPECT_EQ(got.error().code, Code::exhausted) << got.error().text();
    });
  }
}

TEST_F(Remote, NobodyThereIsNotTheTenantsFault) {
  serve([](net::HttpExchange& exchange) -> net::Task<void> {
    (void)co_await exchange.wait_gone(net::soon());
  });
  open();
  run([&]() -> net::Task<void> {
    const Deadline brief = Deadline::in(std::chrono::milliseconds(200));
    auto got = co_await remote_->get(kOne, "code", "apps/a", 100, brief);
    EXPECT_FALSE(got);
    if (!got) EXPECT_EQ(got.error().code, Code::unavailable) << got.error().text();
  });
  server_.reset();
  run([&]() -> net::Task<void> {
    auto got = co_await fetch("apps/a");
    EXPECT_FALSE(got);
    if (!got) EXPECT_EQ(got.error().code, Code::unavailable) << got.error().text();
  });
}

}  // namespace
}  // namespace firebreak::object
