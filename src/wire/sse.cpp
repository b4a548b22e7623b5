#include "wire/sse.h"

#include <utility>

namespace firebreak::wire {

Result<> SseReader::feed(std::string_view bytes) {
  held_.erase(0, std::exchange(from_, 0));
  if (held_.size() + data_.size() + bytes.size() > kMaxEvent)
    return fail(Code::exhausted, "an event of the stream is too large");
  held_ += bytes;
  return {};
}

void SseReader::take_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    if (std::exchange(has_data_, false)) whole_ = std::exchange(data_, {});
    return;
  }
  if (!line.starts_with("data:")) return;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += line;
}

std::optional<std::string> SseReader::next() {
  whole_.reset();
  while (!whole_) {
    const auto end = held_.find('\n', from_);
    if (end == std::string::npos) return std::nullopt;
    take_line(std::string_view(held_).substr(from_, end - from_));
    from_ = end + 1;
  }
  return std::exchange(whole_, std::nullopt);
}

}  // namespace firebreak::wire
