#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "wire/tar_format.h"

namespace firebreak::wire {
namespace {

using namespace tar;

std::string_view text_of(std::string_view block, Field field) {
  const std::string_view text = block.substr(field.at, field.length);
  return text.substr(0, text.find('\0'));
}

// Base-256 of GNU: the first bit says so, the rest is a big-endian two's complement number.
std::optional<std::int64_t> binary_number(std::string_view raw) {
  const bool negative = (static_cast<unsigned char>(raw.front()) & 0x40) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    auto byte = static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i]));
    if (i == 0) byte = negative ? byte | 0x80 : byte & 0x7f;
    const std::uint64_t top = value >> 55;
    if (top != (negative ? 0x1ff : 0)) return std::nullopt;
    value = value << 8 | byte;
  }
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> number_of(std::string_view block, Field field) {
  std::string_view raw = block.substr(field.at, field.length);
  if ((static_cast<unsigned char>(raw.front()) & 0x80) != 0) return binary_number(raw);
  raw.remove_prefix(std::min(raw.find_first_not_of(' '), raw.size()));
  std::int64_t value = 0;
  std::size_t i = 0;
  for (; i < raw.size() && raw[i] >= '0' && raw[i] <= '7'; ++i) value = value * 8 + (raw[i] - '0');
  if (raw.substr(i).find_first_not_of(std::string_view(" \0", 2)) != std::string_view::npos)
    return std::nullopt;
  return value;
}

// Some historic writers summed signed characters.
bool checksum_ok(std::string_view block) {
  const auto stored = number_of(block, kChecksum);
  std::int64_t plain = 0;
  std::int64_t with_sign = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool inside = i >= kChecksum.at && i < kChecksum.at + kChecksum.length;
    plain += inside ? ' ' : static_cast<unsigned char>(block[i]);
    with_sign += inside ? ' ' : static_cast<signed char>(block[i]);
  }
  return stored && (*stored == plain || *stored == with_sign);
}

std::int64_t to_nanos(std::int64_t seconds) {
  return std::clamp(seconds, -kMaxSeconds, kMaxSeconds) * kNanos;
}

std::optional<std::int64_t> parse_pax_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto dot = text.find('.');
  const auto seconds = parse_u64(text.substr(0, dot));
  std::string digits(dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1));
  if (!seconds || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  digits.resize(9, '0');
  const auto whole =
      static_cast<std::int64_t>(std::min<std::uint64_t>(*seconds, kMaxSeconds)) * kNanos;
  const auto nanos = whole + static_cast<std::int64_t>(*parse_u64(digits));
  return negative ? -nanos : nanos;
}

}  // namespace

std::unexpected<Error> TarReader::bad(std::string_view what) const {
  return fail(Code::invalid,
              "tar archive: " + std::string(what) + " at byte " + std::to_string(header_at_));
}

Result<> TarReader::feed(std::string_view bytes) {
  if (failed_) return std::unexpected(*failed_);
  while (!bytes.empty() && state_ != State::ended) {
    if (auto done = step(bytes); !done) {
      failed_ = done.error();
      return done;
    }
  }
  return {};
}

Result<> TarReader::finish() {
  if (failed_) return std::unexpected(*failed_);
  if (state_ == State::ended) return {};
  header_at_ = offset_;
  // Content is whole even if the last padding is missing, as some writers leave it out.
  const bool between = (state_ == State::header && block_.empty()) || state_ == State::padding;
  if (!between || extended_) return bad("ends inside an entry");
  return {};
}

