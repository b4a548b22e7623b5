#include "wire/zip.h"

#include <algorithm>
#include <optional>

#include <sys/stat.h>
#include <zlib.h>

namespace firebreak::wire {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocator64Mark = 0x07064b50;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kEntrySize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocator64Size = 20;
constexpr std::size_t kMaxComment = 0xffff;
constexpr std::uint32_t kFull32 = 0xffffffff;
constexpr std::uint32_t kFull16 = 0xffff;
constexpr std::uint16_t kExtra64 = 0x0001;
// Encrypted, patched, strongly encrypted, directory encrypted.
constexpr std::uint16_t kRefusedFlags = 0x0001 | 0x0020 | 0x0040 | 0x2000;
constexpr std::size_t kPiece = std::size_t{64} * 1024;
constexpr std::uint64_t kMaxLinkTarget = 4096;

template <class Number>
Number little_endian(std::string_view bytes, std::uint64_t at) {
  Number value = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    value = static_cast<Number>(value << (sizeof(Number) > 1 ? 8 : 0)) |
            static_cast<unsigned char>(bytes[at + i]);
  return value;
}
std::uint16_t get16(std::string_view bytes, std::uint64_t at) {
  return little_endian<std::uint16_t>(bytes, at);
}
std::uint32_t get32(std::string_view bytes, std::uint64_t at) {
  return little_endian<std::uint32_t>(bytes, at);
}
std::uint64_t get64(std::string_view bytes, std::uint64_t at) {
  return little_endian<std::uint64_t>(bytes, at);
}

std::unexpected<Error> bad(std::string_view what, Repair repair = {}) {
  return fail(Code::invalid, "zip archive: " + std::string(what), std::move(repair));
}

// A name for a message: printable, bounded.
std::string in_quotes(std::string_view name) {
  std::string out = "'";
  for (const char c : name.substr(0, 100))
    out.push_back(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
  return out + (name.size() > 100 ? "...'" : "'");
}

// Sizes and offset that did not fit into 32 bits, in the order in which they are wanted.
bool read_extra64(std::string_view extra, std::vector<std::uint64_t*>& wanted) {
  while (extra.size() >= 4) {
    const std::uint16_t id = get16(extra, 0);
    const std::uint16_t size = get16(extra, 2);
    if (size > extra.size() - 4) return false;
    std::string_view body = extra.substr(4, size);
    extra.remove_prefix(4 + std::size_t{size});
    if (id != kExtra64) continue;
    for (std::uint64_t* value : wanted) {
      if (body.size() < 8) return false;
      *value = get64(body, 0);
      body.remove_prefix(8);
    }
    wanted.clear();
  }
  return wanted.empty();
}

// What the system that made the archive says about the kind of file and its permissions.
Result<> set_kind(ZipEntry& entry, std::string_view name, std::uint16_t made_by,
                  std::uint32_t attributes) {
  const unsigned host = made_by >> 8;
  const bool unix_host = host == 3 || host == 19;
  const std::uint32_t mode = unix_host ? attributes >> 16 : 0;
  const bool dir_name = name.ends_with('/');
  if (!unix_host && name.contains('\\'))
    return bad(in_quotes(name) + " has '\\' in its path",
               Repair{"make the archive with a tool that writes '/'"});
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
    case S_IFDIR:
      entry.type = dir_name || S_ISDIR(mode) ? ZipEntry::Type::dir : ZipEntry::Type::file;
      break;
    case S_IFLNK:
      entry.type = ZipEntry::Type::symlink;
      break;
    default:
      return bad(in_quotes(name) + " is a device, a pipe or a socket", Repair{"leave it out"});
  }
  entry.mode = mode & 07777;
  if (entry.mode == 0) entry.mode = entry.type == ZipEntry::Type::dir ? 0755 : 0644;
  return {};
}

struct Inflater {
  z_stream stream{};
  bool ready = false;
  Inflater() { ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

// `give` refuses what is more than expected, so a stream that never ends is left early.
Result<> inflate_all(std::string_view packed, const ZipArchive::Sink& give) {
  Inflater inflater;
  if (!inflater.ready) return fail(Code::exhausted, "no memory to unpack");
  z_stream& stream = inflater.stream;
  std::vector<char> buffer(kPiece);
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const std::string_view input = packed.substr(0, kPiece);
      packed.remove_prefix(input.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream.avail_in = static_cast<uInt>(input.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) return bad("packed content is damaged or cut");
    FB_TRY(give({buffer.data(), buffer.size() - stream.avail_out}));
  }
  if (stream.avail_in != 0 || !packed.empty()) return bad("packed content has something behind it");
  return {};
}

}  // namespace

Result<ZipArchive> ZipArchive::open(std::string_view bytes, const ZipLimits& limits) {
  ZipArchive archive(bytes);
  FB_TRY_ASSIGN(const Directory directory, archive.find_directory());
  if (directory.count > limits.max_entries)
    return fail(Code::exhausted, "zip archive: " + std::to_string(directory.count) +
                                     " entries; at most " + std::to_string(limits.max_entries) +
                                     " are accepted");
  std::vector<Extent> extents;
  std::uint64_t at = directory.at;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    Extent extent{};
    FB_TRY(archive.read_entry(at, directory, extent));
    extents.push_back(extent);
  }
  if (at != directory.at + directory.size) return bad("its directory is not as long as it says");
  // Entries that share their content make a small archive arbitrarily large.
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end) return bad("entries overlap");
  FB_TRY(archive.check_sizes(limits));
  return archive;
}

