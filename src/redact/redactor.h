// Takes secrets out of one stream of bytes, across any split. What cannot be the beginning of a
// secret leaves at once; what can is kept until it is decided. Memory is bounded by the longest
// pattern. Belongs to one stream; not shared.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "redact/matcher.h"

namespace firebreak::redact {

// What stands in place of a secret.
enum class Style : std::uint8_t {
  named,  // [redacted:NAME], for text that people and models read
  equal,  // as many stars, for files and archives: sizes and positions stay true
};

// What was opened and is not closed ends here.
inline constexpr std::size_t kLongestBlock = 64UL << 10;

class Redactor {
 public:
  Redactor(std::shared_ptr<const Matcher> matcher, Style style)
      : matcher_(std::move(matcher)), style_(style) {}

  // Bytes that are looked at and do not leave. A stream that is read from its middle is first given
  // the last Matcher::longest() bytes before that place.
  void context(std::string bytes);
  // What may leave now.
  std::string pass(std::string bytes);
  // What was kept, at the end of the stream.
  std::string end();
  // How many secrets were taken out.
  std::uint64_t count() const { return count_; }

 private:
  // Bytes to be taken out, by their positions in the stream.
  struct Span {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t name = 0;
    bool announced = false;  // its name has left
  };

  void note(const Matcher::Match& match, std::uint64_t base);
  void take_out(std::uint64_t begin, std::uint64_t end, std::uint32_t name);
  void cover_block(std::uint64_t to);
  // Everything before `safe` leaves.
  std::string release(std::uint64_t safe);
  void leave(std::string& out, std::uint64_t to, std::uint64_t kept_from);
  void leave_masked(std::string& out, Span& span, std::uint64_t to);

  std::shared_ptr<const Matcher> matcher_;
  Style style_;
  std::uint64_t begin_ = 0;  // bytes before this position are context
  Matcher::State state_ = Matcher::kRoot;
  std::string kept_;         // the bytes from left_ to seen_
  std::uint64_t left_ = 0;   // position of the first byte that has not left
  std::uint64_t seen_ = 0;   // position behind the last byte
  std::deque<Span> spans_;   // in order, apart from each other
  std::uint64_t block_ = 0;  // of what is open: where it ends at the latest; 0: nothing is open
  std::uint32_t block_name_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace firebreak::redact
