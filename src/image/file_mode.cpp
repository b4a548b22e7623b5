#include "image/file_mode.h"

#include <charconv>
#include <string>

#include "base/text.h"

namespace firebreak::image {
namespace {

constexpr std::uint32_t kEverybody = 0777;

std::uint32_t class_of(char who) {
  switch (who) {
    case 'u':
      return 0700;
    case 'g':
      return 0070;
    case 'o':
      return 0007;
    default:
      return kEverybody;
  }
}

// One class's three bits, for each class in `who`.
std::uint32_t spread(std::uint32_t bits, std::uint32_t who) {
  return (bits << 6 | bits << 3 | bits) & who;
}

}  // namespace

Result<FileMode> FileMode::parse(std::string_view text) {
  FileMode mode;
  const auto wrong = [&] {
    return fail(Code::invalid, "--chmod=" + std::string(text.substr(0, 40)) +
                                   ": write an octal number up to 7777, or changes such as "
                                   "u=rwX,go=rX");
  };
  if (text.empty()) return wrong();
  if (text[0] >= '0' && text[0] <= '9') {
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), mode.mode_, 8);
    if (ec != std::errc() || end != text.data() + text.size() || mode.mode_ > 07777) return wrong();
    mode.absolute_ = true;
    return mode;
  }
  for (const std::string_view clause : split(text, ','))
    if (!parse_clause(clause, mode.changes_)) return wrong();
  return mode;
}

// [ugoa]* and then one or more of [+-=][rwxXst]* or [+-=][ugo].
Result<> FileMode::parse_clause(std::string_view clause, std::vector<Change>& changes) {
  std::uint32_t who = 0;
  while (!clause.empty() && std::string_view("ugoa").contains(clause[0])) {
    who |= class_of(clause[0]);
    clause.remove_prefix(1);
  }
  if (clause.empty()) return fail(Code::invalid, "no operation");
  if (who == 0) who = kEverybody;
  while (!clause.empty()) {
    if (!std::string_view("+-=").contains(clause[0])) return fail(Code::invalid, "no operation");
    Change change{.who = who, .operation = clause[0]};
    clause.remove_prefix(1);
    if (!clause.empty() && std::string_view("ugo").contains(clause[0])) {
      change.copied = clause[0];
      clause.remove_prefix(1);
    }
    for (; change.copied == 0 && !clause.empty(); clause.remove_prefix(1)) {
      const char c = clause[0];
      if (std::string_view("+-=").contains(c)) break;
      if (!std::string_view("rwxXst").contains(c)) return fail(Code::invalid, "unknown permission");
      if (c == 'r') change.bits |= 4;
      if (c == 'w') change.bits |= 2;
      if (c == 'x') change.bits |= 1;
      change.executable_if_any = change.executable_if_any || c == 'X';
      change.set_id = change.set_id || c == 's';
      change.sticky = change.sticky || c == 't';
    }
    changes.push_back(change);
  }
  return {};
}

std::uint32_t FileMode::apply(const Change& change, std::uint32_t mode, bool is_dir) {
  std::uint32_t bits = change.bits;
  if (change.executable_if_any && (is_dir || (mode & 0111) != 0)) bits |= 1;
  if (change.copied == 'u') bits = mode >> 6 & 7;
  if (change.copied == 'g') bits = mode >> 3 & 7;
  if (change.copied == 'o') bits = mode & 7;
  std::uint32_t wanted = spread(bits, change.who);
  std::uint32_t special = 0;
  if ((change.who & 0700) != 0) special |= 04000;
  if ((change.who & 0070) != 0) special |= 02000;
  if (change.set_id) wanted |= special;
  if (change.sticky) wanted |= 01000;
  if (change.operation == '+') return mode | wanted;
  if (change.operation == '-') return mode & ~wanted;
  // A directory keeps its set-id bits unless they are named, as with chmod(1).
  const std::uint32_t cleared = change.who | (is_dir ? 0 : special);
  return (mode & ~cleared) | wanted;
}

std::uint32_t FileMode::apply(std::uint32_t mode, bool is_dir) const {
  if (absolute_) return mode_;
  for (const Change& change : changes_) mode = apply(change, mode, is_dir);
  return mode;
}

}  // namespace firebreak::image
