// What callers may call a microVM by.
#include "control/microvm_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_engine_test_support.h"
#include "control/task_test_support.h"

namespace firebreak::control {
namespace {

using testing::HasSubstr;

class MicrovmNames : public FakeWorld {
 protected:
  MicrovmNames() {
    const auto made = run_task(io_, db_->run([&](store::Store& store) -> Result<> {
      FB_TRY(store.create_tenant({kMine, "mine", {}, {}}));
      return store.create_tenant({kOther, "other", {}, {}});
    }));
    EXPECT_TRUE(made) << made.error().text();
    add(kMine, "abcd1111", "web");
    add(kMine, "abcd2222", "");
    add(kMine, "beef0000", "abcd");
    add(kOther, "cafe3333", "theirs");
  }
  static std::string id(const std::string& begin) {
    return "microvm-" + begin + "-0000-4000-8000-000000000000";
  }
  void add(const core::TenantId& tenant, const std::string& begin, const std::string& name) {
    core::Microvm microvm;
    microvm.id = core::MicrovmId(id(begin));
    microvm.tenant = tenant;
    microvm.endpoint = core::EndpointId(begin);
    microvm.name = name;
    const auto made = run_task(
        io_, db_->run([&](store::Store& store) { return store.create_microvm(microvm, {}); }));
    EXPECT_TRUE(made) << made.error().text();
  }
  Result<core::MicrovmId> resolve(const std::string& word) {
    return run_task(io_, resolve_microvm(*db_, kMine, word));
  }
  void expect(const std::string& word, const std::string& begin) {
    const auto found = resolve(word);
    ASSERT_TRUE(found) << word << ": " << found.error().text();
    EXPECT_EQ(found->str(), id(begin)) << word;
  }

  const core::TenantId kMine{"111111111111"};
  const core::TenantId kOther{"222222222222"};
};

TEST_F(MicrovmNames, AnIdANameOrTheBeginningOfAnId) {
  expect(id("abcd1111"), "abcd1111");
  expect("web", "abcd1111");
  expect("abcd2", "abcd2222");
  expect("microvm-abcd2", "abcd2222");
  expect("abcd2222-0000-4000-8000-000000000000", "abcd2222");
  expect("beef", "beef0000");
  // A name is what somebody chose; it comes before what happens to begin so.
  expect("abcd", "beef0000");
}

TEST_F(MicrovmNames, SeveralAreCounted) {
  const auto found = resolve("microvm-abcd");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::conflict);
  EXPECT_THAT(found.error().message, HasSubstr("2 microVMs have ids that begin with microvm-abcd"));
}

TEST_F(MicrovmNames, WhatIsTooShortForeignOrNoNameIsNotThere) {
  for (const char* word :
       {"bee", "microvm-", "microvm-bee", "cafe3333", "theirs", "WEB", "we", "web ", "%", "-abc"}) {
    const auto found = resolve(word);
    ASSERT_FALSE(found) << word;
    EXPECT_EQ(found.error().code, Code::not_found) << word;
    EXPECT_EQ(found.error().message, std::string("there is no microVM ") + word);
  }
}

TEST_F(MicrovmNames, AnAdministratorLearnsWhoseItIs) {
  const auto owner = [&](const std::string& of) {
    return run_task(io_, owner_of_microvm(*db_, kMine, core::MicrovmId(of))).value();
  };
  EXPECT_EQ(owner(id("cafe3333")), kOther);
  EXPECT_EQ(owner(id("abcd1111")), kMine);
  EXPECT_EQ(owner(id("00000000")), kMine);
}

}  // namespace
}  // namespace firebreak::control
