// The frames of an exec's or a run's output stream: type, length, payload (docs/agent-protocol.md
// section 3). Sans-I/O; both ends use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

enum class FrameType : std::uint8_t {
  started = 0,
  out = 1,
  err = 2,
  exit = 3,
  gap = 4,
  // Of runs in contexts.
  item = 5,
  error = 6,
  done = 7,
  part = 8
};

struct Frame {
  FrameType type = FrameType::out;
  std::string payload;
};

inline constexpr std::size_t kFrameHeader = 5;
inline constexpr std::size_t kMaxFramePayload = 1 << 20;

// Appends the 5-byte header; the payload follows as is. `length` is at most kMaxFramePayload.
void put_frame_header(FrameType type, std::size_t length, std::string& out);
void put_frame(FrameType type, std::string_view payload, std::string& out);

// Collects received bytes; next() gives whole frames. Unknown type or a length above
// kMaxFramePayload is Code::guest, for good.
class FrameDecoder {
 public:
  void feed(std::string_view bytes);
  Result<std::optional<Frame>> next();
  bool empty() const { return buffer_.size() == at_; }  // no half frame is waiting

 private:
  std::string buffer_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace firebreak::wire
