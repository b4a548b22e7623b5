#include "vm/probe.h"

#include <map>

namespace firebreak::testing_support {
namespace {

// Clock first, identity after it: a sample with the new clock must have the new identity, while the
// freeze may hit a sample between its old clock and its new identity.
constexpr const char* kScript = R"py(
import json, mmap, os, select, socket, time, traceback

sampling = False
total = 0
crossings = []
identity_changes = []
last = None
with open('/dev/shm/count', 'wb') as f:
    f.write(bytes(8))
counter = mmap.mmap(os.open('/dev/shm/count', os.O_RDWR), 8)

def clocks():
    before = time.monotonic_ns()
    real = time.time_ns()
    return before, real, time.monotonic_ns()

def apart(a, b):
    margin = 100_000
    return a[1] - a[2] > b[1] - b[0] + margin or b[1] - b[2] > a[1] - a[0] + margin

def sample():
    global last, total
    clock = clocks()
    random = os.urandom(16).hex()
    name = socket.gethostname()
    with open('/etc/machine-id') as f:
        machine = f.read().strip()
    now = (clock, random, name, machine)
    if last:
        if apart(last[0], clock):
            crossings.append((total, last, now))
        if last[2:] != now[2:]:
            identity_changes.append(total)
    last = now
    total += 1
    counter[:] = total.to_bytes(8, 'big')

def answer(line):
    scope = globals()
    scope['result'] = None
    try:
        exec(json.loads(line), scope)
        reply = {'result': scope['result']}
    except BaseException:
        reply = {'error': traceback.format_exc()}
    os.write(1, json.dumps(reply).encode() + b'\n')

waiting = b''
while True:
    if select.select([0], [], [], 0 if sampling else None)[0]:
        data = os.read(0, 65536)
        if not data:
            break
        waiting += data
        while b'\n' in waiting:
            line, _, waiting = waiting.partition(b'\n')
            answer(line)
    if sampling:
        sample()
)py";

constexpr const char* kId = "probe";

Sample parse_sample(const json::value& value) {
  const json::array& sample = value.as_array();
  const json::array& clock = sample.at(0).as_array();
  return Sample{.monotonic_ns = clock.at(0).to_number<std::int64_t>(),
                .realtime_ns = clock.at(1).to_number<std::int64_t>(),
                .random = std::string(sample.at(1).as_string()),
                .hostname = std::string(sample.at(2).as_string()),
                .machine_id = std::string(sample.at(3).as_string())};
}

Task<Result<std::string>> read_line(machine::ExecStream& output) {
  std::string line;
  while (!line.ends_with('\n')) {
    FB_CO_TRY_ASSIGN(auto frame, co_await output.next(in_seconds(120)));
    if (!frame) co_return fail(Code::guest, "the probe's output ended", line);
    if (frame->type != wire::FrameType::out)
      co_return fail(Code::guest, "the probe failed", frame->payload);
    line += frame->payload;
  }
  co_return line;
}

}  // namespace

Task<Result<Probe>> Probe::start(Machine& machine, bool sampling) {
  machine::ExecSpec spec;
  spec.argv = {"python3", "-c", kScript};
  spec.with_stdin = true;
  spec.id = kId;
  FB_CO_TRY(co_await machine.agent().start_exec(spec, in_seconds(60)));
  Probe probe;
  FB_CO_TRY(co_await probe.ask(machine, sampling ? "sampling = True" : "sampling = False"));
  co_return probe;
}

Task<Result<json::value>> Probe::ask(Machine& machine, std::string code) {
  const std::string line = json::serialize(json::value(code)) + "\n";
  FB_CO_TRY(co_await machine.agent().exec_stdin(kId, asked_, line, false, in_seconds(60)));
  asked_ += line.size();
  FB_CO_TRY_ASSIGN(auto output, co_await machine.agent().exec_output(kId, heard_, in_seconds(60)));
  FB_CO_TRY_ASSIGN(const std::string text, co_await read_line(*output));
  heard_ = output->offset();
  FB_CO_TRY_ASSIGN(const json::object reply, parse_json_object(text));
  if (const json::value* error = reply.if_contains("error"))
    co_return fail(Code::guest, "the probe's code failed", std::string(error->as_string()));
  co_return reply.at("result");
}

Task<Result<Probe>> start_sampler(Machine& machine) {
  FB_CO_TRY_ASSIGN(Probe probe, co_await Probe::start(machine, true));
  for (std::uint64_t taken = 0; taken < 100;) {
    FB_CO_TRY_ASSIGN(taken, co_await samples_taken(machine));
  }
  co_return probe;
}

