// Any bytes: the reader gives the same events for every chunking, and what it read is written and
// read back alike.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "wire/tar.h"

namespace {

using firebreak::Result;
using firebreak::wire::TarEntry;
using firebreak::wire::TarReader;
using firebreak::wire::TarType;
using firebreak::wire::TarWriter;

struct Read {
  TarEntry entry;
  std::string data;
  bool ended = false;
  friend bool operator==(const Read&, const Read&) = default;
};

class Collector : public TarReader::Sink {
 public:
  Result<> on_entry(const TarEntry& entry) override {
    reads.push_back({.entry = entry});
    return {};
  }
  Result<> on_data(std::string_view bytes) override {
    reads.back().data += bytes;
    return {};
  }
  Result<> on_entry_end() override {
    if (reads.back().ended || reads.back().data.size() != reads.back().entry.size) std::abort();
    reads.back().ended = true;
    return {};
  }
  std::vector<Read> reads;
};

bool read(std::string_view archive, std::size_t chunk, std::vector<Read>& out) {
  Collector sink;
  TarReader reader(sink);
  bool good = true;
  for (std::size_t at = 0; good && at < archive.size(); at += chunk)
    good = reader.feed(archive.substr(at, chunk)).has_value();
  good = reader.finish().has_value() && good;
  out = std::move(sink.reads);
  return good;
}

// A fuzzer does not guess checksums; this makes every block of the input pass as a header.
std::string with_checksums(std::string_view archive) {
  std::string out(archive);
  for (std::size_t at = 0; at + 512 <= out.size(); at += 512) {
    out.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = at; i < at + 512; ++i) sum += static_cast<unsigned char>(out[i]);
    for (std::size_t digit = 6; digit-- > 0; sum >>= 3)
      out[at + 148 + digit] = static_cast<char>('0' + (sum & 7));
  }
  return out;
}

void check(std::string_view archive) {
  std::vector<Read> whole;
  std::vector<Read> pieces;
  const bool good = read(archive, archive.size() + 1, whole);
  if (read(archive, 1 + archive.size() % 97, pieces) != good || whole != pieces) std::abort();

  TarWriter writer;
  std::string again;
  std::erase_if(whole, [](const Read& r) { return !r.ended || r.entry.type == TarType::device; });
  for (const Read& item : whole) {
    if (!writer.begin_entry(item.entry, again)) return;
    again += item.data;
    writer.end_entry(again);
  }
  TarWriter::finish(again);
  if (!read(again, again.size(), pieces) || pieces != whole) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view archive(reinterpret_cast<const char*>(data), size);
  check(archive);
  check(with_checksums(archive));
  return 0;
}
