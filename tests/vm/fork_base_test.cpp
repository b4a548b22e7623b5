// Many children of a parent that has changed much share one base; few, or of one that has changed
// little, share the image's.
#include "machine/qemu/fork_base.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/qemu/qemu_machine.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::fresh_identity;

class ForkBase : public VmTest {};

std::vector<std::string> fork_bases() {
  std::vector<std::string> names;
  if (auto found = sys::list_dir(world().data_dir() + "/snapshots")) names = *found;
  std::erase_if(names, [](const std::string& name) { return !machine::is_fork_base(name); });
  return names;
}

std::uint64_t anonymous_kib(const Machine& machine) {
  const auto text = sys::read_file("/proc/" + std::to_string(machine.pid()) + "/smaps_rollup");
  const auto at = text ? text->find("Anonymous:") : std::string::npos;
  return at == std::string::npos ? 0 : std::strtoull(text->c_str() + at + 10, nullptr, 10);
}

Task<Result<std::unique_ptr<Machine>>> woken(machine::QemuEngine& engine, std::string id) {
  FB_CO_TRY_ASSIGN(auto machine, co_await engine.resume(id, in_seconds(60)));
  FB_CO_TRY(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
  co_return machine;
}

TEST_F(ForkBase, IsWorthItWhenCopiesCostMore) {
  EXPECT_FALSE(machine::worth_a_base(1, 1000, 10));
  EXPECT_FALSE(machine::worth_a_base(2, 100, 100));
  EXPECT_TRUE(machine::worth_a_base(3, 100, 100));
  EXPECT_FALSE(machine::worth_a_base(0, 100, 0));
}

TEST_F(ForkBase, ManyChildrenShareWhatTheirParentChanged) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto parent, co_await world().launch(snapshot));
    CO_VALUE(const std::string sum,
             co_await shell(*parent,
                            "echo disk > /root/f; sync; head -c 80M /dev/urandom > /dev/shm/m; "
                            "sha256sum < /dev/shm/m"));
    const std::uint64_t changed = anonymous_kib(*parent);
    const std::vector<std::string> ids{"many-a", "many-b", "many-c", "many-d", "many-e"};
    CO_OK(co_await parent->fork(ids, in_seconds(120)));
    EXPECT_THAT(fork_bases(), testing::ElementsAre("fork-many-a"));
    CO_OK(co_await shell(*parent, "echo parent > /root/f; rm /dev/shm/m"));
    CO_OK(co_await parent->terminate(in_seconds(20)));

    CO_VALUE(auto child, co_await woken(world().engine(), "many-a"));
    CO_VALUE(const std::string seen, co_await shell(*child, "cat /root/f; sha256sum < /dev/shm/m"));
    EXPECT_EQ(seen, "disk\n" + sum);
    // Without the base it would have everything that its parent changed.
    EXPECT_LT(anonymous_kib(*child), changed - 60UL * 1024);

    // It is suspended, found by another daemon and forked like any other.
    CO_OK(co_await child->fork({"many-grandchild"}, in_seconds(60)));
    CO_VALUE(child, co_await suspend_and_resume(std::move(child), {}));
    CO_OK(co_await child->wake(fresh_identity("many-a", 3), in_seconds(60)));
    child.reset();
    auto engine = world().another_engine();
    CO_VALUE(child, co_await engine->attach("many-a", in_seconds(60)));
    CO_OK(co_await child->terminate(in_seconds(20)));
    for (const char* const id : {"many-b", "many-d", "many-e"})
      CO_OK(co_await world().engine().discard(id, in_seconds(20)));
    EXPECT_THAT(fork_bases(), testing::SizeIs(1));
    CO_VALUE(auto grandchild, co_await woken(*engine, "many-grandchild"));
    CO_VALUE(const std::string same, co_await shell(*grandchild, "sha256sum < /dev/shm/m"));
    EXPECT_EQ(same, sum);
    CO_OK(co_await grandchild->terminate(in_seconds(20)));
    CO_VALUE(const auto inventory, world().engine().inventory());
    EXPECT_THAT(inventory.snapshots, testing::Not(testing::Contains("fork-many-a")));
    // With the last of them it goes, and its memory.
    CO_OK(co_await world().engine().discard("many-c", in_seconds(20)));
    EXPECT_THAT(fork_bases(), testing::IsEmpty());
    for (const machine::HeldSnapshot& held : world().engine().held())
      EXPECT_FALSE(machine::is_fork_base(held.directory));
  });
}

TEST_F(ForkBase, FewChildrenGetNone) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto parent, co_await world().launch(snapshot));
    CO_OK(co_await parent->fork({"few-a", "few-b"}, in_seconds(60)));
    EXPECT_THAT(fork_bases(), testing::IsEmpty());
    for (const char* const id : {"few-a", "few-b"})
      CO_OK(co_await world().engine().discard(id, in_seconds(20)));
    CO_OK(co_await parent->terminate(in_seconds(20)));
  });
}

TEST_F(ForkBase, WhatAKilledDaemonLeftGoesWithTheNext) {
  const std::string left = world().data_dir() + "/snapshots/fork-nobody";
  ASSERT_TRUE(sys::mkdirs(left, 0700));
  auto engine = world().another_engine();
  EXPECT_FALSE(sys::exists(left));
}

}  // namespace
}  // namespace firebreak::testing_support