Result<ZipArchive::Directory> ZipArchive::find_directory() const {
  if (bytes_.size() < kEndSize) return bad("too short for a zip archive");
  const std::uint64_t last = bytes_.size() - kEndSize;
  const std::uint64_t first = last - std::min<std::uint64_t>(last, kMaxComment);
  std::optional<std::uint64_t> found;
  for (std::uint64_t at = last + 1; at-- > first && !found;)
    if (get32(bytes_, at) == kEndMark && get16(bytes_, at + 20) == last - at) found = at;
  if (!found) return bad("no end mark: it is cut, or not a zip archive");
  const std::uint64_t end = *found;
  if (get16(bytes_, end + 4) != kFull16 &&
      (get16(bytes_, end + 4) != 0 || get16(bytes_, end + 6) != 0))
    return bad("split over several files", Repair{"make it one"});
  Directory directory{.at = get32(bytes_, end + 16),
                      .size = get32(bytes_, end + 12),
                      .count = get16(bytes_, end + 10)};
  std::uint64_t behind = end;
  // Some tools write the 64-bit record without need; then the two have to agree.
  const bool needed =
      directory.at == kFull32 || directory.size == kFull32 || directory.count == kFull16;
  if (needed || has_directory64(end)) {
    FB_TRY_ASSIGN(const Directory directory64, read_directory64(end));
    const auto differs = [](std::uint64_t narrow, std::uint64_t full, std::uint64_t wide) {
      return narrow != full && narrow != wide;
    };
    if (differs(directory.at, kFull32, directory64.at) ||
        differs(directory.size, kFull32, directory64.size) ||
        differs(directory.count, kFull16, directory64.count))
      return bad("its two directories differ");
    directory = directory64;
    behind = end - kLocator64Size - kEnd64Size;
  }
  if (directory.at > behind || directory.size != behind - directory.at)
    return bad("its directory is not where it says");
  if (directory.count > directory.size / kEntrySize) return bad("its directory is cut");
  return directory;
}

bool ZipArchive::has_directory64(std::uint64_t end_at) const {
  return end_at >= kLocator64Size && get32(bytes_, end_at - kLocator64Size) == kLocator64Mark;
}

Result<ZipArchive::Directory> ZipArchive::read_directory64(std::uint64_t end_at) const {
  if (end_at < kLocator64Size + kEnd64Size) return bad("its directory is cut");
  const std::uint64_t locator = end_at - kLocator64Size;
  const std::uint64_t end64 = locator - kEnd64Size;
  if (get32(bytes_, locator) != kLocator64Mark || get64(bytes_, locator + 8) != end64 ||
      get32(bytes_, end64) != kEnd64Mark || get64(bytes_, end64 + 4) != kEnd64Size - 12)
    return bad("its 64-bit directory is not where it says");
  if (get32(bytes_, end64 + 16) != 0 || get32(bytes_, end64 + 20) != 0)
    return bad("split over several files", Repair{"make it one"});
  return Directory{.at = get64(bytes_, end64 + 48),
                   .size = get64(bytes_, end64 + 40),
                   .count = get64(bytes_, end64 + 32)};
}