Task<Result<ProbedSnapshot>> probed_snapshot(bool sampling) {
  static std::map<std::string, Probe> probes;
  const std::string name = sampling ? "sampler" : "probe";
  auto prepare = [name, sampling](Machine& machine) -> Task<Result<>> {
    FB_CO_TRY_ASSIGN(probes[name],
                     co_await (sampling ? start_sampler(machine) : Probe::start(machine, false)));
    co_return Result<>();
  };
  FB_CO_TRY_ASSIGN(auto snapshot,
                   co_await world().snapshot(name, {.vcpus = 1, .memory_mib = 256}, {}, prepare));
  co_return ProbedSnapshot{snapshot, probes[name]};
}

Task<Result<std::uint64_t>> samples_taken(Machine& machine) {
  FB_CO_TRY_ASSIGN(const std::string bytes,
                   co_await machine.agent().read_file(kProbeCounter, in_seconds(60)));
  if (bytes.size() != 8) co_return fail(Code::guest, "the probe's counter is not 8 bytes");
  std::uint64_t count = 0;
  for (const char byte : bytes) count = count << 8 | static_cast<unsigned char>(byte);
  co_return count;
}

Task<Result<SamplerReport>> sampler_report(Machine& machine, Probe& probe) {
  // It takes a sample between two answers: after a wake there is one to report.
  FB_CO_TRY(co_await probe.ask(machine, ""));
  FB_CO_TRY_ASSIGN(const json::value value,
                   co_await probe.ask(machine, "result = [total, crossings, identity_changes]"));
  const json::array& parts = value.as_array();
  SamplerReport report;
  report.total = parts.at(0).to_number<std::uint64_t>();
  for (const json::value& item : parts.at(1).as_array()) {
    Crossing crossing;
    crossing.index = item.as_array().at(0).to_number<std::uint64_t>();
    crossing.before = parse_sample(item.as_array().at(1));
    crossing.after = parse_sample(item.as_array().at(2));
    report.crossings.push_back(crossing);
  }
  for (const json::value& item : parts.at(2).as_array())
    report.identity_changes.push_back(item.to_number<std::uint64_t>());
  co_return report;
}

std::string ClockError::text() const {
  return "guest clock - host clock is " + std::to_string(least_ns / 1000) + " to " +
         std::to_string(most_ns / 1000) + " us";
}

Task<Result<ClockError>> clock_error(Machine& machine, Probe& probe) {
  constexpr int kLeastTries = 10;
  constexpr std::int64_t kTightEnough = 20'000'000;
  const Deadline deadline = in_seconds(60);
  ClockError error{.least_ns = INT64_MIN, .most_ns = INT64_MAX};
  for (int tries = 0; tries < kLeastTries || error.most_ns - error.least_ns > kTightEnough;
       ++tries) {
    if (deadline.passed()) co_return fail(Code::timeout, "round trips to the guest are too slow");
    const std::int64_t asked = host_realtime_ns();
    FB_CO_TRY_ASSIGN(const json::value clock,
                     co_await probe.ask(machine, "result = time.time_ns()"));
    const std::int64_t answered = host_realtime_ns();
    const auto guest = clock.to_number<std::int64_t>();
    error.least_ns = std::max(error.least_ns, guest - answered);
    error.most_ns = std::min(error.most_ns, guest - asked);
  }
  co_return error;
}

void expect_clean_crossing(const SamplerReport& report, std::size_t crossings,
                           const machine::Identity& identity) {
  ASSERT_EQ(report.crossings.size(), crossings);
  const Crossing& last = report.crossings.back();
  EXPECT_EQ(last.after.hostname, identity.hostname);
  EXPECT_EQ(last.after.machine_id, identity.machine_id);
  EXPECT_NE(last.after.random, last.before.random);
  ASSERT_FALSE(report.identity_changes.empty());
  // The freeze may hit a sample after its clock was read; then that sample has seen the new
  // identity.
  EXPECT_LE(report.identity_changes.back(), last.index)
      << "a sample after the wake had an old identity";
  EXPECT_GE(report.identity_changes.back() + 1, last.index)
      << "a sample before the wake had the new identity";
  EXPECT_GT(report.total, last.index);
}

Task<void> expect_frozen(Machine& machine) {
  CO_VALUE(const std::uint64_t before, co_await samples_taken(machine));
  EXPECT_GT(before, 0U);
  const Deadline until = Deadline::in(std::chrono::milliseconds(300));
  for (int polls = 0; polls < 3 || !until.passed(); ++polls) {
    CO_VALUE(const auto health, co_await machine.agent().health(in_seconds(60)));
    EXPECT_EQ(health.tenant, "frozen");
  }
  CO_VALUE(const std::uint64_t after, co_await samples_taken(machine));
  EXPECT_EQ(after, before);
}

Task<void> expect_right_clock(Machine& machine, Probe& probe) {
  CO_VALUE(const ClockError error, co_await clock_error(machine, probe));
  EXPECT_TRUE(error.within(std::chrono::milliseconds(100))) << error.text();
}

}  // namespace firebreak::testing_support
