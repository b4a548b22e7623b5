// A server that is killed, stopped and started again by its tests, and what they have in common.
// One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/server_process.h"

namespace firebreak::testing_support {

inline std::string path(const std::string& id, const std::string& rest = "") {
  return "/v1/microvms/" + id + rest;
}

inline std::string step_name(const char* operation, const char* point) {
  std::string name = std::string(operation) + "_" + point;
  std::ranges::replace(name, '.', '_');
  return name;
}

class Crash : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options(options(false));
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  // With one parked clone, or none: each costs as much as a case.
  static std::vector<std::string> options(bool pool) {
    return {"--tick-ms=100", pool ? "--pool-least=1" : "--pool-least=0",
            pool ? "--pool-most=1" : "--pool-most=0"};
  }
  static void restart_with(const std::string& fault) {
    server->stop();
    if (!fault.empty()) server->crash_at(fault);
    ASSERT_TRUE(server->start()) << server->log();
  }
  static Answer exec(const std::string& id, const std::string& shell) {
    return server->call("POST", path(id, "/exec"), json::object{{"shell", shell}});
  }
  static std::string run() {
    return server->call("POST", "/v1/microvms", json::object{{"image", "python"}}).text_of("id");
  }
  static std::string log_about(const std::string& id) {
    std::string about;
    const std::string text = server->log();
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      const std::string line = text.substr(at, end - at + 1);
      if (line.find(id) != std::string::npos) about += line;
    }
    return about;
  }
  // The process of any machine; whether there was one.
  static bool kill_a_machine(std::mt19937& random) {
    const std::string machines = server->data_dir() + "/machines";
    const auto names = sys::list_dir(machines);
    if (!names || names->empty()) return false;
    return server->kill_machine((*names)[random() % names->size()]);
  }
  static void end_all() {
    const Answer list = server->call("GET", "/v1/microvms?pageSize=1000");
    for (const json::value& item : list.object().at("items").as_array()) {
      if (item.at("state").as_string() != "TERMINATED")
        server->call("DELETE", path(std::string(item.at("id").as_string())));
    }
  }
  static void wait_parked() {
    for (int i = 0; i < 600 && server->metric("firebreak_pool_size") < 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  // Every microVM is in a state that lasts, and the host holds exactly what the store says.
  static void expect_clean() {
    Answer report;
    for (int i = 0; i < 100; ++i) {
      report = server->call("POST", "/v1/check");
      const Answer list = server->call("GET", "/v1/microvms?pageSize=1000");
      bool settled = true;
      for (const json::value& item : list.object().at("items").as_array()) {
        const std::string state(item.at("state").as_string());
        settled = settled && (state == "RUNNING" || state == "SUSPENDED" || state == "TERMINATED");
      }
      if (settled && report.text_of("ok") == "true") return;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    ADD_FAILURE() << report.text << server->call("GET", "/v1/microvms").text;
  }

  static inline std::unique_ptr<ServerProcess> server;
};

}  // namespace firebreak::testing_support
