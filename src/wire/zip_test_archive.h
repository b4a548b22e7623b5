// Makes zip archives for tests: right ones, and wrong in any field. Header only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <zlib.h>

namespace firebreak::wire::zip_test {

inline void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

inline std::string deflated(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

// An archive as it should be, and every field to make it wrong with.
struct Item {
  std::string name;
  std::string content;
  std::uint32_t mode = S_IFREG | 0644;
  bool deflate = false;
  bool zip64 = false;
  std::uint16_t flags = 0;
  std::uint8_t host = 3;
  std::string local_name;
  std::optional<std::uint16_t> method;
  std::optional<std::uint32_t> crc;
  std::optional<std::uint32_t> size;
  std::optional<std::uint32_t> header_at;
};

struct Tail {
  bool zip64 = false;
  bool narrow_too = false;  // the 32-bit fields as well, though not needed
  int narrow_shift = 0;
  std::string comment;
  std::uint16_t disk = 0;
  int extra_count = 0;
  int directory_shift = 0;
};

inline std::string zip(const std::vector<Item>& items, const Tail& tail = {}) {
  std::string out;
  std::string directory;
  for (const Item& item : items) {
    const std::string packed = item.deflate ? deflated(item.content) : item.content;
    const auto crc = item.crc.value_or(
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(item.content.data()),
                                         static_cast<uInt>(item.content.size()))));
    const std::uint16_t method = item.method.value_or(item.deflate ? 8 : 0);
    const std::uint64_t size = item.size.value_or(static_cast<std::uint32_t>(item.content.size()));
    const std::uint64_t header_at = item.header_at.value_or(static_cast<std::uint32_t>(out.size()));
    const std::string& local = item.local_name.empty() ? item.name : item.local_name;
    put(out, 0x04034b50, 4);
    put(out, 20, 2);
    put(out, item.flags, 2);
    put(out, method, 2);
    put(out, 0, 4);
    put(out, crc, 4);
    put(out, packed.size(), 4);
    put(out, size, 4);
    put(out, local.size(), 2);
    put(out, 0, 2);
    out += local + packed;

    std::string extra;
    if (item.zip64) {
      put(extra, 0x9999, 2);
      put(extra, 2, 2);
      put(extra, 7, 2);
      put(extra, 1, 2);
      put(extra, 24, 2);
      put(extra, size, 8);
      put(extra, packed.size(), 8);
      put(extra, header_at, 8);
    }
    put(directory, 0x02014b50, 4);
    put(directory, item.host << 8 | 20, 2);
    put(directory, 20, 2);
    put(directory, item.flags, 2);
    put(directory, method, 2);
    put(directory, 0, 4);
    put(directory, crc, 4);
    put(directory, item.zip64 ? 0xffffffff : packed.size(), 4);
    put(directory, item.zip64 ? 0xffffffff : size, 4);
    put(directory, item.name.size(), 2);
    put(directory, extra.size(), 2);
    put(directory, 0, 6);
    put(directory, item.host == 3 ? std::uint64_t{item.mode} << 16 : 0, 4);
    put(directory, item.zip64 ? 0xffffffff : header_at, 4);
    directory += item.name + extra;
  }
  const std::uint64_t at = out.size() + static_cast<std::uint64_t>(tail.directory_shift);
  const std::uint64_t count = items.size() + static_cast<std::uint64_t>(tail.extra_count);
  out += directory;
  if (tail.zip64) {
    const std::uint64_t end64 = out.size();
    put(out, 0x06064b50, 4);
    put(out, 44, 8);
    put(out, 45, 4);
    put(out, 0, 8);
    put(out, count, 8);
    put(out, count, 8);
    put(out, directory.size(), 8);
    put(out, at, 8);
    put(out, 0x07064b50, 4);
    put(out, 0, 4);
    put(out, end64, 8);
    put(out, 1, 4);
  }
  put(out, 0x06054b50, 4);
  put(out, tail.disk, 4);
  const bool full = tail.zip64 && !tail.narrow_too;
  put(out, full ? 0xffff : count, 2);
  put(out, full ? 0xffff : count, 2);
  put(out, full ? 0xffffffff : directory.size(), 4);
  put(out, full ? 0xffffffff : at + static_cast<std::uint64_t>(tail.narrow_shift), 4);
  put(out, tail.comment.size(), 2);
  return out + tail.comment;
}

}  // namespace firebreak::wire::zip_test
