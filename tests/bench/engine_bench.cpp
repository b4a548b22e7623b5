#include "bench/engine_bench.h"

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::bench {
namespace {

using machine::ExecSpec;
using machine::fresh_identity;
using testing_support::in_seconds;
using testing_support::world;

// Reads a line with a number, prints a mark and the number: stdout of the exec is what the client
// waits for.
constexpr const char* kContext = R"(
import sys
scope = {}
for line in sys.stdin:
    exec(line, scope)
    sys.stdout.flush()
)";

constexpr const char* kEcho = R"(
import socket, threading
server = socket.create_server(("127.0.0.1", 7))
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
while True:
    peer, _ = server.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
)";

ExecSpec context_exec() {
  ExecSpec context;
  context.argv = {"/usr/bin/python3", "-u", "-c", kContext};
  context.with_stdin = true;
  return context;
}

Task<Result<>> start_servers(Machine& machine) {
  ExecSpec context = context_exec();
  context.id = "context";
  FB_CO_TRY(co_await machine.agent().start_exec(context, in_seconds(60)));
  ExecSpec echo;
  echo.argv = {"/usr/bin/python3", "-c", kEcho};
  echo.id = "echo";
  echo.drop_on_overflow = true;
  FB_CO_TRY(co_await machine.agent().start_exec(echo, in_seconds(60)));
  // Both are up when the interpreter answers and the port accepts.
  FB_CO_TRY(co_await timed_context(machine, 0));
  ExecSpec wait;
  wait.shell =
      "for i in $(seq 100); do python3 -c 'import socket; "
      "socket.create_connection((\"127.0.0.1\",7))' && exit 0; sleep 0.1; done; exit 1";
  FB_CO_TRY_ASSIGN(auto waited, co_await machine.agent().run(wait, in_seconds(60)));
  if (waited.exit.exit_code != 0) co_return fail(Code::internal, "the echo server did not start");
  co_return Result<>();
}

void print_phases(Report& report, const std::string& what, const machine::Phases& phases) {
  std::string line = "    " + what + ":";
  for (const machine::Phase& phase : phases)
    line += " " + phase.name + " " +
            std::to_string(static_cast<double>(phase.took.count()) / 1000.0).substr(0, 6) + " ms,";
  line.pop_back();
  report.note(line);
}

// Nothing is warm: a new process that has translated no guest code yet.
Task<Result<>> bench_restore(Report& report, std::shared_ptr<Snapshot> snapshot,
                             const std::string& suffix, int count) {
  Samples restore, restore_to_wake, suspend;
  machine::Phases restore_phases, wake_phases;
  for (int i = 0; i < count; ++i) {
    const std::string id = world().next_id();
    const Timer timer;
    FB_CO_TRY_ASSIGN(auto machine,
                     co_await world().engine().restore(snapshot, {.id = id}, in_seconds(120)));
    restore_phases = machine->phases();
    FB_CO_TRY(co_await machine->wake(fresh_identity(id, 1), in_seconds(60)));
    wake_phases = machine->phases();
    restore_to_wake.add(timer.ms());
    FB_CO_TRY(co_await timed_true(*machine));
    restore.add(timer.ms());
    const Timer suspend_timer;
    FB_CO_TRY(co_await machine->suspend(in_seconds(60)));
    suspend.add(suspend_timer.ms());
    FB_CO_TRY(co_await world().engine().discard(id, in_seconds(10)));
  }
  report.time("restore" + suffix, restore);
  print_phases(report, "restore", restore_phases);
  print_phases(report, "wake", wake_phases);
  report.time("restore_to_wake" + suffix, restore_to_wake);
  report.time("suspend_unrehearsed" + suffix, suspend);
  co_return Result<>();
}

