#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "wire/tar_format.h"

namespace firebreak::wire {
namespace {

using namespace tar;

std::uint64_t largest_octal(Field field) {
  return (std::uint64_t{1} << (3 * (field.length - 1))) - 1;
}

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

}  // namespace firebreak::wire
