#include "image/guest_ca.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "image/guest_ca_test_support.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string refusal(std::string_view text) {
  const auto ca = parse_guest_ca(text);
  return ca ? "taken" : ca.error().message;
}

TEST(GuestCa, HoldsEachCertificateOnceAndNothingElse) {
  const std::string text = std::string("# ours\n-----BEGIN PRIVATE KEY-----\nsecret\n") +
                           "-----END PRIVATE KEY-----\n" + kOneCertificate + "\n\n" +
                           kOtherCertificate + kOneCertificate;
  const auto ca = parse_guest_ca(text);
  ASSERT_TRUE(ca) << ca.error().text();
  ASSERT_EQ(ca->certificates.size(), 2U);
  EXPECT_EQ(ca->certificates[0].pem, kOneCertificate);
  EXPECT_EQ(ca->certificates[0].subject, kOneSubject);
  EXPECT_EQ(ca->certificates[1].pem, kOtherCertificate);
  EXPECT_EQ(ca->certificates[1].subject, kOtherSubject);
  EXPECT_EQ(ca->mark, (CaMark{.sha256 = wire::sha256_hex(text), .certificates = 2}));
  EXPECT_EQ(describe(*ca), "guests trust the operator's certificates: 2 of them, sha256 " +
                               wire::sha256_hex(text));
}

TEST(GuestCa, WhatIsNoCertificateIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("no certificate in PEM form"));
  EXPECT_THAT(refusal("-----BEGIN CERTIFICATE-----\nAAAA"), HasSubstr("no certificate"));
  const std::string bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(refusal(kOneCertificate + bad), HasSubstr("certificate 2 of the bundle"));
  std::string cut = kOneCertificate;
  cut.erase(cut.find('\n') + 1, 64);
  EXPECT_THAT(refusal(cut), HasSubstr("certificate 1 of the bundle"));
}

TEST(GuestCa, ABundleGetsWhatItLacks) {
  const auto ca = parse_guest_ca(std::string(kOneCertificate) + kOtherCertificate);
  ASSERT_TRUE(ca);
  // The same certificate in other lines is the same.
  std::string wrapped = kOneCertificate;
  wrapped.erase(wrapped.find('\n', 40), 1);
  const auto more = beyond("comment\n" + wrapped, *ca);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].subject, kOtherSubject);
  EXPECT_EQ(beyond("", *ca).size(), 2U);
  EXPECT_EQ(with_certificates("x", more), std::string("x\n") + kOtherCertificate);
  EXPECT_EQ(with_certificates("", more), kOtherCertificate);
  EXPECT_EQ(united(wrapped, ca->certificates[0].pem + kOtherCertificate),
            std::string(kOneCertificate) + kOtherCertificate);
  // What a guest has need not make sense.
  EXPECT_EQ(united("-----BEGIN CERTIFICATE-----", kOneCertificate), kOneCertificate);
}

TEST(GuestCa, IsTheHostsAFileOrNone) {
  char path[] = "/tmp/fb-guest-ca-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const std::string file = std::string(path) + "/ca.pem";
  std::ofstream(file) << kOneCertificate;
  const auto none = read_guest_ca("none", file);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const auto host = read_guest_ca("host", file);
  ASSERT_TRUE(host && *host);
  EXPECT_THAT(describe(**host), HasSubstr("guests trust the host's certificates: 1 of them"));
  const auto absent = read_guest_ca("host", file + ".absent");
  ASSERT_TRUE(absent);
  EXPECT_FALSE(*absent) << "a host without a bundle";
  const auto own = read_guest_ca(file, file + ".absent");
  ASSERT_TRUE(own && *own);
  EXPECT_FALSE((*own)->of_host);
  EXPECT_EQ((*own)->mark, (*host)->mark);
  const auto missing = read_guest_ca(file + ".absent");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("--guest-ca"), HasSubstr(".absent")));
  std::ofstream(file) << "nothing";
  const auto bad = read_guest_ca(file);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, AllOf(HasSubstr("--guest-ca"), HasSubstr("no certificate")));
  fs::remove_all(path);
}

}  // namespace
}  // namespace firebreak::image
