// The output of one exec, held for readers that come, go and return: bytes by offset, each known as
// stdout or stderr. Owned by its Exec; data thread. Pure memory, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "wire/frames.h"

namespace firebreak::guest {

enum class Overflow { block, drop };

// What all rings together may allocate.
class RingBudget {
 public:
  explicit RingBudget(std::size_t limit) : limit_(limit) {}
  bool take(std::size_t bytes) {
    if (used_ + bytes > limit_) return false;
    used_ += bytes;
    return true;
  }
  void give(std::size_t bytes) { used_ -= bytes; }
  bool scarce() const { return used_ > limit_ / 4 * 3; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

class OutputRing {
 public:
  // What a reader that reconnects may have to be sent again: everything that can be between the
  // ring and its eyes, which is its HTTP/2 window and the write queue of the stream
  // (docs/agent-protocol.md promises 64 KiB).
  static constexpr std::size_t kReplay = 448 * 1024UL;

  // `limit`: unsent bytes with `block`, all bytes held with `drop`.
  OutputRing(std::size_t limit, Overflow overflow, RingBudget& budget);
  OutputRing(const OutputRing&) = delete;
  OutputRing& operator=(const OutputRing&) = delete;
  ~OutputRing();

  // Makes room for up to `want` bytes and returns for how many; 0: the producer has to wait for
  // sent().
  std::size_t reserve(std::size_t want);
  // At most what reserve() returned last.
  void append(wire::FrameType type, std::string_view bytes);

  std::uint64_t begin() const { return begin_; }  // the oldest byte held
  std::uint64_t end() const { return end_; }

  // Everything before `offset` was handed to a reader.
  void sent(std::uint64_t offset);

  struct Piece {
    std::uint64_t gap = 0;  // bytes at `offset` that are no longer held
    wire::FrameType type = wire::FrameType::out;
    std::string_view bytes;  // contiguous, of one type; empty at the end
  };
  Piece read(std::uint64_t offset, std::size_t most) const;

 private:
  struct Segment {
    std::uint64_t begin;
    wire::FrameType type;
  };
  static constexpr std::size_t kFirstSize = 16 * 1024UL;
  static constexpr std::size_t kSegmentCost = sizeof(Segment);

  std::size_t held() const { return static_cast<std::size_t>(end_ - begin_); }
  void evict_to(std::uint64_t offset);
  bool grow(std::size_t need);

  std::size_t limit_;
  Overflow overflow_;
  RingBudget& budget_;
  std::vector<char> buffer_;  // size is a power of two; byte at offset o is buffer_[o mod size]
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t sent_ = 0;
  std::deque<Segment> segments_;  // by offset; the first covers begin_
};

}  // namespace firebreak::guest