Result<> TarReader::step(std::string_view& bytes) {
  std::size_t wanted = 0;
  switch (state_) {
    case State::header:
      wanted = kTarBlock - block_.size();
      break;
    case State::padding:
      wanted = padding_;
      break;
    default:
      wanted = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, bytes.size()));
      break;
  }
  const std::string_view part = bytes.substr(0, wanted);
  bytes.remove_prefix(part.size());
  if (state_ == State::header && block_.empty()) header_at_ = offset_;
  offset_ += part.size();

  switch (state_) {
    case State::header:
      block_.append(part);
      if (block_.size() < kTarBlock) return {};
      FB_TRY(take_header());
      block_.clear();
      return {};
    case State::padding:
      padding_ -= part.size();
      if (padding_ == 0) state_ = State::header;
      return {};
    case State::content:
      FB_TRY(sink_.on_data(part));
      break;
    case State::record:
      record_.append(part);
      break;
    case State::skip:
    case State::ended:
      break;
  }
  remaining_ -= part.size();
  return remaining_ == 0 ? end_body() : Result<>();
}

Result<> TarReader::begin_body(State state, std::uint64_t size) {
  state_ = state;
  remaining_ = size;
  padding_ = padding_of(size);
  return size == 0 ? end_body() : Result<>();
}

Result<> TarReader::end_body() {
  if (state_ == State::content) FB_TRY(sink_.on_entry_end());
  if (state_ == State::record) FB_TRY(take_record());
  state_ = padding_ == 0 ? State::header : State::padding;
  return {};
}

Result<> TarReader::take_header() {
  if (block_.find_first_not_of('\0') == std::string::npos) {
    if (zero_block_) {
      if (extended_) return bad("an extended header without its entry");
      state_ = State::ended;
    }
    zero_block_ = true;
    return {};
  }
  zero_block_ = false;
  if (!checksum_ok(block_)) return bad("wrong checksum");
  const auto size = number_of(block_, kSize);
  if (!size || *size < 0) return bad("wrong size");
  const char type = block_[kTypeAt];
  switch (type) {
    case 'x':
    case 'g':
    case 'L':
    case 'K':
      if (static_cast<std::uint64_t>(*size) > kMaxTarRecord) return bad("extended header too long");
      record_.clear();
      record_type_ = type;
      return begin_body(State::record, static_cast<std::uint64_t>(*size));
    case 'S':
      return bad("sparse files are not supported");
    default:
      return take_entry(type, static_cast<std::uint64_t>(*size));
  }
}

Result<> TarReader::take_record() {
  const auto until_nul = [this] { return record_.substr(0, record_.find('\0')); };
  extended_ = extended_ || record_type_ != 'g';
  switch (record_type_) {
    case 'L':
      gnu_.path = until_nul();
      return {};
    case 'K':
      gnu_.link = until_nul();
      return {};
    case 'g':
      return take_pax(global_);
    default:
      return take_pax(local_);
  }
}

Result<> TarReader::take_pax(Overrides& into) {
  std::string_view rest = record_;
  while (!rest.empty()) {
    const auto space = rest.find(' ');
    const auto length = parse_u64(rest.substr(0, space));
    if (space == std::string_view::npos || !length || *length > rest.size() ||
        *length < space + 3 || rest[*length - 1] != '\n')
      return bad("malformed pax record");
    const std::string_view record = rest.substr(space + 1, *length - space - 2);
    const auto equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) return bad("malformed pax record");
    FB_TRY(set_pax(into, record.substr(0, equals), record.substr(equals + 1)));
    rest.remove_prefix(*length);
  }
  return {};
}

Result<> TarReader::set_pax(Overrides& into, std::string_view key, std::string_view value) {
  // Without its map, the content of a sparse file would be taken for the file.
  if (key.starts_with("GNU.sparse.")) return bad("sparse files are not supported");
  if (key == "path" || key == "linkpath") {
    auto& slot = key == "path" ? into.path : into.link;
    if (value.contains('\0')) return bad("NUL in a path");
    slot = value.empty() ? std::nullopt : std::optional<std::string>(value);
  } else if (key == "size" || key == "uid" || key == "gid") {
    auto& slot = key == "size" ? into.size : key == "uid" ? into.uid : into.gid;
    slot = parse_u64(value);
    if (!slot && !value.empty()) return bad("malformed pax " + std::string(key));
  } else if (key == "mtime") {
    into.mtime_ns = parse_pax_time(value);
    if (!into.mtime_ns && !value.empty()) return bad("malformed pax mtime");
  }
  return {};
}

