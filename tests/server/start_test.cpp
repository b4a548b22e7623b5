// A server that cannot serve says why and how to repair it, ends with 1, and leaves nothing behind.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "net/bound_address.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;
using Output = ServerProcess::Output;

class Start : public ::testing::Test {
 protected:
  Output serve(std::vector<std::string> options, std::vector<std::string> before = {}) {
    std::vector<std::string> words = std::move(before);
    words.insert(words.end(), {ServerProcess::program(), "serve", "--data-dir", data_dir_});
    if (std::ranges::find(options, "--endpoint-listen") == options.end())
      options.insert(options.end(), {"--endpoint-listen", "127.0.0.1:0"});
    words.insert(words.end(), options.begin(), options.end());
    return home_.run(words);
  }
  void expect_refused(const Output& output, const std::string& why) {
    EXPECT_EQ(output.status, 1) << output.err;
    EXPECT_EQ(output.out, "");
    EXPECT_THAT(output.err, HasSubstr(why));
    EXPECT_FALSE(sys::exists(data_dir_)) << "it wrote something";
  }

  ServerProcess home_;  // only its directory and its way to run programs
  std::string data_dir_ = home_.data_dir() + "/data";
};

TEST_F(Start, WhoIsNotRootIsToldSo) {
  const std::vector<std::string> nobody{"/usr/bin/unshare", "--user"};
  if (home_.run({"/usr/bin/unshare", "--user", "/bin/true"}).status != 0)
    GTEST_SKIP() << "no user namespaces here";
  expect_refused(serve({"--listen", "127.0.0.1:0"}, nobody), "the server must run as root");
}

TEST_F(Start, AnAddressThatIsTakenIsNamedWithTheOption) {
  const auto taken = net::BoundAddress::bind("127.0.0.1:0");
  ASSERT_TRUE(taken) << taken.error().text();
  const std::string why =
      "cannot listen on " + taken->text() + ": another program listens there already; ";
  expect_refused(serve({"--listen", taken->text()}), why + "choose another address with --listen");
  expect_refused(serve({"--listen", "127.0.0.1:0", "--endpoint-listen", taken->text()}),
                 why + "choose another address with --endpoint-listen");
}

TEST_F(Start, KeysDoNotTravelInTheClearUnlessSomebodySaysSo) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"})
    expect_refused(serve({"--listen", address}), "or --insecure-listen");
  // Allowed, it comes as far as the next refusal.
  const auto taken = net::BoundAddress::bind("127.0.0.1:0");
  ASSERT_TRUE(taken) << taken.error().text();
  const std::string all = "0.0.0.0" + taken->text().substr(taken->text().rfind(':'));
  expect_refused(serve({"--listen", all, "--insecure-listen"}), "cannot listen on " + all);
  expect_refused(serve({"--listen", all, "--tls"}), "cannot listen on " + all);
}

TEST_F(Start, CertificatesAreReadFirst) {
  expect_refused(serve({"--listen", "127.0.0.1:0", "--tls-certificate", "/nowhere.pem"}),
                 "--tls-certificate and --tls-key belong together");
  expect_refused(
      serve({"--listen", "127.0.0.1:0", "--tls-certificate", "/nowhere", "--tls-key", "/nowhere"}),
      "--tls-certificate: ");
}

}  // namespace
}  // namespace firebreak::testing_support
