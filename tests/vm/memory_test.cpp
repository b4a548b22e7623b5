// The memory that a guest was promised: it can use it, is charged for it once, gives it back when
// it needs it no more, and hears of its end itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::fresh_identity;

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint32_t kPromisedMib = 2048;
// As the server's: what was promised, and QEMU's own.
constexpr machine::HostLimits kLimits{
    .memory_bytes = (kPromisedMib + 256) * kMib, .cpu_weight = 100, .cpu_percent = 0};

// Holds 200 MiB that nobody can guess, and tells their hash when it is asked.
constexpr const char* kKeeper = R"(
import hashlib, os
data = os.urandom(200 << 20)
while True:
    open("/tmp/ask").read()
    open("/tmp/answer", "w").write(hashlib.sha256(data).hexdigest())
)";

class Memory : public VmTest {
 protected:
  static Task<Result<std::shared_ptr<Snapshot>>> base() {
    return world().snapshot("large", {.vcpus = 1, .memory_mib = kPromisedMib}, {}, {});
  }
  static Task<Result<std::unique_ptr<Machine>>> launch() {
    FB_CO_TRY_ASSIGN(auto snapshot, co_await base());
    FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
    FB_CO_TRY(machine->set_limits(kLimits));
    co_return machine;
  }
  static std::uint64_t held(const Machine& machine) {
    const auto usage = machine.usage();
    EXPECT_TRUE(usage);
    return usage ? usage->memory_bytes : 0;
  }
  // A program that fills so many MiB of its own and then goes on by `then`.
  static std::string fill(int mib, const std::string& then = "") {
    return "python3 -c 'b = bytearray(" + std::to_string(mib) +
           " << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n" + then + "'";
  }
  // Memory comes back when the guest has nothing better to do.
  static Task<bool> falls_below(Machine& machine, std::uint64_t bytes) {
    for (const Deadline until = in_seconds(90); !until.passed();) {
      if (held(machine) < bytes) co_return true;
      co_await pause(std::chrono::milliseconds(500));
    }
    co_return false;
  }
};

TEST_F(Memory, APromiseIsUsableAndChargedOnce) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await base());
    const std::uint64_t loaded = snapshot->ram_bytes();
    CO_VALUE(auto machine, co_await launch());
    CO_OK(co_await shell(*machine, fill(1740, "print(len(b))")));
    EXPECT_EQ(snapshot->ram_bytes(), loaded) << "the base grew with what a clone used";
    CO_OK(co_await shell(*machine,
                         "dd if=/dev/zero of=/tmp/file bs=1M count=1740 2>&1 && "
                         "test $(stat -c %s /tmp/file) = $((1740 << 20))"));
    EXPECT_EQ(snapshot->ram_bytes(), loaded);
    CO_OK(co_await shell(*machine, "rm /tmp/file"));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Memory, WhatAGuestFreesComesBackToTheHost) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    CO_OK(co_await shell(*machine, fill(16)));
    const std::uint64_t before = held(*machine);
    CO_OK(co_await shell(*machine, "mkfifo /tmp/go"));
    const std::string wait = "open(\"/tmp/filled\", \"w\").close(); open(\"/tmp/go\").read()";
    CO_OK(co_await shell(*machine, fill(1024, wait) +
                                       " > /dev/null 2>&1 & "
                                       "until [ -e /tmp/filled ]; do sleep 0.2; done"));
    EXPECT_GT(held(*machine), before + 900 * kMib);
    CO_OK(co_await shell(*machine, "echo > /tmp/go"));
    EXPECT_TRUE(co_await falls_below(*machine, before + 100 * kMib))
        << "before " << before / kMib << " MiB, now " << held(*machine) / kMib << " MiB";
    // What it gave away it can have again.
    CO_OK(co_await shell(*machine, fill(1024, "assert sum(b[::4096]) == 1024 * 256")));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Memory, BeyondThePromiseTheGuestSaysSoAndLives) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    machine::ExecSpec spec;
    spec.argv = {"python3", "-c", "all = []\nwhile True: all.append(b'x' * (32 << 20))"};
    CO_VALUE(const std::string id, co_await machine->agent().start_exec(spec, in_seconds(60)));
    CO_VALUE(auto stream, co_await machine->agent().exec_output(id, 0, in_seconds(300)));
    std::optional<machine::ExecExit> exit;
    for (;;) {
      CO_VALUE(auto frame, co_await stream->next(in_seconds(300)));
      if (!frame) break;
      if (frame->type != wire::FrameType::exit) continue;
      CO_VALUE(exit, machine::parse_exit(frame->payload));
    }
    CO_ASSERT(exit.has_value());
    EXPECT_TRUE(exit->oom);
    CO_OK(co_await shell(*machine, "true"));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(Memory, AMachineThatTheHostKilledForMemorySaysSo) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    EXPECT_FALSE(machine->killed_for_memory());
    machine::HostLimits tight = kLimits;
    tight.memory_bytes = held(*machine) + 64 * kMib;
    CO_OK(machine->set_limits(tight));
    EXPECT_FALSE(co_await shell(*machine, fill(512)));
    EXPECT_TRUE(co_await machine->wait_exit(in_seconds(30)));
    EXPECT_TRUE(machine->killed_for_memory());
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

// Pages that lie over holes of the base are saved when they were written, and only then.
TEST_F(Memory, WhatLiesOverHolesSurvivesSuspendAndFork) {
  run([]() -> Task<void> {
    CO_VALUE(auto machine, co_await launch());
    const std::string id = machine->id();
    CO_OK(co_await shell(*machine, "mkfifo /tmp/ask /tmp/answer; python3 -c '" +
                                       std::string(kKeeper) + "' > /dev/null 2>&1 &"));
    const std::string sum = "echo > /tmp/ask; cat /tmp/answer";
    CO_VALUE(const std::string before, co_await shell(*machine, sum));
    EXPECT_EQ(before.size(), 64U);
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), {}));
    CO_OK(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    CO_VALUE(const std::string after, co_await shell(*machine, sum));
    EXPECT_EQ(after, before);
    CO_OK(co_await machine->fork({"child-1", "child-2"}, in_seconds(120)));
    for (const std::string child : {"child-1", "child-2"}) {
      CO_VALUE(auto copy, co_await world().engine().resume(child, in_seconds(120)));
      CO_OK(co_await copy->wake(fresh_identity(child, 1), in_seconds(60)));
      CO_VALUE(const std::string copied, co_await shell(*copy, sum));
      EXPECT_EQ(copied, before);
      CO_OK(co_await copy->terminate(in_seconds(20)));
    }
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
