#include "guest/context.h"

namespace firebreak::guest {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartPatience = 120s;
constexpr auto kModulesPatience = 600s;  // of a start that loads modules
// Between the interrupt of a run that took too long and the end of its interpreter.
constexpr auto kGrace = 3s;
constexpr std::size_t kStartupErrors = 4096;

}  // namespace

Context::Context(Site site, std::string id, const Language& language, ExecSpec spec,
                 std::vector<std::string> modules)
    : site_(site),
      id_(std::move(id)),
      language_(language),
      spec_(std::move(spec)),
      modules_(std::move(modules)) {
  spec_.id.clear();
  spec_.argv = {std::string(language.program)};
  spec_.argv.insert(spec_.argv.end(), language.arguments.begin(), language.arguments.end());
}

Context::~Context() {
  started_ = nullptr;
  end();
}

void Context::end() {
  drop_kernel();
  if (busy()) finish_run("died");
  answer_started(fail(Code::conflict, "context " + id_ + " was deleted"));
}

json::object Context::status() const {
  const char* state = "idle";
  if (!kernel_)
    state = "dead";
  else if (busy())
    state = "busy";
  else if (!ready_)
    state = "starting";
  json::object object{{"id", id_},
                      {"language", json::string_view(language_.name.data(), language_.name.size())},
                      {"state", state},
                      {"execution_count", execution_count_},
                      {"restarts", restarts_}};
  if (kernel_) object["pid"] = kernel_->exec().tenant_pid();
  if (run_) object["run"] = run_->id();
  return object;
}

Result<> Context::start_kernel() {
  startup_errors_.clear();
  ready_ = false;
  execution_count_ = 0;
  KernelSink& sink = *this;
  FB_TRY_ASSIGN(kernel_, Kernel::start(site_.reactor, site_.execs, spec_, language_.script, sink));
  if (auto added = site_.reseed.add(this, kernel_->exec().pidfd(), language_.reseed_signal);
      !added) {
    drop_kernel();
    return added;
  }
  const auto patience = modules_.empty() ? kStartPatience : kModulesPatience;
  if (language_.loads_modules) {
    // Once only: after a death the first run is not to wait for modules that it may not need.
    const std::vector<std::string> modules = std::exchange(modules_, {});
    kernel_->send(
        json::serialize(json::object{{"modules", json::array(modules.begin(), modules.end())}}));
  }
  start_timer_ = site_.reactor.after(patience, [this] {
    start_timer_ = {};
    if (kernel_) kernel_->kill();
  });
  return {};
}

void Context::drop_kernel() {
  site_.reactor.cancel(start_timer_);
  site_.reseed.remove(this);
  ready_ = false;
  if (!kernel_) return;
  kernel_->kill();  // also what it left running
  kernel_.reset();
}

Result<> Context::start(Started started) {
  FB_TRY(start_kernel());
  started_ = std::move(started);
  return {};
}

Result<> Context::restart(Started started) {
  if (started_) return fail(Code::conflict, "context " + id_ + " is starting");
  drop_kernel();
  if (busy()) finish_run("died");
  ++restarts_;
  lost_ = false;  // whoever asked for it knows
  return start(std::move(started));
}

void Context::answer_started(const Result<>& result) {
  if (const Started started = std::exchange(started_, nullptr)) started(result);
}

Result<std::shared_ptr<ContextRun>> Context::run(std::string code,
                                                 std::optional<std::chrono::milliseconds> timeout) {
  if (busy())
    return fail(Code::conflict, Reason{"context_busy"},
                "context " + id_ + " is running run " + run_->id());
  if (!kernel_) FB_TRY(start_kernel());
  run_ = std::make_shared<ContextRun>(std::to_string(next_run_++), site_.budget, [this] {
    if (kernel_) kernel_->resume();
  });
  code_ = std::move(code);
  sent_ = begun_ = interrupt_wanted_ = timed_out_ = false;
  run_started_ = Reactor::Clock::now();
  if (timeout) run_timer_ = site_.reactor.after(*timeout, [this] { on_timeout(); });
  const json::object started{{"context", id_}, {"run", run_->id()}, {"state", found_state()}};
  const std::string text = json::serialize(started);
  run_->room(text.size());
  run_->put(wire::FrameType::started, text);
  if (ready_) send_code();
  return run_;
}

