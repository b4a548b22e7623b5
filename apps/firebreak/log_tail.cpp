#include "log_tail.h"

namespace firebreak::cli {

void LogTail::add(int fd, std::string_view bytes) {
  seen_[fd] += bytes.size();
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view piece =
        bytes.substr(0, end == std::string_view::npos ? bytes.size() : end + 1);
    bytes.remove_prefix(piece.size());
    auto open = open_.find(fd);
    if (open == open_.end() || open->second < dropped_) {
      lines_.push_back({fd, ""});
      open = open_.insert_or_assign(fd, dropped_ + lines_.size() - 1).first;
    }
    lines_[open->second - dropped_].text += piece;
    if (piece.ends_with('\n')) open_.erase(open);
    while (lines_.size() > most_) {
      lines_.pop_front();
      ++dropped_;
    }
  }
}

}  // namespace firebreak::cli
