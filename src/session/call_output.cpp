#include "session/call_output.h"

#include <algorithm>

namespace firebreak::session {

std::string cut_text(const std::string& text, std::uint64_t limit) {
  if (text.size() <= limit) return text;
  constexpr std::size_t kLongestTail = 3;  // bytes of a character after its first
  const auto continues = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  std::size_t end = limit;
  for (std::size_t back = 0; back <= kLongestTail; ++back, --end) {
    if (!continues(end)) return text.substr(0, end);
    if (end == 0) break;
  }
  // No text: it may be cut anywhere.
  return text.substr(0, limit);
}

void PrintedStream::add(std::string_view bytes) {
  total_ += bytes.size();
  hash_.update(bytes);
  kept_.append(bytes.substr(0, std::min(bytes.size(), kMostKept - kept_.size())));
}

}  // namespace firebreak::session
