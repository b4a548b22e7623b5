// A context: an interpreter that keeps its state between runs, under one id. The process may die
// and be replaced; the context stays. Owned by the table; data thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guest/context_reseed.h"
#include "guest/context_run.h"
#include "guest/kernel.h"

namespace firebreak::guest {

struct Language {
  std::string_view name;
  std::string_view program;
  std::vector<std::string> arguments;
  std::string_view script;  // kernels/
  int reseed_signal;
  bool loads_modules;  // its kernel takes options: {"modules": [..]}
};
const std::vector<Language>& languages();

class Context final : private KernelSink {
 public:
  // What a context needs of its surroundings; outlives it.
  struct Site {
    Reactor& reactor;
    ExecTable& execs;
    RingBudget& budget;
    ReseedList& reseed;
  };
  using Started = std::function<void(const Result<>&)>;

  // `modules` are loaded before it is ready for the first time.
  Context(Site site, std::string id, const Language& language, ExecSpec spec,
          std::vector<std::string> modules);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() override;

  const std::string& id() const { return id_; }
  const Language& language() const { return language_; }
  json::object status() const;

  // An interpreter without state; `started` is called once it is ready or cannot be, unless the
  // answer is an error already.
  Result<> start(Started started);
  Result<std::shared_ptr<ContextRun>> run(std::string code,
                                          std::optional<std::chrono::milliseconds> timeout);
  Result<std::shared_ptr<ContextRun>> find_run(const std::string& run) const;
  // False: nothing was running, or, if a run is named, not that one.
  bool interrupt(const std::string& run = "");
  Result<> restart(Started started);
  // Called before it is deleted: answers every call that waits for it.
  void end();

 private:
  std::size_t room(std::size_t want) override;
  void on_output(wire::FrameType type, std::string_view bytes) override;
  void on_message(KernelPiece piece) override;
  void on_gone(const ExecExit& exit) override;

  Result<> start_kernel();
  void drop_kernel();
  void on_ready();
  void on_done(std::string_view note);
  void answer_started(const Result<>& result);
  // What a run that begins now finds.
  const char* found_state();
  void send_code();
  void on_timeout();
  void on_grace_over();
  bool busy() const { return run_ && !run_->finished(); }
  void finish_run(std::string_view status, const ExecExit* exit = nullptr);

  Site site_;
  std::string id_;
  const Language& language_;
  ExecSpec spec_;
  std::vector<std::string> modules_;  // not yet loaded
  std::unique_ptr<Kernel> kernel_;
  bool ready_ = false;
  Started started_;
  Reactor::TimerId start_timer_;
  std::string startup_errors_;
  std::uint64_t restarts_ = 0;
  bool lost_ = false;                  // the last one ended by itself, and no run knows yet
  std::uint64_t execution_count_ = 0;  // of this interpreter

  std::shared_ptr<ContextRun> run_;  // the last one
  std::uint64_t next_run_ = 1;
  std::string code_;  // not yet sent
  bool sent_ = false;
  bool begun_ = false;
  bool interrupt_wanted_ = false;
  bool timed_out_ = false;
  Reactor::Clock::time_point run_started_;
  Reactor::TimerId run_timer_;
};

}  // namespace firebreak::guest