Result<> ZipArchive::read_entry(std::uint64_t& at, const Directory& directory, Extent& extent) {
  const std::uint64_t end = directory.at + directory.size;
  if (end - at < kEntrySize || get32(bytes_, at) != kEntryMark)
    return bad("its directory is damaged");
  const std::size_t name_size = get16(bytes_, at + 28);
  const std::size_t extra_size = get16(bytes_, at + 30);
  const std::size_t comment_size = get16(bytes_, at + 32);
  if (end - at - kEntrySize < name_size + extra_size + comment_size)
    return bad("its directory is damaged");
  const std::string_view name = bytes_.substr(at + kEntrySize, name_size);
  const std::string_view extra = bytes_.substr(at + kEntrySize + name_size, extra_size);
  const std::uint16_t flags = get16(bytes_, at + 8);
  const std::uint16_t method = get16(bytes_, at + 10);
  if (name.empty() || name.contains('\0')) return bad("an entry without a usable name");
  if ((flags & kRefusedFlags) != 0)
    return bad(in_quotes(name) + " is encrypted", Repair{"make the archive without a password"});
  if (method != 0 && method != Z_DEFLATED)
    return bad(in_quotes(name) + " is packed in a way that is not supported",
               Repair{"use 'deflate', as zip "
                      "does by default"});
  ZipEntry entry{.size = get32(bytes_, at + 24),
                 .packed_size = get32(bytes_, at + 20),
                 .crc = get32(bytes_, at + 16),
                 .deflated = method != 0};
  std::uint64_t header_at = get32(bytes_, at + 42);
  std::vector<std::uint64_t*> wanted;
  for (std::uint64_t* value : {&entry.size, &entry.packed_size, &header_at})
    if (*value == kFull32) wanted.push_back(value);
  if (!wanted.empty() && !read_extra64(extra, wanted)) return bad("its directory is damaged");
  FB_TRY(set_kind(entry, name, get16(bytes_, at + 4), get32(bytes_, at + 38)));
  FB_TRY(read_local(entry, name, method, header_at, directory.at));
  extent = {.begin = header_at, .end = entry.data_at + entry.packed_size};
  entry.path = name;
  while (entry.path.size() > 1 && entry.path.ends_with('/')) entry.path.pop_back();
  if (entry.type == ZipEntry::Type::dir) entry.size = 0;
  if (entry.type == ZipEntry::Type::symlink && entry.size > kMaxLinkTarget)
    return bad(in_quotes(name) + " is a link with too long a target");
  entries_.push_back(std::move(entry));
  at += kEntrySize + name_size + extra_size + comment_size;
  return {};
}

// The header in front of the content has to say the same, or two readers see two archives.
Result<> ZipArchive::read_local(ZipEntry& entry, std::string_view name, std::uint16_t method,
                                std::uint64_t header_at, std::uint64_t directory_at) const {
  const auto damaged = [&] {
    return bad(in_quotes(name) + " does not lie where the directory says");
  };
  if (header_at > directory_at || directory_at - header_at < kLocalSize) return damaged();
  if (get32(bytes_, header_at) != kLocalMark || get16(bytes_, header_at + 8) != method)
    return damaged();
  const std::uint64_t name_size = get16(bytes_, header_at + 26);
  const std::uint64_t extra_size = get16(bytes_, header_at + 28);
  entry.data_at = header_at + kLocalSize + name_size + extra_size;
  if (entry.data_at > directory_at || entry.packed_size > directory_at - entry.data_at)
    return damaged();
  if (bytes_.substr(header_at + kLocalSize, name_size) != name) return damaged();
  if (!entry.deflated && entry.size != entry.packed_size) return damaged();
  return {};
}

Result<> ZipArchive::check_sizes(const ZipLimits& limits) const {
  std::uint64_t total = 0;
  for (const ZipEntry& entry : entries_) {
    if (entry.size > limits.max_bytes || total > limits.max_bytes - entry.size)
      return fail(Code::exhausted, "zip archive: unpacks to more than " +
                                       std::to_string(limits.max_bytes) + " bytes");
    total += entry.size;
  }
  if (total > limits.ratio_counts_from && total / limits.max_ratio > bytes_.size())
    return fail(Code::exhausted, "zip archive: unpacks to more than " +
                                     std::to_string(limits.max_ratio) +
                                     " times its size; this looks like a zip bomb");
  return {};
}

Result<> ZipArchive::extract(const ZipEntry& entry, const Sink& sink) const {
  const std::string_view packed = bytes_.substr(entry.data_at, entry.packed_size);
  const auto damaged = [&] { return bad(in_quotes(entry.path) + " is damaged"); };
  uLong crc = crc32(0, nullptr, 0);
  std::uint64_t total = 0;
  const auto give = [&](std::string_view piece) -> Result<> {
    if (piece.size() > entry.size - total) return damaged();
    total += piece.size();
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    return piece.empty() ? Result<>() : sink(piece);
  };
  if (!entry.deflated) {
    for (std::size_t at = 0; at < packed.size(); at += kPiece)
      FB_TRY(give(packed.substr(at, kPiece)));
  } else if (entry.size > 0) {
    FB_TRY(inflate_all(packed, give));
  }
  if (total != entry.size || crc != entry.crc) return damaged();
  return {};
}

}  // namespace firebreak::wire