Result<> TarReader::take_entry(char type, std::uint64_t stored_size) {
  std::uint64_t size = local_.size.value_or(global_.size.value_or(stored_size));
  if (size > kMaxSize) return bad("wrong size");
  const bool known = std::string_view(
                         "\0"
                         "01234567D",
                         10)
                         .contains(type);
  if (!known) {
    local_ = gnu_ = {};
    extended_ = false;
    return begin_body(State::skip, size);
  }
  // Links, devices, directories and fifos have no content, whatever the size field says.
  if (std::string_view("123456").contains(type)) size = 0;
  FB_TRY_ASSIGN(TarEntry entry, parse_entry(type));
  local_ = gnu_ = {};
  extended_ = false;
  if (entry.type == TarType::file) entry.size = size;
  FB_TRY(sink_.on_entry(entry));
  if (entry.type == TarType::file) return begin_body(State::content, size);
  FB_TRY(sink_.on_entry_end());
  return begin_body(State::skip, size);
}

Result<std::uint32_t> TarReader::parse_id(std::size_t at, std::string_view what,
                                          const std::optional<std::uint64_t>& local,
                                          const std::optional<std::uint64_t>& global) const {
  std::optional<std::uint64_t> value = local ? local : global;
  if (!value) {
    const auto stored = number_of(block_, {at, kUid.length});
    if (stored && *stored >= 0) value = static_cast<std::uint64_t>(*stored);
  }
  if (!value || *value > std::numeric_limits<std::uint32_t>::max())
    return bad("wrong " + std::string(what));
  return static_cast<std::uint32_t>(*value);
}

Result<TarEntry> TarReader::parse_entry(char type) const {
  TarEntry entry;
  const auto override_of = [this](auto member) -> const std::optional<std::string>& {
    if (local_.*member) return local_.*member;
    return gnu_.*member ? gnu_.*member : global_.*member;
  };
  if (const auto& path = override_of(&Overrides::path)) {
    entry.path = *path;
  } else {
    entry.path = text_of(block_, kName);
    const bool has_prefix = block_.compare(kMagic.at, kUstarMagic.size(), kUstarMagic) == 0;
    if (const auto prefix = text_of(block_, kPrefix); has_prefix && !prefix.empty())
      entry.path.insert(0, std::string(prefix) + "/");
  }
  if (entry.path.empty()) return bad("an entry without a name");
  switch (type) {
    case '1':
      entry.type = TarType::hardlink;
      break;
    case '2':
      entry.type = TarType::symlink;
      break;
    case '3':
    case '4':
      entry.type = TarType::device;
      break;
    case '5':
    case 'D':
      entry.type = TarType::dir;
      break;
    case '6':
      entry.type = TarType::fifo;
      break;
    // V7 had no type for directories.
    default:
      entry.type = entry.path.ends_with('/') ? TarType::dir : TarType::file;
      break;
  }
  while (entry.path.size() > 1 && entry.path.ends_with('/')) entry.path.pop_back();
  if (entry.type == TarType::symlink || entry.type == TarType::hardlink) {
    const auto& link = override_of(&Overrides::link);
    entry.link_target = link ? *link : std::string(text_of(block_, kLink));
    if (entry.link_target.empty()) return bad("a link without a target");
  }
  const auto mode = number_of(block_, kMode);
  if (!mode) return bad("wrong mode");
  entry.mode = static_cast<std::uint32_t>(*mode) & 07777;
  FB_TRY_ASSIGN(entry.uid, parse_id(kUid.at, "uid", local_.uid, global_.uid));
  FB_TRY_ASSIGN(entry.gid, parse_id(kGid.at, "gid", local_.gid, global_.gid));
  if (const auto& mtime = local_.mtime_ns ? local_.mtime_ns : global_.mtime_ns) {
    entry.mtime_ns = *mtime;
  } else {
    const auto seconds = number_of(block_, kMtime);
    if (!seconds) return bad("wrong mtime");
    entry.mtime_ns = to_nanos(*seconds);
  }
  return entry;
}

}  // namespace firebreak::wire
