// A server and its microVMs beside an internet made of namespaces; the program's main() enters it.
// One thread.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/fake_internet.h"
#include "server/server_process.h"

namespace firebreak::testing_support {

class EgressFixture : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  static Answer run(const std::string& policy);
  static std::string launch(const std::string& policy);
  static void kill(const std::string& id);
  // What came of each "tcp HOST PORT", "udp HOST PORT", "name NAME": "ok ..." or an error.
  static std::vector<std::string> probe(const std::string& id,
                                        const std::vector<std::string>& what);
  // A program in the guest; its lines.
  static std::vector<std::string> lines_of(const std::string& id, const json::array& argv);
  static std::string shell(const std::string& id, const std::string& command);
  static void set_policy(const std::string& name, const std::string& text);
  // Of the tenant: "wide" and "narrow" are the operator's.
  static Answer set_tenant(const json::object& settings);
  static Answer set_maximum(const std::string& name) { return set_tenant({{"maximum", name}}); }
  static std::string log_of(const std::string& id);

 public:
  static inline FakeInternet* internet = nullptr;

 protected:
  static inline ServerProcess* server = nullptr;
};

}  // namespace firebreak::testing_support
