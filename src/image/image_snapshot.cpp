#include "image/image_snapshot.h"

#include "image/guest_stream.h"
#include "image/hook_caller.h"

namespace firebreak::image {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr std::size_t kMaxTail = 2000;

void say(const SnapshotSpec& spec, const std::string& text) {
  if (spec.log) spec.log(text + "\n");
}

// "freeze 12 ms, flatten 340 ms"
std::string times_of(const machine::Phases& phases) {
  std::string text;
  for (const machine::Phase& phase : phases)
    text += (text.empty() ? "" : ", ") + phase.name + " " +
            std::to_string(phase.took.count() / 1000) + " ms";
  return text;
}

net::Task<void> pause(std::chrono::nanoseconds time) {
  net::asio::steady_timer timer(co_await net::asio::this_coro::executor, time);
  (void)co_await timer.async_wait(net::kNoThrow);
}

// How it ended, and what it printed last; shown in the log and in the reason.
struct AppEnd {
  std::string printed;
  std::string how;  // "with exit code 0"; empty: unknown
};

std::string describe(const machine::ExecExit& exit) {
  if (exit.oom) return "because the guest ran out of memory";
  if (exit.signal) return "by signal " + std::to_string(*exit.signal);
  return exit.exit_code ? "with exit code " + std::to_string(*exit.exit_code) : "";
}

net::Task<AppEnd> end_of_app(machine::AgentClient& agent, Deadline deadline) {
  AppEnd end;
  std::string& text = end.printed;
  auto stream = co_await agent.exec_output("app", 0, deadline);
  while (stream) {
    auto frame = co_await (*stream)->next(deadline);
    if (!frame || !*frame) break;
    if ((*frame)->type == wire::FrameType::out || (*frame)->type == wire::FrameType::err)
      text += (*frame)->payload;
    if (text.size() > 2 * kMaxTail) text.erase(0, text.size() - kMaxTail);
    if ((*frame)->type != wire::FrameType::exit) continue;
    if (const auto exit = machine::parse_exit((*frame)->payload)) end.how = describe(*exit);
  }
  co_return end;
}

net::Task<Result<bool>> runs(machine::AgentClient& agent, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const machine::AgentHealth health, co_await agent.health(deadline));
  co_return health.app_running;
}

net::Task<Result<>> app_ended(machine::AgentClient& agent, const SnapshotSpec& spec,
                              Deadline deadline) {
  auto [printed, how] =
      co_await end_of_app(agent, deadline.earlier(Deadline::in(std::chrono::seconds(5))));
  if (!printed.empty()) say(spec, printed);
  while (printed.ends_with('\n')) printed.pop_back();
  const std::string last = printed.substr(printed.rfind('\n') + 1).substr(0, 300);
  std::string message = "the application ended ";
  if (!how.empty()) message += how + " ";
  message += "before it was ready";
  if (!last.empty()) message += ": " + last;
  co_return fail(Code::guest, message,
                 Repair{"let it go on as a server does, or leave CMD out for an image "
                        "without an application"});
}

net::Task<bool> answers(machine::AgentClient& agent, const SnapshotSpec& spec, Deadline deadline) {
  if (spec.ready_path.empty())
    co_return (co_await connect_guest(agent, spec.port, deadline)).has_value();
  const auto status = co_await get_status(agent, spec.port, spec.ready_path, deadline);
  co_return status && *status == 200;
}

