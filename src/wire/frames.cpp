#include "wire/frames.h"

#include <cassert>

#include "base/text.h"

namespace firebreak::wire {

void put_frame_header(FrameType type, std::size_t length, std::string& out) {
  assert(length <= kMaxFramePayload);
  out.push_back(static_cast<char>(type));
  put_u32(out, static_cast<std::uint32_t>(length));
}

void put_frame(FrameType type, std::string_view payload, std::string& out) {
  put_frame_header(type, payload.size(), out);
  out.append(payload);
}

void FrameDecoder::feed(std::string_view bytes) {
  if (failed_) return;
  // Bytes already taken are moved away only once they are the larger half, so each byte is moved
  // O(1) times.
  if (at_ >= buffer_.size() - at_) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<Frame>> FrameDecoder::next() {
  if (failed_) return fail(Code::guest, "an output stream is damaged");
  if (buffer_.size() - at_ < kFrameHeader) return std::nullopt;
  const char* head = buffer_.data() + at_;
  const auto type = static_cast<std::uint8_t>(head[0]);
  const std::size_t length = get_u32(head + 1);
  if (type > static_cast<std::uint8_t>(FrameType::part) || length > kMaxFramePayload) {
    failed_ = true;
    return fail(Code::guest, "an output stream is damaged",
                "frame type " + std::to_string(type) + ", length " + std::to_string(length));
  }
  if (buffer_.size() - at_ - kFrameHeader < length) return std::nullopt;
  Frame frame{static_cast<FrameType>(type), buffer_.substr(at_ + kFrameHeader, length)};
  at_ += kFrameHeader + length;
  return frame;
}

}  // namespace firebreak::wire
