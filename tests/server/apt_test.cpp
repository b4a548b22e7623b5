// Packages from the Debian mirror that this host itself uses, installed in a real guest under a
// policy that names the mirror and nothing else; and one from PyPI, in a build. Needs that mirror
// to be reachable from the host; the other is skipped where PyPI is not.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/build_fixture.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a command of this host prints, without the end of its line.
std::string host(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  std::string out;
  std::array<char, 4096> buffer{};
  while (pipe && ::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) out += buffer.data();
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

struct Place {
  std::string host;
  int port = 80;
};

// Of "http://host:port/path".
Place place_of(const std::string& uri) {
  const std::size_t begin = uri.find("://") + 3;
  std::string name = uri.substr(begin, uri.find('/', begin) - begin);
  Place place{.host = name, .port = uri.starts_with("https") ? 443 : 80};
  if (const std::size_t colon = name.rfind(':'); colon != std::string::npos) {
    place.host = name.substr(0, colon);
    place.port = std::stoi(name.substr(colon + 1));
  }
  return place;
}

class Apt : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_guest_ca("host");
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  static Answer shell(const std::string& id, const std::string& command) {
    return server->call("POST", "/v1/microvms/" + id + "/exec",
                        json::object{{"shell", command}, {"timeoutMs", 400'000}});
  }

  static inline std::unique_ptr<ServerProcess> server;
};

TEST_F(Apt, InstallsAPackageFromTheMirrorAndReachesNothingElse) {
  const std::string mirror = host(
      "apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "
      "'Codename: bookworm' 'Component: main' | head -1");
  ASSERT_THAT(mirror, testing::StartsWith("http"))
      << "this host has no Debian mirror for bookworm: apt-get update";
  const std::string proxy =
      host("apt-config shell p Acquire::http::Proxy | sed \"s/^p='\\(.*\\)'$/\\1/\"");
  const Place reached = place_of(proxy.empty() ? mirror : proxy);
  const std::string why = "the guest needs " + mirror +
                          (proxy.empty() ? std::string() : " through the host's proxy " + proxy) +
                          ", which the host must reach";
  const bool address = reached.host.find_first_not_of("0123456789.") == std::string::npos;
  const json::object rule{{"action", "allow"},
                          {address ? "cidr" : "domain", reached.host},
                          {"protocol", "tcp"},
                          {"ports", json::array{reached.port}}};
  ASSERT_EQ(
      server->call("PUT", "/v1/egress-policies/mirror", json::object{{"rules", json::array{rule}}})
          .status,
      200);
  const Answer made =
      server->call("POST", "/v1/microvms", json::object{{"image", "python"}, {"egress", "mirror"}});
  ASSERT_EQ(made.status, 201) << made.text;
  const std::string id = made.text_of("id");

  std::string apt = "apt-get -o Dir::Etc::SourceList=/tmp/mirror.list -o Dir::Etc::SourceParts=-";
  if (!proxy.empty()) apt += " -o Acquire::http::Proxy=" + proxy;
  const Answer updated = shell(id, "echo 'deb " + mirror + " bookworm main' >/tmp/mirror.list && " +
                                       apt + " -o Acquire::Languages=none --error-on=any update");
  ASSERT_EQ(updated.text_of("exitCode"), "0") << why << "\n" << updated.text;
  const Answer installed =
      shell(id, "hello; DEBIAN_FRONTEND=noninteractive " + apt + " install -y hello && hello");
  ASSERT_EQ(installed.text_of("exitCode"), "0") << why << "\n" << installed.text;
  EXPECT_THAT(installed.text_of("stdout"), HasSubstr("Hello, world!"));

  // The same program with another source is told at once, and the log says what would help.
  const Answer denied =
      shell(id, "echo 'deb http://packages.example/debian bookworm main' >/tmp/mirror.list && " +
                    apt + " --error-on=any update");
  EXPECT_NE(denied.text_of("exitCode"), "0");
  EXPECT_THAT(denied.text, HasSubstr("packages.example"));
  const std::string log = server->call("GET", "/v1/microvms/" + id + "/egress").text;
  EXPECT_THAT(log,
              HasSubstr(R"("verdict":"deny","rule":"policy:unmatched","name":"packages.example")"));
  server->call("DELETE", "/v1/microvms/" + id);
}

// As in the first Dockerfile that anybody tries, also behind a proxy that looks into TLS.
TEST_F(Apt, ABuildInstallsAPackageFromPyPi) {
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"}) {
    if (std::getenv(name) != nullptr)
      GTEST_SKIP() << "this host asks a proxy for PyPI (" << name
                   << "), which guests need not reach";
  }
  const Context context(
      "FROM python:3.11-slim\n"
      "RUN pip install --break-system-packages --no-compile --disable-pip-version-check six\n");
  const auto made = server->cli({"image", "build", "six", context.path()});
  // pip says so when it got no answer at all; an answer that it does not trust is another error.
  if (made.status != 0 && made.err.contains("No matching distribution found") &&
      !made.err.contains("CERTIFICATE_VERIFY_FAILED"))
    GTEST_SKIP() << "this host does not reach PyPI";
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, testing::AllOf(HasSubstr("guests trust the host's certificates: "),
                                       HasSubstr("Successfully installed six")));
}

}  // namespace
}  // namespace firebreak::testing_support
