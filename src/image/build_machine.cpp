#include "image/build_machine.h"

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "image/redactor.h"

namespace firebreak::image {
namespace {

constexpr auto kEndDeadline = std::chrono::seconds(20);
constexpr auto kCleanDeadline = std::chrono::seconds(30);
constexpr std::size_t kMaxTail = 2000;

// The last lines of an output, for the reason of a failure.
class Tail {
 public:
  void add(std::string_view text) {
    text_ += text;
    if (text_.size() > 2 * kMaxTail) text_.erase(0, text_.size() - kMaxTail);
  }
  std::string last_line() const {
    std::string_view text = text_;
    while (text.ends_with('\n')) text.remove_suffix(1);
    return std::string(text.substr(text.rfind('\n') + 1).substr(0, 300));
  }

 private:
  std::string text_;
};

std::string describe(const machine::ExecExit& exit) {
  if (exit.oom) return "the command was killed: the build machine's memory was used up";
  if (exit.timed_out) return "the command took longer than the build may take";
  if (exit.signal) return "the command was killed by signal " + std::to_string(*exit.signal);
  return "the command failed with exit status " + std::to_string(exit.exit_code.value_or(-1));
}

}  // namespace

net::Task<Result<std::unique_ptr<BuildMachine>>> BuildMachine::start(machine::Engine& engine,
                                                                     const BuildMachineSpec& spec,
                                                                     std::string id, DiskChain disk,
                                                                     Deadline deadline) {
  machine::BootSpec boot{.id = id,
                         .size = spec.size,
                         .disk = disk.content(),
                         .tenant = {.hostname = "build", .network = spec.network},
                         .limits = spec.limits,
                         .network = spec.network,
                         .throwaway = true};
  spec.starting(id);
  auto booted = co_await engine.boot(std::move(boot), deadline);
  if (!booted) {
    co_await spec.ended(id);
    co_return std::unexpected(booted.error());
  }
  std::unique_ptr<BuildMachine> machine(
      new BuildMachine(*std::move(booted), std::move(disk), spec.hidden, spec.ended));
  if (auto started = co_await spec.started(id); !started) {
    co_await machine->end();
    co_return std::unexpected(started.error());
  }
  co_return machine;
}

net::Task<void> BuildMachine::end() {
  const std::string id = machine_->id();
  (void)co_await machine_->terminate(Deadline::in(kEndDeadline));
  co_await ended_(id);
}

net::Task<Result<BuildMachine::Target>> BuildMachine::target_of(const CopyStep& copy, bool one_file,
                                                                Deadline deadline) {
  Target target{.place = {.directory = copy.destination, .staging = {}, .user = copy.chown},
                .rename = {}};
  if (!one_file || copy.into_directory || copy.destination == "/") co_return target;
  FB_CO_TRY_ASSIGN(const std::string type, co_await type_of(agent(), copy.destination, deadline));
  if (type == "dir") co_return target;
  // A link stays, and what it leads to is replaced or made.
  FB_CO_TRY_ASSIGN(const std::string end, co_await link_end(agent(), copy.destination, deadline));
  const auto slash = end.rfind('/');
  target.place.directory = slash == 0 ? "/" : end.substr(0, slash);
  target.rename = end.substr(slash + 1);
  co_return target;
}

net::Task<Result<>> BuildMachine::make_directory(std::string path, std::string user,
                                                 Deadline deadline) {
  FB_CO_TRY_ASSIGN(GuestArchive nothing,
                   GuestArchive::open(agent(), {.directory = path, .staging = {}, .user = user}));
  co_return co_await nothing.finish(deadline);
}

net::Task<Result<>> BuildMachine::stage(std::string name, std::uint64_t bytes, Deadline deadline) {
  const std::string path = "/build/staging/" + percent_encode(name, "");
  (void)co_await agent().data_call("DELETE", path, {}, deadline);
  FB_CO_TRY(
      co_await agent().data_call("PUT", path + "?bytes=" + std::to_string(bytes), {}, deadline));
  co_return Result<>();
}

net::Task<Result<>> BuildMachine::run(machine::ExecSpec spec, std::vector<StepMount> mounts,
                                      BuildOutput output, Deadline deadline) {
  json::array list;
  for (const StepMount& mount : mounts) {
    list.push_back(json::object{{"staging", mount.tree.staging},
                                {"path", mount.tree.path},
                                {"target", mount.target},
                                {"readonly", mount.readonly}});
  }
  if (!list.empty())
    FB_CO_TRY(co_await agent().data_call("POST", "/build/mounts", {{"mounts", std::move(list)}},
                                         deadline));
  auto done = co_await execute(std::move(spec), std::move(output), deadline);
  if (mounts.empty()) co_return done;
  auto cleared =
      co_await agent().data_call("DELETE", "/build/mounts", {}, Deadline::in(kCleanDeadline));
  if (done && !cleared) co_return std::unexpected(cleared.error());
  co_return done;
}

net::Task<Result<>> BuildMachine::execute(machine::ExecSpec spec, BuildOutput output,
                                          Deadline deadline) {
  auto id = co_await agent().start_exec(spec, deadline);
  if (!id) co_return fail(Code::guest, "the command cannot be started: " + id.error().message);
  FB_CO_TRY_ASSIGN(auto stream, co_await agent().exec_output(*id, 0, deadline));
  std::optional<machine::ExecExit> exit;
  Tail tail;
  Redactor redactor(hidden_);
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    output(text);
    tail.add(text);
  };
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::optional<wire::Frame> frame, co_await stream->next(deadline));
    if (!frame) break;
    if (frame->type == wire::FrameType::out || frame->type == wire::FrameType::err) {
      show(redactor.feed(frame->payload));
    } else if (frame->type == wire::FrameType::exit) {
      FB_CO_TRY_ASSIGN(exit, machine::parse_exit(frame->payload));
    }
  }
  show(redactor.finish());
  // A daemon that the command left would go on writing into later layers.
  FB_CO_TRY(co_await agent().data_call("DELETE", "/execs/" + percent_encode(*id, ""), {},
                                       Deadline::in(kCleanDeadline)));
  if (!exit) co_return fail(Code::guest, "the command's output ended without an exit status");
  if (exit->exit_code == 0 && !exit->signal) co_return Result<>();
  // Only the program knows why it failed, and says so in the words of the C library.
  const std::string last = tail.last_line();
  const bool full = last.ends_with(std::strerror(ENOSPC));
  co_return fail(Code::guest, Reason{full ? "disk_full" : ""},
                 describe(*exit) + (last.empty() ? "" : ": " + last));
}

net::Task<Result<>> BuildMachine::cut(DiskChain with, Deadline deadline) {
  FB_CO_TRY(co_await machine_->cut_layer(with.layers.back(), deadline));
  disk_ = std::move(with);
  co_return Result<>();
}

}  // namespace firebreak::image
