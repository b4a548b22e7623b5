// Two servers with the same options but their data directories, as the default ones are, on one
// host: each checks and repairs what is its own.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

// A server and its microVM.
struct House {
  ServerProcess server;
  std::string id;
  pid_t machine = 0;

  void move_in() {
    ASSERT_TRUE(server.start()) << server.log();
    const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
    ASSERT_EQ(made.text_of("state"), "RUNNING") << made.text;
    id = made.text_of("id");
    machine = server.machine_pid(id);
    ASSERT_GT(machine, 0);
  }
  // Its process runs, and the guest answers.
  void expect_well() {
    EXPECT_EQ(::kill(machine, 0), 0) << "the machine of " << id << " has ended";
    const Answer said =
        server.call("POST", "/v1/microvms/" + id + "/exec", json::object{{"shell", "echo here"}});
    EXPECT_EQ(said.text_of("stdout"), "here\n") << said.text;
  }
};

class Neighbours : public ::testing::Test {
 protected:
  void SetUp() override {
    other_.server.share_host_with(one_.server);
    ASSERT_NO_FATAL_FAILURE(one_.move_in());
    ASSERT_NO_FATAL_FAILURE(other_.move_in());
  }

  // A check that finds nothing of its own, and names what the neighbour has.
  static void expect_ok(House& house, const House& neighbour) {
    const auto plain = house.server.cli({"check"});
    EXPECT_EQ(plain.status, 0) << plain.out << plain.err;
    EXPECT_THAT(plain.out, HasSubstr("0 leaks, "));
    EXPECT_THAT(plain.out, HasSubstr("process " + std::to_string(neighbour.machine) + " "));
    EXPECT_THAT(plain.out, HasSubstr("cgroup " + neighbour.id + " "));
    EXPECT_THAT(plain.out, HasSubstr("may belong to another server on this host"));
    const auto repaired = house.server.cli({"check", "--repair", "--json"});
    EXPECT_EQ(repaired.status, 0) << repaired.out << repaired.err;
    const auto report = parse_json_object(repaired.out);
    ASSERT_TRUE(report) << repaired.out;
    EXPECT_TRUE(report->at("ok").as_bool()) << repaired.out;
    EXPECT_TRUE(report->at("leaks").as_array().empty()) << repaired.out;
    for (const json::value& entry : report->at("unclear").as_array())
      EXPECT_FALSE(entry.at("repaired").as_bool());
  }

  House one_;
  House other_;
};

TEST_F(Neighbours, RepairOnlyWhatIsTheirOwn) {
  // Through the running servers.
  expect_ok(one_, other_);
  expect_ok(other_, one_);
  one_.expect_well();
  other_.expect_well();

  // On the files of one that is stopped.
  ASSERT_EQ(one_.server.stop(), 0);
  expect_ok(one_, other_);
  EXPECT_EQ(::kill(one_.machine, 0), 0);
  other_.expect_well();

  // And what is lost there is still found, and ended.
  const std::string& directory = one_.server.data_dir();
  ASSERT_TRUE(sys::remove_tree(directory + "/machines/" + one_.id));
  ASSERT_TRUE(sys::remove_tree(directory + "/uids"));
  const std::string lost = "process " + std::to_string(one_.machine) + " runs under a uid";
  const auto leak = one_.server.cli({"check"});
  EXPECT_EQ(leak.status, 1) << leak.out;
  EXPECT_THAT(leak.out, HasSubstr(lost));
  const auto repaired = one_.server.cli({"check", "--repair"});
  EXPECT_THAT(repaired.out, HasSubstr(lost + " that no microVM has (repaired)"));
  other_.expect_well();

  // The next start settles the rest.
  ASSERT_TRUE(one_.server.start()) << one_.server.log();
  EXPECT_EQ(one_.server.wait_for("/v1/microvms/" + one_.id, "state", "TERMINATED").text_of("state"),
            "TERMINATED");
  expect_ok(one_, other_);
  other_.expect_well();
}

}  // namespace
}  // namespace firebreak::testing_support
