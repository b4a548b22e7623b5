// Tar archives, sans-I/O: the writer makes ustar with pax records where needed, the reader takes
// V7, ustar, pax and GNU. Each object belongs to one transfer; single thread. Memory is bounded
// whatever sizes an archive claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::wire {

enum class TarType { file, dir, symlink, hardlink, fifo, device };

struct TarEntry {
  std::string path;  // any bytes but NUL; no trailing '/', also for directories
  TarType type = TarType::file;
  std::uint32_t mode = 0644;  // permission bits, 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;  // bytes of content; 0 for all but files
  std::int64_t mtime_ns = 0;
  std::string link_target;  // of a symlink or hardlink
  friend bool operator==(const TarEntry&, const TarEntry&) = default;
};

inline constexpr std::size_t kTarBlock = 512;
// A pax header or a GNU long name above this is refused by the reader and not made by the writer.
inline constexpr std::size_t kMaxTarRecord = std::size_t{64} * 1024;

class TarWriter {
 public:
  // Appends the headers of an entry. The caller then sends exactly entry.size bytes of content and
  // calls end_entry().
  Result<> begin_entry(const TarEntry& entry, std::string& out);
  void end_entry(std::string& out);      // pads the content to a whole block
  static void finish(std::string& out);  // marks the end of the archive

 private:
  std::uint64_t size_ = 0;  // of the entry being written
};

class TarReader {
 public:
  // An error returned by the sink ends the reading and is what feed() returns.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Result<> on_entry(const TarEntry& entry) = 0;
    virtual Result<> on_data(std::string_view bytes) = 0;  // in total entry.size bytes
    virtual Result<> on_entry_end() = 0;
  };

  explicit TarReader(Sink& sink) : sink_(sink) {}

  // Code::invalid with the byte offset for what is not a tar archive. After an error the reader
  // stays failed.
  Result<> feed(std::string_view bytes);
  // No more bytes will come: Code::invalid if the archive stops inside an entry. A missing end mark
  // is accepted.
  Result<> finish();
  // Bytes taken so far: in on_entry() where the content begins.
  std::uint64_t offset() const { return offset_; }

 private:
  enum class State { header, record, content, skip, padding, ended };
  // What pax and GNU headers say in place of the fields of the next ustar header.
  struct Overrides {
    std::optional<std::string> path;
    std::optional<std::string> link;
    std::optional<std::uint64_t> size;
    std::optional<std::uint64_t> uid;
    std::optional<std::uint64_t> gid;
    std::optional<std::int64_t> mtime_ns;
  };

  Result<> step(std::string_view& bytes);
  Result<> take_header();
  Result<> take_record();
  Result<> take_pax(Overrides& into);
  Result<> set_pax(Overrides& into, std::string_view key, std::string_view value);
  Result<> begin_body(State state, std::uint64_t size);
  Result<> end_body();
  Result<> take_entry(char type, std::uint64_t stored_size);
  Result<TarEntry> parse_entry(char type) const;
  Result<std::uint32_t> parse_id(std::size_t at, std::string_view what,
                                 const std::optional<std::uint64_t>& local,
                                 const std::optional<std::uint64_t>& global) const;
  std::unexpected<Error> bad(std::string_view what) const;

  Sink& sink_;
  State state_ = State::header;
  std::string block_;   // the header being collected
  std::string record_;  // the pax or long name payload being collected
  char record_type_ = 0;
  std::uint64_t remaining_ = 0;  // of the current body
  std::size_t padding_ = 0;      // after the current body
  std::uint64_t offset_ = 0;     // bytes taken so far
  std::uint64_t header_at_ = 0;  // offset of the current header
  bool zero_block_ = false;      // the last header was all zero
  bool extended_ = false;        // a pax or GNU header waits for its entry
  Overrides global_, local_, gnu_;
  std::optional<Error> failed_;
};

}  // namespace firebreak::wire
