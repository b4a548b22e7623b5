// What a guest keeps over suspend and resume: memory, open files, timers, connections, running
// commands, unsynced writes; and what it does not: a wrong clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vm/probe.h"

namespace firebreak::testing_support {
namespace {

using namespace std::chrono_literals;

class State : public VmTest {};

Task<Result<>> wake(Machine& machine, std::uint64_t generation) {
  co_return co_await machine.wake(machine::fresh_identity(machine.id(), generation),
                                  in_seconds(60));
}

TEST_F(State, OpenFilesKeepTheirOffsetsAndUnlinkedOnesTheirContent) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(false));
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await world().launch(base.snapshot));
    CO_OK(co_await probe.ask(*machine, R"py(
held = open('/root/held', 'w+b', buffering=0)
held.write(b'0123456789' * 100000)
held.seek(123456)
gone = open('/root/gone', 'w+b', buffering=0)
gone.write(os.urandom(1 << 20))
os.unlink('/root/gone')
import hashlib
gone_sum = hashlib.sha256(os.pread(gone.fileno(), 1 << 20, 0)).hexdigest()
append = open('/root/append', 'ab', buffering=0)
append.write(b'before ')
)py"));
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
    CO_OK(co_await wake(*machine, 2));
    CO_VALUE(const json::value after, co_await probe.ask(*machine, R"py(
append.write(b'after')
result = [held.tell(), held.read(4).decode(), os.path.exists('/root/gone'),
          hashlib.sha256(os.pread(gone.fileno(), 1 << 20, 0)).hexdigest() == gone_sum, open('/root/append').read()]
)py"));
    EXPECT_EQ(json::serialize(after), R"([123456,"6789",false,true,"before after"])");
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_F(State, LoopbackConnectionsGoOn) {
  run([]() -> Task<void> {
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(false));
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await world().launch(base.snapshot));
    // Some bytes are on their way while the machine sleeps: sent, not yet received.
    CO_OK(co_await probe.ask(*machine, R"py(
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.sendall(b'half a sentence, ')
)py"));
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
    CO_OK(co_await wake(*machine, 2));
    CO_VALUE(const json::value after, co_await probe.ask(*machine, R"py(
client.sendall(b'and the rest')
client.shutdown(socket.SHUT_WR)
heard = b''
while data := server.recv(4096):
    heard += data
server.sendall(b'answer')
server.close()
late = socket.create_connection(listener.getsockname())
result = [heard.decode(), client.recv(4096).decode(), client.recv(4096).decode(), late.getpeername()[0]]
)py"));
    EXPECT_EQ(json::serialize(after),
              R"(["half a sentence, and the rest","answer","","127.0.0.1"])");
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_F(State, APendingTimerFiresAfterTheResumeAndItsTimeStandsStillWhileSuspended) {
  run([]() -> Task<void> {
    constexpr auto kAsleep = 2000ms;
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(false));
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await world().launch(base.snapshot));
    const auto armed = std::chrono::steady_clock::now();
    CO_OK(co_await probe.ask(*machine, R"py(
import threading
fired = []
done = threading.Event()
def fire():
    fired.append(clocks())
    done.set()
armed = time.monotonic_ns()
threading.Timer(5, fire).start()
)py"));
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), kAsleep));
    const std::int64_t before_wake = host_realtime_ns();
    CO_OK(co_await wake(*machine, 2));
    CO_VALUE(const json::value after, co_await probe.ask(*machine, R"py(
done.wait(60)
result = [fired[0][0] - armed, fired[0][1], time.monotonic_ns() - armed]
)py"));
    const auto host_elapsed = std::chrono::steady_clock::now() - armed;
    const auto waited = std::chrono::nanoseconds(after.at(0).to_number<std::int64_t>());
    EXPECT_GE(waited, 5s);
    EXPECT_GE(after.at(1).to_number<std::int64_t>(), before_wake) << "fired before the suspend";
    const auto guest_elapsed = std::chrono::nanoseconds(after.at(2).to_number<std::int64_t>());
    EXPECT_LE(guest_elapsed, host_elapsed - kAsleep);
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_F(State, ARunningCommandsOutputGoesOnWithoutAGap) {
  run([]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await world().default_snapshot());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    // More than the agent buffers, so it cannot be over before it is read to the end.
    machine::ExecSpec spec;
    spec.argv = {"seq", "500000"};
    CO_VALUE(const std::string id, co_await machine->agent().start_exec(spec, in_seconds(60)));
    std::string heard;
    std::optional<machine::ExecExit> exit;
    for (std::uint64_t generation = 2; !exit; ++generation) {
      {
        CO_VALUE(auto output,
                 co_await machine->agent().exec_output(id, heard.size(), in_seconds(60)));
        const std::size_t goal = heard.size() + 700'000;
        while (!exit && (heard.size() < goal || generation > 4)) {
          CO_VALUE(auto frame, co_await output->next(in_seconds(60)));
          CO_ASSERT(frame.has_value());
          EXPECT_NE(frame->type, wire::FrameType::gap);
          if (frame->type == wire::FrameType::out) heard += frame->payload;
          if (frame->type == wire::FrameType::exit) {
            CO_VALUE(exit, machine::parse_exit(frame->payload));
          }
        }
      }
      if (exit) break;
      CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
      CO_OK(co_await wake(*machine, generation));
    }
    EXPECT_EQ(exit->exit_code, 0);
    std::string expected;
    for (int i = 1; i <= 500000; ++i) expected += std::to_string(i) + "\n";
    EXPECT_TRUE(heard == expected) << heard.size() << " bytes instead of " << expected.size();
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_F(State, ThirtyCyclesChangeNoByteOfMemoryOrDisk) {
  run([]() -> Task<void> {
    constexpr int kCycles = 30;
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(false));
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await world().launch(base.snapshot));
    CO_OK(co_await probe.ask(*machine, R"py(
import hashlib
blob = bytearray(os.urandom(2 << 20))
def memory():
    return hashlib.sha256(blob).hexdigest()
def disk():
    total = hashlib.sha256()
    for directory, _, names in sorted(os.walk('/root/tree')):
        for name in sorted(names):
            path = directory + '/' + name
            total.update(path.encode())
            total.update(open(path, 'rb').read())
    return total.hexdigest()
for i in range(50):
    os.makedirs(f'/root/tree/{i % 7}', exist_ok=True)
    with open(f'/root/tree/{i % 7}/{i}', 'wb') as f:
        f.write(os.urandom(i * 997))
)py"));
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      // Both change in every cycle, and what was written last is not synced.
      CO_VALUE(const json::value before, co_await probe.ask(*machine, R"py(
at = int.from_bytes(os.urandom(2), 'big') * 30
blob[at:at + 50000] = os.urandom(50000)
with open(f'/root/tree/{os.urandom(4).hex()}', 'wb') as f:
    f.write(os.urandom(20000))
result = [memory(), disk(), os.getpid(), os.urandom(8).hex()]
)py"));
      CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
      const auto generation = static_cast<std::uint64_t>(cycle) + 2;
      CO_VALUE(const auto asleep, co_await machine->agent().health(in_seconds(60)));
      EXPECT_EQ(asleep.tenant, "frozen");
      EXPECT_EQ(asleep.generation, generation - 1);
      CO_OK(co_await wake(*machine, generation));
      CO_VALUE(const json::value after,
               co_await probe.ask(*machine,
                                  "result = [memory(), disk(), os.getpid(), os.urandom(8).hex()]"));
      EXPECT_EQ(after.at(0), before.at(0)) << "memory, cycle " << cycle;
      EXPECT_EQ(after.at(1), before.at(1)) << "disk, cycle " << cycle;
      EXPECT_EQ(after.at(2), before.at(2)) << "process, cycle " << cycle;
      EXPECT_NE(after.at(3), before.at(3)) << "random numbers, cycle " << cycle;
      CO_VALUE(const auto awake, co_await machine->agent().health(in_seconds(60)));
      EXPECT_EQ(awake.tenant, "running");
      EXPECT_EQ(awake.generation, generation);
      if (testing::Test::HasFailure()) break;
    }
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

TEST_F(State, TheClockIsRightAtTheFirstInstructionAfterLaunchAndResume) {
  run([]() -> Task<void> {
    constexpr auto kAsleep = 2000ms;
    CO_VALUE(const ProbedSnapshot base, co_await probed_snapshot(true));
    Probe probe = base.probe;
    CO_VALUE(auto machine, co_await world().launch(base.snapshot));
    CO_VALUE(const ClockError launched, co_await clock_error(*machine, probe));
    EXPECT_TRUE(launched.within(100ms)) << launched.text();

    const auto began = std::chrono::steady_clock::now();
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), kAsleep));
    const std::int64_t before_wake = host_realtime_ns();
    CO_OK(co_await wake(*machine, 2));
    CO_VALUE(const ClockError resumed, co_await clock_error(*machine, probe));
    EXPECT_TRUE(resumed.within(100ms)) << resumed.text();

    // The sampler saw the clock set twice and never in between: so those errors are those of its
    // first samples, too.
    CO_VALUE(const SamplerReport report, co_await sampler_report(*machine, probe));
    const auto host_elapsed = std::chrono::steady_clock::now() - began;
    CO_ASSERT(report.crossings.size() == 2);
    const Crossing& resume = report.crossings[1];
    EXPECT_GE(resume.after.realtime_ns, before_wake - std::chrono::nanoseconds(100ms).count());
    const std::chrono::nanoseconds monotonic(resume.after.monotonic_ns -
                                             resume.before.monotonic_ns);
    EXPECT_GE(monotonic, 0ns);
    EXPECT_LE(monotonic, host_elapsed - kAsleep);
    RecordProperty("launch", launched.text());
    RecordProperty("resume", resumed.text());
    CO_OK(co_await machine->terminate(in_seconds(10)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
