#include "redact/redactor.h"

#include <algorithm>

namespace firebreak::redact {

void Redactor::context(std::string bytes) {
  begin_ = seen_ + bytes.size();
  (void)pass(std::move(bytes));
}

std::string Redactor::pass(std::string bytes) {
  const std::uint64_t base = seen_;
  seen_ += bytes.size();
  matcher_->scan(state_, bytes, [&](const Matcher::Match& match) { note(match, base); });
  cover_block(seen_);
  // Nothing was found and nothing is under way: the bytes leave as they came.
  const bool plain = kept_.empty() && spans_.empty() && base >= begin_;
  if (plain && matcher_->held(state_) == 0) {
    left_ = seen_;
    return bytes;
  }
  if (kept_.empty()) {
    kept_ = std::move(bytes);
  } else {
    kept_ += bytes;
  }
  return release(seen_ - matcher_->held(state_));
}

std::string Redactor::end() {
  state_ = Matcher::kRoot;
  return release(seen_);
}

void Redactor::note(const Matcher::Match& match, std::uint64_t base) {
  const std::uint64_t end = base + match.end;
  const std::uint64_t begin = end - match.length;
  // What is open covers all up to here, so that what is found inside it joins it.
  cover_block(end);
  switch (match.meaning) {
    case Meaning::secret:
      take_out(begin, end, match.name);
      break;
    case Meaning::opens:
      take_out(begin, end, match.name);
      block_ = begin + kLongestBlock;
      block_name_ = match.name;
      break;
    case Meaning::closes:
      block_ = 0;
      break;
  }
}

// Spans that overlap become one, under the name of the one that begins first.
void Redactor::take_out(std::uint64_t begin, std::uint64_t end, std::uint32_t name) {
  Span span{begin, end, name};
  while (!spans_.empty() && spans_.back().end > span.begin) {
    const Span& last = spans_.back();
    if (last.begin <= span.begin) span.name = last.name;
    span.begin = std::min(span.begin, last.begin);
    span.end = std::max(span.end, last.end);
    span.announced = span.announced || last.announced;
    spans_.pop_back();
  }
  spans_.push_back(span);
}

// While something is open its span is the last one: all that is found later joins it. If its bytes
// until now have left, it goes on with the first that has not.
void Redactor::cover_block(std::uint64_t to) {
  if (block_ == 0) return;
  const std::uint64_t end = std::min(to, block_);
  if (spans_.empty()) {
    spans_.push_back({left_, end, block_name_, true});
  } else {
    spans_.back().end = std::max(spans_.back().end, end);
  }
  if (end == block_) block_ = 0;
}

std::string Redactor::release(std::uint64_t safe) {
  std::string out;
  const std::uint64_t kept_from = left_;
  while (left_ < safe) {
    const bool plain = spans_.empty() || spans_.front().begin >= safe;
    leave(out, plain ? safe : std::max(left_, spans_.front().begin), kept_from);
    if (plain) break;
    leave_masked(out, spans_.front(), std::min(safe, spans_.front().end));
    if (spans_.front().end <= safe) spans_.pop_front();
  }
  kept_.erase(0, left_ - kept_from);
  return out;
}

// The bytes up to `to` as they are.
void Redactor::leave(std::string& out, std::uint64_t to, std::uint64_t kept_from) {
  const std::uint64_t from = std::clamp(begin_, left_, to);
  out.append(kept_, from - kept_from, to - from);
  left_ = to;
}

// The bytes up to `to`, which lie in the span, as what stands in their place.
void Redactor::leave_masked(std::string& out, Span& span, std::uint64_t to) {
  const std::uint64_t from = std::clamp(begin_, left_, to);
  left_ = to;
  if (from == to) return;  // context
  if (!span.announced) {
    ++count_;
    if (style_ == Style::named) out += "[redacted:" + matcher_->name(span.name) + "]";
  }
  span.announced = true;
  if (style_ == Style::equal) out.append(to - from, '*');
}

}  // namespace firebreak::redact
