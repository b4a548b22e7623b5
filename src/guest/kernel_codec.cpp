#include "guest/kernel_codec.h"

#include <algorithm>
#include <charconv>

namespace firebreak::guest {
namespace {

constexpr std::size_t kDigits = 8;
constexpr std::size_t kHeader = 1 + kDigits;

std::optional<std::size_t> limit_of(char type) {
  switch (static_cast<KernelMessage>(type)) {
    case KernelMessage::item:
      return kMaxKernelItem;
    case KernelMessage::error:
      return kMaxKernelError;
    case KernelMessage::ready:
    case KernelMessage::begin:
    case KernelMessage::done:
      return kMaxKernelNote;
  }
  return std::nullopt;
}

}  // namespace

void KernelDecoder::feed(std::string_view bytes) {
  if (failed_) return;
  // As in wire::FrameDecoder: each byte is moved O(1) times.
  if (at_ >= buffer_.size() - at_) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_.append(bytes);
}

Result<bool> KernelDecoder::take_header() {
  if (buffer_.size() - at_ < kHeader) return false;
  const char* head = buffer_.data() + at_;
  std::uint32_t size = 0;
  const auto [end, error] = std::from_chars(head + 1, head + kHeader, size, 16);
  const auto limit = limit_of(head[0]);
  if (!limit || error != std::errc() || end != head + kHeader || size > *limit)
    return fail(Code::invalid, "the interpreter broke the protocol");
  at_ += kHeader;
  type_ = static_cast<KernelMessage>(head[0]);
  left_ = size;
  inside_ = first_ = true;
  return true;
}

Result<std::optional<KernelPiece>> KernelDecoder::next() {
  if (failed_) return fail(Code::invalid, "the interpreter broke the protocol");
  if (!inside_) {
    auto taken = take_header();
    failed_ = !taken;
    if (!taken) return std::unexpected(taken.error());
    if (!*taken) return std::nullopt;
  }
  const std::size_t size = std::min(left_, kKernelPiece);
  if (buffer_.size() - at_ < size) return std::nullopt;
  left_ -= size;
  KernelPiece piece{type_, first_, left_ == 0, buffer_.substr(at_, size)};
  at_ += size;
  first_ = false;
  inside_ = left_ > 0;
  return piece;
}

void put_kernel_message(std::string_view bytes, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (std::size_t i = 0; i < kDigits; ++i)
    out.push_back(kHex[bytes.size() >> (4 * (kDigits - 1 - i)) & 0xf]);
  out.append(bytes);
}

}  // namespace firebreak::guest
