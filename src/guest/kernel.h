// One interpreter process of a context: its exec, its channel, its output, put into one order. A
// hostile peer. Owned by its Context; data thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "guest/exec_table.h"
#include "guest/kernel_codec.h"

namespace firebreak::guest {

// What a kernel says goes here. None of these may destroy the kernel but on_gone().
class KernelSink {
 public:
  KernelSink() = default;
  KernelSink(const KernelSink&) = delete;
  KernelSink& operator=(const KernelSink&) = delete;
  virtual ~KernelSink() = default;
  // How many of `want` bytes can be taken now; 0: Kernel::resume() will be called.
  virtual std::size_t room(std::size_t want) = 0;
  virtual void on_output(wire::FrameType type, std::string_view bytes) = 0;
  virtual void on_message(KernelPiece piece) = 0;
  // The process has ended and everything it said was handed over.
  virtual void on_gone(const ExecExit& exit) = 0;
};

class Kernel final : private ExecView {
 public:
  // `spec` without stdio; `script` is the first message.
  static Result<std::unique_ptr<Kernel>> start(Reactor& reactor, ExecTable& execs,
                                               const ExecSpec& spec, std::string_view script,
                                               KernelSink& sink);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() override;

  const Exec& exec() const { return *exec_; }
  void send(std::string_view code);
  void interrupt() { (void)exec_->signal(2, true); }
  // Everything in its cgroup. on_gone() follows unless the object goes first.
  void kill() { exec_->kill_all(); }
  // The sink has room again.
  void resume();

 private:
  struct End final : Watcher {
    End(Kernel& owner, wire::FrameType frame_type) : kernel(owner), type(frame_type) {}
    void on_events(std::uint32_t events) override { kernel.on_end(*this, events); }
    Kernel& kernel;
    wire::FrameType type;
    UniqueFd fd;
    bool readable = false;
    std::size_t owed = 0;  // bytes that were written before the message at hand
  };
  enum class Step { nothing, progress, stalled };

  Kernel(Reactor& reactor, KernelSink& sink) : reactor_(reactor), sink_(sink) {}
  Result<> watch();
  void on_output() override;  // of the exec: it has ended
  void on_replaced() override {}
  void on_end(End& end, std::uint32_t events);
  void flush();
  void pump();
  void pump_later();
  Step read_pipe(End& pipe);
  Step read_control();
  Step take_message();
  Step deliver();
  void refuse();

  Reactor& reactor_;
  KernelSink& sink_;
  std::shared_ptr<Exec> exec_;
  End control_{*this, wire::FrameType::out};
  End out_{*this, wire::FrameType::out};
  End err_{*this, wire::FrameType::err};
  KernelDecoder decoder_;
  std::optional<KernelPiece> pending_;
  std::string outgoing_;
  bool stalled_ = false;
  bool pumping_ = false;
  bool ended_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // for deferred turns
};

}  // namespace firebreak::guest
