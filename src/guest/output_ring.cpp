#include "guest/output_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace firebreak::guest {

OutputRing::OutputRing(std::size_t limit, Overflow overflow, RingBudget& budget)
    : limit_(std::max(limit, kFirstSize)), overflow_(overflow), budget_(budget) {}

OutputRing::~OutputRing() {
  if (buffer_.size() > kFirstSize) budget_.give(buffer_.size());
}

void OutputRing::evict_to(std::uint64_t offset) {
  begin_ = std::clamp(offset, begin_, end_);
  while (segments_.size() > 1 && segments_[1].begin <= begin_) segments_.pop_front();
}

// The first, small buffer is not charged: every exec may have one. False: neither the budget nor
// the limit allows more.
bool OutputRing::grow(std::size_t need) {
  const std::size_t most = std::bit_ceil(overflow_ == Overflow::block ? limit_ + kReplay : limit_);
  const std::size_t size = std::clamp(std::bit_ceil(need), kFirstSize, most);
  if (size <= buffer_.size()) return size >= need;
  const std::size_t charged = buffer_.size() > kFirstSize ? buffer_.size() : 0;
  if (size > kFirstSize && !budget_.take(size - charged)) return false;
  std::vector<char> bigger(size);
  for (std::uint64_t at = begin_; at < end_;) {
    const std::size_t from = at & (buffer_.size() - 1);
    const std::size_t to = at & (size - 1);
    const std::size_t run =
        std::min({static_cast<std::size_t>(end_ - at), buffer_.size() - from, size - to});
    std::memcpy(bigger.data() + to, buffer_.data() + from, run);
    at += run;
  }
  buffer_.swap(bigger);
  return size >= need;
}

std::size_t OutputRing::reserve(std::size_t want) {
  if (overflow_ == Overflow::drop) {
    want = std::min(want, limit_ / 2);
    grow(std::min(held() + want, limit_));
    want = std::min(want, buffer_.size());
    // Room is made now, so that append() cannot meet a full buffer.
    const std::size_t capacity = std::min(limit_, buffer_.size());
    if (held() + want > capacity) evict_to(end_ - (capacity - want));
    while (segments_.size() > 1 && held() + want + segments_.size() * kSegmentCost > limit_)
      evict_to(segments_[1].begin);
    return want;
  }
  const std::size_t unsent = static_cast<std::size_t>(end_ - std::max(sent_, begin_));
  const std::size_t used = unsent + segments_.size() * kSegmentCost;
  if (used >= limit_) return 0;
  want = std::min(want, limit_ - used);
  if (held() + want > buffer_.size() && !grow(held() + want)) {
    // No memory to grow into: give up replay before stopping the process.
    if (held() + want > buffer_.size() && !buffer_.empty()) {
      const std::uint64_t keep = std::min<std::uint64_t>(buffer_.size() / 2, kReplay);
      if (sent_ > begin_ + keep) evict_to(sent_ - keep);
    }
    want = std::min(want, buffer_.size() - held());
  }
  return want;
}

void OutputRing::append(wire::FrameType type, std::string_view bytes) {
  if (bytes.empty()) return;
  if (begin_ == end_) segments_.clear();
  if (segments_.empty() || segments_.back().type != type) segments_.push_back({end_, type});
  while (!bytes.empty()) {
    const std::size_t to = end_ & (buffer_.size() - 1);
    const std::size_t run = std::min(bytes.size(), buffer_.size() - to);
    std::memcpy(buffer_.data() + to, bytes.data(), run);
    bytes.remove_prefix(run);
    end_ += run;
  }
}

void OutputRing::sent(std::uint64_t offset) {
  sent_ = std::max(sent_, std::min(offset, end_));
  if (overflow_ == Overflow::block && sent_ > begin_ + kReplay) evict_to(sent_ - kReplay);
}

OutputRing::Piece OutputRing::read(std::uint64_t offset, std::size_t most) const {
  if (offset < begin_) return {.gap = begin_ - offset};
  if (offset >= end_) return {};
  auto after = std::upper_bound(segments_.begin(), segments_.end(), offset,
                                [](std::uint64_t at, const Segment& s) { return at < s.begin; });
  const std::uint64_t stop = after == segments_.end() ? end_ : after->begin;
  const std::size_t from = offset & (buffer_.size() - 1);
  const std::size_t run =
      std::min({static_cast<std::size_t>(stop - offset), most, buffer_.size() - from});
  return {.type = std::prev(after)->type, .bytes = {buffer_.data() + from, run}};
}

}  // namespace firebreak::guest
