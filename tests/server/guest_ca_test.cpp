// Certificates and variables of the operator in builds and guests: sites whose CA nobody else
// knows, beside an internet made of namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "server/build_fixture.h"
#include "server/fake_internet.h"
#include "wire/crypto.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFetch =
    "python3 -c 'import urllib.request as u; "
    "print(u.urlopen(\"https://allowed.example/\").read())'";
constexpr const char* kGiven = "http://me:sekret-word@proxy.example:1";
constexpr const char* kFetched = "I am 203.0.113.10 as allowed.example";

// The value is compared by its digest: what a Dockerfile says is in logs.
std::string site_dockerfile() {
  return std::string("FROM firebreak/python:3.11\nRUN ") + kFetch +
         " && git ls-remote https://allowed.example/x 2>&1 | tee /told; "
         "grep 'is this a git repository' /told\n"
         "RUN env; printf %s \"$FB_GIVEN\" | sha256sum | grep " +
         wire::sha256_hex(kGiven) + " && test \"$FB_OWN\" = of-the-server\n";
}

class GuestCaTest : public ::testing::Test {
 public:
  static inline FakeInternet* internet = nullptr;

 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    config = std::filesystem::temp_directory_path() / ("fb-config-" + sys::random_hex(4));
    ASSERT_TRUE(sys::replace_file(config,
                                  std::string("build-env = [\"FB_GIVEN=") + kGiven +
                                      "\", \"no_proxy=a,b\", \"FB_OWN\", \"FB_NOBODYS\"]\n",
                                  0600));
    ::setenv("FB_OWN", "of-the-server", 1);
    ::setenv("HTTPS_PROXY", "http://not-for-builds.example:1", 1);
    server->set_options({FakeInternet::dns_option(), "--python-image=0", "--config", config});
  }
  static void TearDownTestSuite() {
    server.reset();
    ::unlink(config.c_str());
  }

  void TearDown() override {
    if (server->running()) server->stop();
  }

  static ServerProcess::Output build(const std::string& name, const Context& context) {
    return server->cli({"image", "build", name, context.path()});
  }
  static json::object shown(const std::string& image) {
    const auto show = server->cli({"image", "show", image});
    EXPECT_EQ(show.status, 0) << show.err;
    return json::parse(show.out).as_object();
  }
  static std::string in_clone(const std::string& image, const std::string& script) {
    const std::string id = trimmed(server->cli({"run", image}).out);
    const auto done = server->cli({"exec", id, "--", "sh", "-c", script});
    EXPECT_EQ(done.status, 0) << done.err;
    server->cli({"kill", id});
    return done.out;
  }

  static inline std::unique_ptr<ServerProcess> server;
  static inline std::string config;
};

// First with the certificate, then without: an image keeps what it was built with.
TEST_F(GuestCaTest, SitesOfAnUnknownCaAreTrustedWhereTheOperatorSaysSo) {
  server->set_guest_ca(internet->ca_file());
  ASSERT_TRUE(server->start()) << server->log();
  const Context context(site_dockerfile());
  const auto made = build("web", context);
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string digest = wire::sha256_hex(*sys::read_file(internet->ca_file()));
  EXPECT_THAT(made.err,
              AllOf(HasSubstr("guests trust the operator's certificates: 1 of them, sha256 " +
                              digest + "\n"),
                    HasSubstr(kFetched)));
  const json::object version = shown("web:1.0");
  EXPECT_EQ(version.at("guestCa"),
            (json::object{{"sha256", digest}, {"certificates", 1}, {"inImage", true}}));

  // Variables of the operator reach RUN; others of the server, and logs and images, they do not.
  EXPECT_THAT(made.err, AllOf(HasSubstr("FB_GIVEN=http://***@proxy.example:1\n"),
                              HasSubstr("no_proxy=a,b\n"), Not(HasSubstr("not-for-builds"))));
  EXPECT_EQ(version.at("config").at("Env").as_array().size(), 1U) << "more than PATH";
  EXPECT_THAT(server->log(), AllOf(HasSubstr("FB_GIVEN"), HasSubstr("FB_NOBODYS")));
  EXPECT_THAT(server->log(), Not(HasSubstr("sekret-word")));
  for (const char* part : {"builds", "layers", "snapshots"})
    EXPECT_FALSE(holds(server->data_dir() + "/" + part, "sekret-word")) << part;
  EXPECT_FALSE(file_holds(server->data_dir() + "/firebreak.db", "sekret-word"));
  EXPECT_FALSE(file_holds(server->data_dir() + "/firebreak.db-wal", "sekret-word"));

  EXPECT_THAT(in_clone("web", std::string(kFetch) + "; env; cat /etc/pip.conf"),
              AllOf(HasSubstr(kFetched), HasSubstr("REQUESTS_CA_BUNDLE=/etc/ssl/certs/"),
                    HasSubstr("NODE_EXTRA_CA_CERTS=/etc/ssl/certs/"), Not(HasSubstr("FB_")),
                    HasSubstr("cert = /etc/ssl/certs/ca-certificates.crt\n")));

  server->stop();
  server->set_guest_ca("none");
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_THAT(in_clone("web", kFetch), HasSubstr(kFetched));
  const auto refused = build("web", context);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("CERTIFICATE_VERIFY_FAILED"),
                                 Not(HasSubstr("guests trust")), Not(HasSubstr("cached"))));
}