// What users get from the warm pool: parked, rehearsed clones.
Task<Result<>> bench_parked(Report& report, std::shared_ptr<Snapshot> snapshot,
                            const std::string& suffix, int count) {
  Samples launch, launch_context, suspend, resume, resume_exec, fork_pause;
  machine::Phases suspend_phases, resume_phases, wake_phases;
  for (int i = 0; i < count; ++i) {
    FB_CO_TRY_ASSIGN(auto machine, co_await parked(snapshot));
    const std::string id = machine->id();
    const Timer timer;
    FB_CO_TRY(co_await machine->unpark(fresh_identity(id, 1), in_seconds(60)));
    FB_CO_TRY(co_await timed_true(*machine));
    launch.add(timer.ms());
    const Timer suspend_timer;
    FB_CO_TRY(co_await machine->suspend(in_seconds(60)));
    suspend.add(suspend_timer.ms());
    suspend_phases = machine->phases();
    machine.reset();
    const Timer resume_timer;
    FB_CO_TRY_ASSIGN(machine, co_await world().engine().resume(id, in_seconds(60)));
    resume_phases = machine->phases();
    FB_CO_TRY(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    resume.add(resume_timer.ms());
    wake_phases = machine->phases();
    FB_CO_TRY(co_await timed_true(*machine));
    resume_exec.add(resume_timer.ms());
    const std::string child = world().next_id();
    FB_CO_TRY(co_await machine->fork({child}, in_seconds(60)));
    for (const machine::Phase& phase : machine->phases())
      if (phase.name == "pause") fork_pause.add(static_cast<double>(phase.took.count()) / 1000.0);
    FB_CO_TRY(co_await world().engine().discard(child, in_seconds(10)));
    FB_CO_TRY(co_await machine->terminate(in_seconds(10)));

    FB_CO_TRY_ASSIGN(auto other, co_await parked(snapshot, context_exec()));
    const Timer context_timer;
    FB_CO_TRY(co_await other->unpark(fresh_identity(other->id(), 1), in_seconds(60)));
    FB_CO_TRY(co_await timed_context(*other, 1));
    launch_context.add(context_timer.ms());
    FB_CO_TRY(co_await other->terminate(in_seconds(10)));
  }
  report.time("parked_launch" + suffix, launch);
  report.time("parked_launch_context_python" + suffix, launch_context);
  report.time("suspend" + suffix, suspend);
  print_phases(report, "suspend", suspend_phases);
  report.time("resume" + suffix, resume);
  print_phases(report, "resume", resume_phases);
  print_phases(report, "wake after resume", wake_phases);
  report.time("resume_exec" + suffix, resume_exec);
  report.time("fork_pause" + suffix, fork_pause);
  co_return Result<>();
}

}  // namespace

Task<Result<std::shared_ptr<Snapshot>>> bench_snapshot(std::uint32_t memory_mib) {
  return world().snapshot("bench-" + std::to_string(memory_mib),
                          {.vcpus = 1, .memory_mib = memory_mib}, {}, start_servers);
}

Task<Result<double>> timed_true(Machine& machine) {
  ExecSpec spec;
  spec.argv = {"/bin/true"};
  const Timer timer;
  FB_CO_TRY_ASSIGN(auto result, co_await machine.agent().run(spec, in_seconds(60)));
  if (result.exit.exit_code != 0) co_return fail(Code::internal, "/bin/true failed");
  co_return timer.ms();
}

Task<Result<double>> timed_context(Machine& machine, int round) {
  // Offsets: every round reads and writes lines of the same length.
  const auto number = std::to_string(1000 + round);
  const std::string line = "print(" + number + ")\n";
  const auto at = static_cast<std::uint64_t>(round);
  const Timer timer;
  FB_CO_TRY(co_await machine.agent().exec_stdin("context", at * line.size(), line, false,
                                                in_seconds(60)));
  FB_CO_TRY_ASSIGN(auto output,
                   co_await machine.agent().exec_output("context", at * 5, in_seconds(60)));
  std::string seen;
  while (seen.size() < 5) {
    FB_CO_TRY_ASSIGN(auto frame, co_await output->next(in_seconds(60)));
    if (!frame || frame->type == wire::FrameType::exit)
      co_return fail(Code::internal, "the interpreter ended: " + seen);
    seen += frame->payload;
  }
  if (seen != number + "\n") co_return fail(Code::internal, "wrong answer: " + seen);
  co_return timer.ms();
}

Task<Result<std::unique_ptr<Machine>>> parked(std::shared_ptr<Snapshot> snapshot,
                                              std::optional<ExecSpec> rehearsed) {
  FB_CO_TRY_ASSIGN(auto machine,
                   co_await world().engine().restore(std::move(snapshot), {.id = world().next_id()},
                                                     in_seconds(120)));
  if (rehearsed)
    FB_CO_TRY(co_await machine->agent().rehearse_exec(*rehearsed, "print(1000)\nprint(1001)\n",
                                                      in_seconds(60)));
  FB_CO_TRY(co_await machine->rehearse(in_seconds(60)));
  FB_CO_TRY(co_await machine->park(in_seconds(10)));
  co_return std::move(machine);
}

Task<Result<>> bench_lifecycle(Report& report, std::shared_ptr<Snapshot> snapshot,
                               const std::string& suffix, int count) {
  FB_CO_TRY(co_await bench_restore(report, snapshot, suffix, count));
  co_return co_await bench_parked(report, std::move(snapshot), suffix, count);
}

