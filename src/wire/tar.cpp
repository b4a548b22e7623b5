#include "wire/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/text.h"

namespace firebreak::wire {
namespace {

struct Field {
  std::size_t at;
  std::size_t length;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUid{108, 8};
constexpr Field kGid{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kMtime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kTypeAt = 156;
constexpr Field kLink{157, 100};
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};
constexpr std::string_view kUstarMagic{"ustar\0", 6};

constexpr std::int64_t kNanos = 1'000'000'000;
// Times are cut to what 64 bits of nanoseconds hold, with room for a fraction.
constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max() / kNanos - 1;
constexpr std::uint64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

std::size_t padding_of(std::uint64_t size) {
  return (kTarBlock - size % kTarBlock) % kTarBlock;
}

std::uint64_t largest_octal(Field field) {
  return (std::uint64_t{1} << (3 * (field.length - 1))) - 1;
}

// ---- writing ----

using Block = std::array<char, kTarBlock>;

void put_text(Block& block, Field field, std::string_view text) {
  std::ranges::copy(text.substr(0, field.length),
                    block.begin() + static_cast<std::ptrdiff_t>(field.at));
}

void put_octal(Block& block, Field field, std::uint64_t value) {
  for (std::size_t i = field.length - 1; i-- > 0; value >>= 3)
    block[field.at + i] = static_cast<char>('0' + (value & 7));
}

void put_checksum(Block& block) {
  std::fill_n(block.begin() + kChecksum.at, kChecksum.length, ' ');
  std::uint64_t sum = 0;
  for (char c : block) sum += static_cast<unsigned char>(c);
  put_octal(block, {kChecksum.at, 7}, sum);
  block[kChecksum.at + 6] = '\0';
}

bool plain_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 32 && c < 127; });
}

// What old readers see where the true name is in a pax record.
std::string stand_in(std::string_view name, std::size_t limit) {
  std::string out(name.substr(0, limit));
  for (char& c : out)
    if (c < 32 || c >= 127) c = '_';
  return out;
}

void put_pax_record(std::string& out, std::string_view key, std::string_view value) {
  // The length counts its own digits.
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t total = rest + 1;
  while (std::to_string(total).size() + rest != total) total = std::to_string(total).size() + rest;
  out.append(std::to_string(total)).append(" ").append(key).append("=").append(value).append("\n");
}

std::string pax_time(std::int64_t ns) {
  const auto magnitude =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  std::string text = ns < 0 ? "-" : "";
  text += std::to_string(magnitude / kNanos);
  if (const auto fraction = magnitude % kNanos; fraction != 0) {
    const std::string digits = std::to_string(fraction);
    text.append(".").append(9 - digits.size(), '0').append(digits);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

// Name and prefix of a path that ustar can hold as it is.
std::optional<std::pair<std::string_view, std::string_view>> split_path(std::string_view path) {
  if (!plain_ascii(path)) return std::nullopt;
  if (path.size() <= kName.length) return std::pair(path, std::string_view());
  if (path.size() > kName.length + 1 + kPrefix.length) return std::nullopt;
  const auto slash = path.find('/', path.size() - kName.length - 1);
  if (slash == std::string_view::npos || slash == 0 || slash > kPrefix.length ||
      slash + 1 == path.size())
    return std::nullopt;
  return std::pair(path.substr(slash + 1), path.substr(0, slash));
}

char type_flag(TarType type) {
  switch (type) {
    case TarType::file:
      return '0';
    case TarType::hardlink:
      return '1';
    case TarType::symlink:
      return '2';
    case TarType::device:
      return '3';
    case TarType::dir:
      return '5';
    case TarType::fifo:
      return '6';
  }
  return '0';
}

Result<> check(const TarEntry& entry) {
  const auto wrong = [](std::string_view why) {
    return fail(Code::invalid, "tar entry: " + std::string(why));
  };
  if (entry.path.empty()) return wrong("no path");
  if (entry.path.ends_with('/') && entry.path != "/") return wrong("path ends with a slash");
  if (entry.path.contains('\0') || entry.link_target.contains('\0')) return wrong("NUL in a path");
  if (entry.type == TarType::device) return wrong("devices are not written");
  if (entry.size > kMaxSize) return wrong("size above 2^63");
  if (entry.size != 0 && entry.type != TarType::file) return wrong("only files have content");
  const bool link = entry.type == TarType::symlink || entry.type == TarType::hardlink;
  if (link == entry.link_target.empty()) return wrong("links, and only links, have a target");
  return {};
}

Block make_block(char type, std::uint32_t mode, std::uint64_t size, std::uint64_t mtime) {
  Block block{};
  put_octal(block, kMode, mode);
  put_octal(block, kUid, 0);
  put_octal(block, kGid, 0);
  put_octal(block, kSize, size);
  put_octal(block, kMtime, mtime);
  block[kTypeAt] = type;
  put_text(block, kMagic, std::string_view("ustar\00000", 8));
  return block;
}

void append_block(Block& block, std::string& out) {
  put_checksum(block);
  out.append(block.data(), block.size());
}

}  // namespace

Result<> TarWriter::begin_entry(const TarEntry& entry, std::string& out) {
  FB_TRY(check(entry));
  std::string path = entry.path;
  if (entry.type == TarType::dir && path != "/") path += '/';
  std::string pax;
  const auto number = [&pax](Field field, std::string_view key, std::uint64_t value) {
    if (value <= largest_octal(field)) return value;
    put_pax_record(pax, key, std::to_string(value));
    return std::uint64_t{0};
  };

  const std::uint64_t seconds =
      entry.mtime_ns < 0 ? 0 : static_cast<std::uint64_t>(entry.mtime_ns) / kNanos;
  const std::uint64_t mtime = std::min(seconds, largest_octal(kMtime));
  if (entry.mtime_ns < 0 || entry.mtime_ns % kNanos != 0 || mtime != seconds)
    put_pax_record(pax, "mtime", pax_time(entry.mtime_ns));
  Block block = make_block(type_flag(entry.type), entry.mode & 07777,
                           number(kSize, "size", entry.size), mtime);
  put_octal(block, kUid, number(kUid, "uid", entry.uid));
  put_octal(block, kGid, number(kGid, "gid", entry.gid));

  if (const auto parts = split_path(path)) {
    put_text(block, kName, parts->first);
    put_text(block, kPrefix, parts->second);
  } else {
    put_pax_record(pax, "path", path);
    put_text(block, kName, stand_in(path, kName.length));
  }
  if (entry.link_target.size() > kLink.length || !plain_ascii(entry.link_target))
    put_pax_record(pax, "linkpath", entry.link_target);
  put_text(block, kLink, stand_in(entry.link_target, kLink.length));

  if (pax.size() > kMaxTarRecord) return fail(Code::invalid, "tar entry: path too long");
  if (!pax.empty()) {
    Block extended = make_block('x', 0644, pax.size(), mtime);
    put_text(extended, kName,
             "PaxHeaders/" + stand_in(entry.path.substr(entry.path.rfind('/') + 1), 80));
    append_block(extended, out);
    out.append(pax).append(padding_of(pax.size()), '\0');
  }
  append_block(block, out);
  size_ = entry.size;
  return {};
}

void TarWriter::end_entry(std::string& out) {
  out.append(padding_of(size_), '\0');
}

void TarWriter::finish(std::string& out) {
  out.append(2 * kTarBlock, '\0');
}

// ---- reading ----

namespace {

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