// The ready hook decides, else the port, else time.
net::Task<Result<>> until_ready(machine::AgentClient& agent, const SnapshotSpec& spec,
                                Deadline deadline) {
  if (spec.hooks[core::Hook::ready].enabled) {
    auto goes_on = [&]() -> net::Task<bool> {
      const auto running = co_await runs(agent, deadline);
      co_return running && *running;
    };
    auto failure = co_await poll_hook(agent, spec.hooks, core::Hook::ready, goes_on);
    FB_CO_TRY_ASSIGN(const bool alive, co_await runs(agent, deadline));
    if (!alive) co_return co_await app_ended(agent, spec, deadline);
    if (failure) co_return fail(Code::guest, failure->reason);
    co_return Result<>();
  }
  const Deadline until = deadline.earlier(
      Deadline::in(spec.port != 0 ? std::chrono::nanoseconds(kPortPatience) : kSettle));
  while (!until.passed()) {
    FB_CO_TRY_ASSIGN(const bool alive, co_await runs(agent, deadline));
    if (!alive) co_return co_await app_ended(agent, spec, deadline);
    if (spec.port != 0 && co_await answers(agent, spec, until)) co_return Result<>();
    co_await pause(kPoll);
  }
  if (spec.port == 0) co_return Result<>();
  const std::string port = std::to_string(spec.port);
  const std::string after = " after " + std::to_string(kPortPatience.count()) + " seconds";
  if (!spec.ready_path.empty())
    co_return fail(Code::guest, "GET " + spec.ready_path + " on port " + port +
                                    " was not answered with 200" + after);
  co_return fail(Code::guest,
                 "nothing listens on port " + port + ", the first that EXPOSE names," + after);
}

std::vector<machine::ContextSpec> warm_contexts(const SnapshotSpec& spec) {
  core::Preload warm = spec.preload;
  if (spec.python_context) warm.try_emplace("python");
  std::vector<machine::ContextSpec> contexts;
  for (const auto& [language, modules] : warm)
    contexts.push_back({.language = language,
                        .id = language == "python" ? kWarmContext : language,
                        .modules = modules});
  return contexts;
}

net::Task<Result<>> start_interpreter(machine::AgentClient& agent, const SnapshotSpec& spec,
                                      const machine::ContextSpec& context, Deadline deadline) {
  std::string modules;
  for (const std::string& name : context.modules) modules += (modules.empty() ? "" : ", ") + name;
  const std::string what = "the interpreter of " + context.language;
  say(spec, "starting " + what + (modules.empty() ? "" : " with " + modules));
  const auto made = co_await agent.create_context(context, deadline);
  if (made) co_return Result<>();
  const Error& error = made.error();
  // Not installed, or it ended while it started: that is the image's, and no trouble of the server.
  if (error.code == Code::not_found || error.code == Code::unavailable)
    co_return fail(Code::guest, what + " cannot be part of the snapshot: " + error.message);
  co_return std::unexpected(error);
}

net::Task<Result<>> prepare(machine::Machine& machine, const SnapshotSpec& spec,
                            Deadline deadline) {
  for (const machine::ContextSpec& context : warm_contexts(spec))
    FB_CO_TRY(co_await start_interpreter(machine.agent(), spec, context, deadline));
  if (!spec.tenant.app) co_return Result<>();
  say(spec, "waiting for the application");
  co_return co_await until_ready(machine.agent(), spec, deadline);
}

}  // namespace

net::Task<Result<>> make_snapshot(machine::Engine& engine, SnapshotSpec spec, Deadline deadline) {
  say(spec, "booting");
  machine::BootSpec boot{.id = spec.machine_id,
                         .size = spec.machine.size,
                         .disk = spec.disk.content(),
                         .tenant = spec.tenant,
                         .limits = spec.machine.limits,
                         .network = spec.machine.network};
  boot.tenant.network = spec.machine.network;
  spec.machine.starting(spec.machine_id);
  auto booted = co_await engine.boot(std::move(boot), deadline);
  if (!booted) {
    co_await spec.machine.ended(spec.machine_id);
    co_return std::unexpected(booted.error());
  }
  machine::Machine& machine = **booted;
  auto made = co_await spec.machine.started(spec.machine_id);
  if (made) made = co_await prepare(machine, spec, deadline);
  if (made) {
    say(spec, "taking the snapshot");
    made = co_await machine.snapshot(spec.directory, deadline);
    if (made) say(spec, "snapshot taken: " + times_of(machine.phases()));
  }
  if (!made) (void)co_await machine.terminate(Deadline::in(std::chrono::seconds(20)));
  co_await spec.machine.ended(spec.machine_id);
  co_return made;
}

}  // namespace firebreak::image