const char* Context::found_state() {
  if (std::exchange(lost_, false)) return "restarted";
  return execution_count_ == 0 ? "fresh" : "kept";
}

void Context::send_code() {
  sent_ = true;
  ++execution_count_;
  site_.reseed.used(this);
  kernel_->send(std::exchange(code_, {}));
}

Result<std::shared_ptr<ContextRun>> Context::find_run(const std::string& run) const {
  if (!run_ || run_->id() != run)
    return fail(Code::not_found, "context " + id_ + " has no run " + run + " (any more)");
  return run_;
}

bool Context::interrupt(const std::string& run) {
  if (!busy() || (!run.empty() && run != run_->id())) return false;
  if (!sent_)
    finish_run("interrupted");
  else if (begun_)
    kernel_->interrupt();
  else
    interrupt_wanted_ = true;  // before it has begun, the interpreter takes no notice
  return true;
}

void Context::on_timeout() {
  run_timer_ = {};
  timed_out_ = true;
  interrupt();
  if (busy()) run_timer_ = site_.reactor.after(kGrace, [this] { on_grace_over(); });
}

void Context::on_grace_over() {
  run_timer_ = {};
  drop_kernel();
  finish_run("timeout");
  ++restarts_;
  lost_ = true;
}

std::size_t Context::room(std::size_t want) {
  // What is written between runs is nobody's.
  return busy() ? run_->room(want) : want;
}

void Context::on_output(wire::FrameType type, std::string_view bytes) {
  if (!ready_) {
    startup_errors_.append(bytes);
    if (startup_errors_.size() > kStartupErrors)
      startup_errors_.erase(0, startup_errors_.size() - kStartupErrors);
  }
  if (busy()) run_->put(type, bytes);
}

void Context::on_message(KernelPiece piece) {
  switch (piece.type) {
    case KernelMessage::ready:
      return on_ready();
    case KernelMessage::begin:
      if (!busy() || !sent_) return;
      begun_ = true;
      if (std::exchange(interrupt_wanted_, false)) kernel_->interrupt();
      return;
    case KernelMessage::item:
    case KernelMessage::error: {
      if (!busy()) return;
      const auto whole =
          piece.type == KernelMessage::item ? wire::FrameType::item : wire::FrameType::error;
      run_->put(piece.last ? whole : wire::FrameType::part, piece.bytes);
      return;
    }
    case KernelMessage::done:
      return on_done(piece.bytes);
  }
}

void Context::on_ready() {
  if (ready_) return;
  ready_ = true;
  startup_errors_.clear();
  site_.reactor.cancel(start_timer_);
  answer_started({});
  if (busy() && !sent_) send_code();
}

void Context::on_done(std::string_view note) {
  if (!busy() || !begun_) return;
  std::string_view status = "error";
  const auto object = parse_json_object(note);
  const std::string said = object ? JsonReader(*object).string_or("status", "") : "";
  for (const std::string_view known : {"ok", "interrupted"}) {
    if (said == known) status = known;
  }
  finish_run(timed_out_ ? "timeout" : status);
}

// The next run starts another one. Not now: a process started in the moment in which the kernel
// killed for memory was seen to hold up the data thread.
void Context::on_gone(const ExecExit& exit) {
  std::string why = "the interpreter ended while it started";
  while (startup_errors_.ends_with('\n')) startup_errors_.pop_back();
  if (!startup_errors_.empty()) why += ": " + startup_errors_;
  drop_kernel();
  if (busy()) finish_run(timed_out_ ? "timeout" : "died", &exit);
  ++restarts_;
  lost_ = true;
  answer_started(fail(Code::unavailable, std::move(why)));
}

void Context::finish_run(std::string_view status, const ExecExit* exit) {
  site_.reactor.cancel(run_timer_);
  code_.clear();
  const auto took = Reactor::Clock::now() - run_started_;
  json::object done{
      {"status", json::string_view(status.data(), status.size())},
      {"execution_count", execution_count_},
      {"duration_ms", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}};
  if (exit != nullptr) done["exit"] = to_json(*exit);
  run_->finish(json::serialize(done));
}

}  // namespace firebreak::guest
