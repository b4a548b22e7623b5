// One server for all cases of the native API, in however many files they are.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "server/server_process.h"

namespace firebreak::testing_support {

class Api : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=100"});
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  static std::string run(json::object extra = {}) {
    extra["image"] = "python";
    const Answer made = server->call("POST", "/v1/microvms", extra);
    EXPECT_EQ(made.status, 201) << made.text;
    EXPECT_EQ(made.text_of("state"), "RUNNING");
    return made.text_of("id");
  }
  static Answer exec(const std::string& id, const std::string& shell) {
    return server->call("POST", "/v1/microvms/" + id + "/exec", json::object{{"shell", shell}});
  }
  static std::string path(const std::string& id, const std::string& rest = "") {
    return "/v1/microvms/" + id + rest;
  }
  static std::string new_tenant(const std::string& name) {
    const Answer made = server->call("POST", "/v1/tenants", json::object{{"name", name}});
    EXPECT_EQ(made.status, 201) << made.text;
    return std::string(made.object().at("key").at("apiKey").as_string());
  }

  static inline std::unique_ptr<ServerProcess> server;
};

}  // namespace firebreak::testing_support