// An image that trusts somebody else by itself, and goes on to do so.
TEST_F(GuestCaTest, CommandsInAnImageFromElsewhereAreLentThem) {
  server->set_guest_ca(internet->ca_file());
  ASSERT_TRUE(server->start()) << server->log();
  const std::string lib = "/lib/x86_64-linux-gnu/";
  const Context context(
      "FROM scratch\n"
      "COPY --from=firebreak/python:3.11 /lib64/ld-linux-x86-64.so.2 /lib64/\n"
      "COPY --from=firebreak/python:3.11 " +
      lib + "libssl.so.3 " + lib + "libcrypto.so.3 " + lib + "libc.so.6 " + lib +
      "\n"
      "COPY --from=firebreak/python:3.11 /usr/bin/openssl /usr/bin/env /bin/\n"
      "COPY own.crt /etc/ssl/certs/ca-certificates.crt\n"
      "RUN [\"/bin/env\"]\n"
      "RUN [\"/bin/openssl\", \"verify\", \"/etc/ssl/certs/ca-certificates.crt\"]\n"
      "RUN [\"/bin/openssl\", \"s_client\", \"-connect\", \"203.0.113.10:443\", "
      "\"-verify_return_error\", \"-verify_hostname\", \"allowed.example\", \"-brief\"]\n");
  const auto own = server->run({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=own", "-keyout",
                                "/dev/null", "-out", context.path() + "/own.crt"});
  ASSERT_EQ(own.status, 0) << own.err;
  const auto made = build("tiny", context);
  ASSERT_EQ(made.status, 0) << made.err;
  for (const char* name : {"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
                           "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
    EXPECT_THAT(made.err, HasSubstr(std::string(name) + "=/dev/firebreak-ca.crt\n"));
  EXPECT_THAT(made.err, AllOf(HasSubstr("ca-certificates.crt: OK"), HasSubstr("Verification: OK")));
  EXPECT_FALSE(shown("tiny:1.0").at("guestCa").at("inImage").as_bool());
  const std::string id = trimmed(server->cli({"run", "tiny"}).out);
  EXPECT_THAT(server->cli({"exec", id, "--", "/bin/env"}).out, Not(HasSubstr("firebreak-ca")));
  server->cli({"kill", id});
}

TEST_F(GuestCaTest, AFileThatIsNoBundleKeepsTheServerFromStarting) {
  server->set_guest_ca(config);
  EXPECT_FALSE(server->start());
  EXPECT_THAT(server->log(), AllOf(HasSubstr("--guest-ca"), HasSubstr("no certificate")));
}

}  // namespace
}  // namespace firebreak::testing_support

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto made = firebreak::testing_support::FakeInternet::enter();
  if (!made) return 1;
  firebreak::testing_support::GuestCaTest::internet = made.get();
  return RUN_ALL_TESTS();
}
