// An HTTP stream that follows an exec's output from an offset, as frames, to its exit. Owned by its
// connection; data thread.
#pragma once

#include <memory>
#include <string>

#include "guest/exchange.h"
#include "guest/exec.h"

namespace firebreak::guest {

class OutputStream final : public StreamHandler, private ExecView {
 public:
  // Whether it begins with a `started` frame. `soon`: together with the first output or the exit if
  // they come at once, because two small answers cost a short exec noticeably more than one.
  enum class Announce { no, now, soon };
  OutputStream(std::shared_ptr<Exchange> exchange, std::shared_ptr<Exec> exec, std::uint64_t offset,
               Announce announce);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;
  ~OutputStream() override;

  void on_data(std::string_view bytes) override { exchange_->consume(bytes.size()); }
  void on_writable() override { pump(); }
  void on_closed() override;

 private:
  void on_output() override { pump(); }
  void on_replaced() override { exchange_->reset(); }
  void pump();
  // False: nothing more to send now.
  bool next_frame();

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<Exec> exec_;
  std::uint64_t offset_;
  std::string pending_;  // the rest of a frame that did not fit
  bool begun_ = false;
  bool over_ = false;
  Reactor::TimerId begin_timer_;
};

}  // namespace firebreak::guest
