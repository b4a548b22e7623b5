#include "machine/engines.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::machine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Has a name and features, and nothing else.
class NamedEngine final : public Engine {
 public:
  using Made = Result<std::unique_ptr<Machine>>;

  explicit NamedEngine(std::string name, Features features = {})
      : name_(std::move(name)), features_(std::move(features)) {}

  const std::string& name() const override { return name_; }
  Isolation isolation() const override { return Isolation::emulated; }
  Features features() const override { return features_; }
  net::Task<Made> boot(BootSpec, Deadline) override { co_return no(); }
  net::Task<Result<std::shared_ptr<Snapshot>>> load(const std::string&, Deadline) override {
    co_return no();
  }
  net::Task<Made> restore(std::shared_ptr<Snapshot>, LaunchSpec, Deadline) override {
    co_return no();
  }
  net::Task<Made> resume(const std::string&, Deadline, std::optional<bool>) override {
    co_return no();
  }
  net::Task<Made> attach(const std::string&, Deadline) override { co_return no(); }
  net::Task<Result<>> discard(const std::string&, Deadline) override { co_return no(); }
  net::Task<Result<>> unload(const std::string&, Deadline) override { co_return no(); }
  std::vector<HeldSnapshot> held() const override { return {}; }
  Result<DiskContent> snapshot_disk(const std::string&) const override { return no(); }
  SnapshotBytes snapshot_bytes(const std::string&) const override { return {}; }
  Result<> verify_snapshot(const std::string&) override { return no(); }
  std::string snapshot_directory(const std::string& name) const override { return name; }
  Result<std::vector<std::string>> snapshots() const override { return no(); }
  net::Task<Result<>> remove_snapshot(const std::string&, Deadline) override { co_return no(); }
  Result<std::vector<FoundMachine>> list() const override { return no(); }
  bool is_suspended(const std::string&) const override { return false; }
  std::uint64_t stored_bytes(const std::string&) const override { return 0; }
  std::set<std::string> own_machines() const override { return {}; }
  Result<Inventory> inventory() const override { return no(); }
  net::Task<Result<>> repair(Leftover, Deadline) override { co_return no(); }

 private:
  static std::unexpected<Error> no() { return fail(Code::internal, "not in this test"); }

  std::string name_;
  Features features_;
};

TEST(Engines, AreFoundByNameAndOneIsTheStandard) {
  NamedEngine first("first");
  NamedEngine second("second");
  Engines engines(second);
  engines.add(first);
  EXPECT_EQ(&engines.standard(), &second);
  EXPECT_EQ(engines.get("first").value(), &first);
  EXPECT_EQ(engines.get("second").value(), &second);
  EXPECT_THAT(engines.all(), ElementsAre(&first, &second));
}

TEST(Engines, OneThatIsNotHereIsRefusedWithWhatToDo) {
  NamedEngine first("first");
  const Engines engines(first);
  const auto missing = engines.get("other");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::unavailable);
  EXPECT_THAT(missing.error().message,
              AllOf(HasSubstr("engine other"), HasSubstr("it has first"), HasSubstr("start")));
}

TEST(Features, AreRequiredByName) {
  const NamedEngine able("able", {Feature::fork});
  EXPECT_TRUE(require(able, Feature::fork));
  std::set<std::string> texts;
  for (const Feature feature :
       {Feature::cut_layers, Feature::fork, Feature::network, Feature::park, Feature::suspend}) {
    const NamedEngine unable("unable");
    const auto refused = require(unable, feature);
    ASSERT_FALSE(refused) << to_string(feature);
    EXPECT_EQ(refused.error().code, Code::unavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("the engine unable "));
    texts.insert(refused.error().message);
  }
  EXPECT_EQ(texts.size(), 5U);
}

}  // namespace
}  // namespace firebreak::machine
