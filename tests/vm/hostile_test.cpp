// Guests whose PID 1 is not our agent but an attacker on both ports. Whatever it sends or does not
// send: the host's calls end with a typed error by their deadline, memory stays bounded, other
// machines do not notice, and nothing is left.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::QemuEngine;
using std::chrono::steady_clock;

constexpr std::uint64_t kMaxGrowthKib = 64 * 1024;

std::uint64_t status_kib(const std::string& name) {
  auto text = sys::read_file("/proc/self/status");
  const auto at = text ? text->find(name + ":") : std::string::npos;
  return at == std::string::npos ? 0
                                 : std::strtoull(text->c_str() + at + name.size() + 1, nullptr, 10);
}

// How far the memory of this process rises above what it was; the peak counts.
class MemoryWatch {
 public:
  MemoryWatch() {
    (void)sys::write_file("/proc/self/clear_refs", "5");
    before_ = status_kib("VmRSS");
  }
  std::uint64_t growth_kib() const {
    const std::uint64_t peak = status_kib("VmHWM");
    return peak > before_ ? peak - before_ : 0;
  }

 private:
  std::uint64_t before_ = 0;
};

class HostileGuest : public VmTest {
 protected:
  // An engine whose guests behave like this.
  static std::unique_ptr<QemuEngine> engine(const std::string& behaviour) {
    machine::QemuConfig config = world().engine().host().config();
    const std::string kernel = std::filesystem::path(config.initramfs).parent_path() / "kernel";
    const std::string init = world().data_dir() + "/hostile-init";
    config.initramfs = world().data_dir() + "/hostile.cpio";
    std::filesystem::copy_file(FIREBREAK_HOSTILE_INIT, init,
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream(init, std::ios::app | std::ios::binary) << "behaviour:" << behaviour;
    const std::string command =
        std::string(FIREBREAK_MAKE_INITRAMFS) + " " + init + " " + kernel + " " + config.initramfs;
    EXPECT_EQ(std::system(command.c_str()), 0);
    static net::asio::thread_pool pool{2};
    auto made = QemuEngine::create(config, world().io().get_executor(), pool);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *std::move(made) : nullptr;
  }
  static Task<Result<std::unique_ptr<Machine>>> boot(QemuEngine& engine, int seconds) {
    machine::BootSpec spec{.id = world().next_id("hostile"),
                           .size = {.vcpus = 1, .memory_mib = 128},
                           .disk = {.base = world().base_disk(), .layers = {}}};
    return engine.boot(spec, in_seconds(seconds));
  }
};

struct Case {
  std::string behaviour;
  Code code;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.behaviour;
}

const auto kName = [](const auto& info) { return info.param.behaviour; };

// --------------------------------------------------------------------------------- before it is up

class NeverUp : public HostileGuest, public testing::WithParamInterface<Case> {};

// A guest that only wastes time is waited for until the deadline and not longer; a wrong one is
// found out at once.
TEST_P(NeverUp, BootEndsWithATypedError) {
  run([]() -> Task<void> {
    const bool waits = GetParam().code == Code::timeout;
    const int seconds = waits ? 12 : 180;
    auto hostile = engine(GetParam().behaviour);
    const MemoryWatch memory;
    const auto began = steady_clock::now();
    const auto booted = co_await boot(*hostile, seconds);
    const auto took = steady_clock::now() - began;
    EXPECT_FALSE(booted);
    if (!booted) EXPECT_EQ(booted.error().code, GetParam().code) << booted.error().text();
    EXPECT_LT(took, std::chrono::seconds(waits ? seconds + 5 : seconds / 2));
    EXPECT_LT(memory.growth_kib(), kMaxGrowthKib);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Hostile, NeverUp,
    testing::Values(Case{"deaf", Code::timeout}, Case{"silent", Code::timeout},
                    Case{"flood", Code::timeout}, Case{"half_frame", Code::timeout},
                    Case{"sync_garbage", Code::guest}, Case{"many_syncs", Code::guest},
                    Case{"settings_flood", Code::guest}, Case{"ping_flood", Code::guest}),
    kName);

// ---------------------------------------------------------------------------------- once it is up

class WrongAnswer : public HostileGuest, public testing::WithParamInterface<Case> {};

TEST_P(WrongAnswer, CallEndsWithATypedError) {
  run([]() -> Task<void> {
    auto hostile = engine(GetParam().behaviour);
    CO_VALUE(auto machine, co_await boot(*hostile, 180));
    const MemoryWatch memory;
    const auto began = steady_clock::now();
    const auto health = co_await machine->agent().health(in_seconds(8));
    EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(12));
    EXPECT_FALSE(health);
    if (!health) EXPECT_EQ(health.error().code, GetParam().code) << health.error().text();
    EXPECT_LT(memory.growth_kib(), kMaxGrowthKib);
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

INSTANTIATE_TEST_SUITE_P(Hostile, WrongAnswer,
                         testing::Values(Case{"endless_body", Code::guest},
                                         Case{"endless_headers", Code::guest},
                                         Case{"endless_hints", Code::timeout}),
                         kName);

// A reader that stops costs its stream's window and not more.
TEST_F(HostileGuest, UnreadBodyIsBounded) {
  run([]() -> Task<void> {
    auto hostile = engine("data=endless_body");
    CO_VALUE(auto machine, co_await boot(*hostile, 180));
    const MemoryWatch memory;
    CO_VALUE(auto stream, machine->agent().data_stream("GET", "/health", true));
    CO_OK(co_await stream->head(in_seconds(20)));
    co_await pause(std::chrono::seconds(2));  // what would grow has the time to
    EXPECT_LT(memory.growth_kib(), 8U * 1024);
    // It still delivers when it is read at last.
    std::size_t bytes = 0;
    while (bytes < 10U << 20) {
      CO_VALUE(const std::string some, co_await stream->read(in_seconds(20)));
      CO_ASSERT(!some.empty());
      bytes += some.size();
    }
    EXPECT_LT(memory.growth_kib(), kMaxGrowthKib);
    stream.reset();
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

TEST_F(HostileGuest, FloodOnDataDoesNotDelayControlCallsOfAnybody) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto neighbour, co_await world().launch(snapshot));
    auto hostile = engine("data=unknown_frames");
    CO_VALUE(auto machine, co_await boot(*hostile, 180));
    const MemoryWatch memory;
    std::vector<steady_clock::duration> times;
    for (int i = 0; i < 50; ++i) {
      const auto began = steady_clock::now();
      CO_OK(co_await neighbour->agent().health(in_seconds(10)));
      times.push_back(steady_clock::now() - began);
      CO_OK(co_await machine->agent().health(in_seconds(10)));
    }
    std::sort(times.begin(), times.end());
    // Both guests share this machine's CPUs; a call that queued behind the flood would not come
    // back at all.
    EXPECT_LT(times[times.size() / 2], std::chrono::milliseconds(100));
    EXPECT_LT(times.back(), std::chrono::seconds(2));
    EXPECT_LT(memory.growth_kib(), kMaxGrowthKib);
    CO_OK(co_await shell(*neighbour, "true"));
    CO_OK(co_await neighbour->terminate(in_seconds(20)));
    CO_OK(co_await machine->terminate(in_seconds(20)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
