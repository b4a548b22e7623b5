#include "control/registry_auth.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace firebreak::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegistryAuth, AHostGetsItsOwnKeysAlone) {
  const char* text = R"({"auths": {"a.example": {"auth": "QQ==", "email": "x"},
    "a.example/team": {"auth": "VEVBTQ=="}, "a.example.org": {"auth": "Qg=="},
    "https://index.docker.io/v1/": {"auth": "RA==", "identitytoken": "t"}}, "HttpHeaders": {}})";
  EXPECT_EQ(registry_auth_for(text, "a.example").value(),
            R"({"auths":{"a.example":{"auth":"QQ=="},"a.example/team":{"auth":"VEVBTQ=="}}})");
  EXPECT_EQ(registry_auth_for(text, "docker.io").value(),
            R"({"auths":{"https://index.docker.io/v1/":{"auth":"RA==","identitytoken":"t"}}})");
  for (const char* host : {"b.example", "example", "a.exampl", "", "a.example:5000"})
    EXPECT_EQ(registry_auth_for(text, host).value(), "") << host;
}

TEST(RegistryAuth, WhatIsNoSuchFileIsRefusedWithoutItsWords) {
  for (const char* text :
       {"", "c2VjcmV0", R"({"auths": {"h": "c2VjcmV0"}})", R"({"auths": []})",
        R"({"h": {"auth": "c2VjcmV0"}})", R"({"auths": {"h": {"auth": "c2VjcmV0"}})"}) {
    const auto refused = registry_auth_for(text, "h");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::invalid) << text;
    EXPECT_THAT(refused.error().text(), Not(HasSubstr("c2VjcmV0"))) << text;
  }
  EXPECT_THAT(registry_auth_for(R"({"auths": {}, "credsStore": "x"})", "h").error().message,
              HasSubstr("credsStore"));
}

TEST(RegistryAuth, AFileThatOthersCanReadIsRefused) {
  char path[] = "/tmp/fb-auth-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const std::string file = std::string(path) + "/auth.json";
  std::ofstream(file) << "{}";
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(read_registry_auth(file).value(), "{}");
  for (const mode_t mode : {0640, 0604, 0602}) {
    ::chmod(file.c_str(), mode);
    const auto refused = read_registry_auth(file);
    ASSERT_FALSE(refused) << mode;
    EXPECT_THAT(refused.error().message, HasSubstr("chmod 600"));
  }
  EXPECT_FALSE(read_registry_auth(file + ".none"));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace firebreak::control