Task<Result<>> bench_dirty(Report& report, std::shared_ptr<Snapshot> snapshot, int megabytes,
                           int count) {
  Samples suspend, resume;
  for (int i = 0; i < count; ++i) {
    FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
    const std::string id = machine->id();
    if (megabytes > 4) {  // about 4 MB are changed by waking up alone
      ExecSpec hold;
      hold.argv = {"/usr/bin/python3", "-u", "-c",
                   "import os,time; b=os.urandom(1<<20)*" + std::to_string(megabytes) +
                       "; print(len(b)); time.sleep(1e6)"};
      hold.id = "hold";
      FB_CO_TRY(co_await machine->agent().start_exec(hold, in_seconds(60)));
      FB_CO_TRY_ASSIGN(auto output,
                       co_await machine->agent().exec_output("hold", 0, in_seconds(60)));
      FB_CO_TRY(co_await output->next(in_seconds(120)));
    }
    const Timer suspend_timer;
    FB_CO_TRY(co_await machine->suspend(in_seconds(120)));
    suspend.add(suspend_timer.ms());
    machine.reset();
    const Timer resume_timer;
    FB_CO_TRY_ASSIGN(machine, co_await world().engine().resume(id, in_seconds(120)));
    FB_CO_TRY(co_await machine->wake(fresh_identity(id, 2), in_seconds(60)));
    resume.add(resume_timer.ms());
    FB_CO_TRY(co_await machine->terminate(in_seconds(10)));
  }
  report.time("suspend_dirty_" + std::to_string(megabytes) + "mb", suspend);
  report.time("resume_dirty_" + std::to_string(megabytes) + "mb", resume);
  co_return Result<>();
}

Task<Result<>> bench_exec(Report& report, std::shared_ptr<Snapshot> snapshot, int count) {
  FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
  Samples exec_true, exec_python, context, tunnel;
  ExecSpec python;
  python.argv = {"/usr/bin/python3", "-c", "1"};
  FB_CO_TRY(co_await timed_true(*machine));
  FB_CO_TRY(co_await machine->agent().run(python, in_seconds(60)));
  for (int i = 0; i < count; ++i) {
    FB_CO_TRY_ASSIGN(const double ms, co_await timed_true(*machine));
    exec_true.add(ms);
    const Timer timer;
    FB_CO_TRY(co_await machine->agent().run(python, in_seconds(60)));
    exec_python.add(timer.ms());
    FB_CO_TRY_ASSIGN(const double context_ms, co_await timed_context(*machine, i + 1));
    context.add(context_ms);
  }
  FB_CO_TRY_ASSIGN(auto stream, machine->agent().data_stream("POST", "/tunnel?port=7", false));
  FB_CO_TRY(co_await stream->head(in_seconds(30)));
  for (int i = 0; i < count * 10; ++i) {
    const std::string ping(64, 'p');
    const Timer timer;
    FB_CO_TRY(co_await stream->write(ping, in_seconds(30)));
    for (std::size_t seen = 0; seen < ping.size();) {
      FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(in_seconds(30)));
      if (bytes.empty()) co_return fail(Code::internal, "the tunnel closed");
      seen += bytes.size();
    }
    tunnel.add(timer.ms());
  }
  stream.reset();
  report.time("exec_true", exec_true);
  report.time("exec_python", exec_python);
  report.time("context_python", context);
  report.time("tunnel_rtt", tunnel);
  co_return co_await machine->terminate(in_seconds(10));
}

Task<Result<>> bench_channel(Report& report, std::shared_ptr<Snapshot> snapshot) {
  FB_CO_TRY_ASSIGN(auto machine, co_await world().launch(snapshot));
  constexpr int kMegabytes = 64;
  ExecSpec source;
  source.shell = "head -c " + std::to_string(kMegabytes) + "M /dev/zero";
  for (int round = 0; round < 2; ++round) {
    const Timer timer;
    FB_CO_TRY(co_await machine->agent().run(source, in_seconds(120), 256 << 20));
    if (round == 1) report.value("channel_mb_s_from_guest", kMegabytes / timer.ms() * 1000, "MB/s");
  }
  ExecSpec sink;
  sink.shell = "cat > /dev/null";
  sink.with_stdin = true;
  sink.id = "sink";
  FB_CO_TRY(co_await machine->agent().start_exec(sink, in_seconds(30)));
  const std::string chunk(std::size_t{kMegabytes} << 20, 'x');
  const Timer timer;
  FB_CO_TRY(co_await machine->agent().exec_stdin("sink", 0, chunk, true, in_seconds(120)));
  report.value("channel_mb_s_to_guest", kMegabytes / timer.ms() * 1000, "MB/s");
  co_return co_await machine->terminate(in_seconds(10));
}

Task<Result<>> bench_cold_boot(Report& report, int count) {
  Samples boot;
  machine::Phases phases;
  for (int i = 0; i < count; ++i) {
    const Timer timer;
    machine::BootSpec spec{.id = world().next_id("boot"),
                           .size = {.vcpus = 1, .memory_mib = 256},
                           .disk = {.base = world().base_disk(), .layers = {}},
                           .tenant = {}};
    FB_CO_TRY_ASSIGN(auto machine, co_await world().engine().boot(spec, in_seconds(120)));
    FB_CO_TRY(co_await timed_true(*machine));
    boot.add(timer.ms());
    phases = machine->phases();
    FB_CO_TRY(co_await machine->terminate(in_seconds(10)));
  }
  report.time("cold_boot", boot);
  print_phases(report, "cold boot", phases);
  co_return Result<>();
}

}  // namespace firebreak::bench
