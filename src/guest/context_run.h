// One run of code in a context: its frames as a stream of bytes by offset, held for a reader that
// comes, goes and returns. Shared by its context and its reader; data thread. No I/O.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "guest/output_ring.h"
#include "wire/frames.h"

namespace firebreak::guest {

class RunView {
 public:
  RunView() = default;
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;
  virtual ~RunView() = default;
  virtual void on_run_output() = 0;
  virtual void on_run_replaced() = 0;
};

class ContextRun {
 public:
  ContextRun(std::string id, RingBudget& budget, std::function<void()> on_room);
  ContextRun(const ContextRun&) = delete;
  ContextRun& operator=(const ContextRun&) = delete;
  ~ContextRun() = default;

  const std::string& id() const { return id_; }
  bool finished() const { return finished_; }

  // For the context. A frame of up to room(n) bytes can be put now.
  std::size_t room(std::size_t want);
  void put(wire::FrameType type, std::string_view payload);
  // `done` is the payload of the last frame, for which there is always room.
  void finish(std::string_view done);

  // For the reader.
  std::uint64_t begin() const { return ring_.begin(); }
  std::uint64_t end() const { return ring_.end() + tail_.size(); }
  // Contiguous bytes from an offset that is held; empty at the end.
  std::string_view read(std::uint64_t offset, std::size_t most) const;
  void sent(std::uint64_t offset);
  void set_view(RunView* view);
  void clear_view(const RunView* view);

 private:
  std::string id_;
  OutputRing ring_;
  std::string tail_;
  bool finished_ = false;
  RunView* view_ = nullptr;
  std::function<void()> on_room_;
};

}  // namespace firebreak::guest
