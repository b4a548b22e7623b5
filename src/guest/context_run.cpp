#include "guest/context_run.h"

#include <algorithm>
#include <utility>

namespace firebreak::guest {
namespace {
constexpr std::size_t kRing = 512 * 1024UL;  // with what is kept for replay one MiB
}

ContextRun::ContextRun(std::string id, RingBudget& budget, std::function<void()> on_room)
    : id_(std::move(id)), ring_(kRing, Overflow::block, budget), on_room_(std::move(on_room)) {}

std::size_t ContextRun::room(std::size_t want) {
  const std::size_t room = ring_.reserve(want + wire::kFrameHeader);
  return room > wire::kFrameHeader ? room - wire::kFrameHeader : 0;
}

// The ring knows bytes of two kinds; a run's are all of one, because its frames are in them.
void ContextRun::put(wire::FrameType type, std::string_view payload) {
  std::string header;
  wire::put_frame_header(type, payload.size(), header);
  ring_.append(wire::FrameType::out, header);
  ring_.append(wire::FrameType::out, payload);
  if (view_ != nullptr) view_->on_run_output();
}

void ContextRun::finish(std::string_view done) {
  wire::put_frame(wire::FrameType::done, done, tail_);
  finished_ = true;
  on_room_ = nullptr;
  if (view_ != nullptr) view_->on_run_output();
}

std::string_view ContextRun::read(std::uint64_t offset, std::size_t most) const {
  if (offset < ring_.end()) return ring_.read(offset, most).bytes;
  const auto from = std::min<std::uint64_t>(offset - ring_.end(), tail_.size());
  return std::string_view(tail_).substr(static_cast<std::size_t>(from), most);
}

void ContextRun::sent(std::uint64_t offset) {
  ring_.sent(offset);
  if (on_room_) on_room_();
}

void ContextRun::set_view(RunView* view) {
  if (RunView* former = std::exchange(view_, view)) former->on_run_replaced();
}

void ContextRun::clear_view(const RunView* view) {
  if (view_ == view) view_ = nullptr;
}

}  // namespace firebreak::guest
