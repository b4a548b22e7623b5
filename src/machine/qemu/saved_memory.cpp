#include "machine/qemu/saved_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <span>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <xxhash.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kChunk = 4 << 20;
constexpr std::string_view kMagic = "FBSAVED1";
constexpr std::size_t kShaBytes = 64;  // hex
constexpr std::size_t kSumBytes = 16;
// magic, ram size, run count, state length, base hash, checksum
constexpr std::size_t kFixed = 8 + 8 + 8 + 8 + kShaBytes + kSumBytes;
constexpr std::uint64_t kMaxRuns = 16U << 20;

void append_run(std::vector<PageRun>& runs, std::uint64_t offset, std::uint64_t length) {
  if (!runs.empty() && runs.back().offset + runs.back().length == offset) {
    runs.back().length += length;
  } else {
    runs.push_back({offset, length});
  }
}

// From linux/fs.h of 6.7; Debian 12's headers are older than the ioctl.
struct PageRegion {
  std::uint64_t start, end, categories;
};
struct PmScanArg {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted,
      category_mask, category_anyof_mask, return_mask;
};
constexpr std::uint64_t kPageIsFile = 1 << 2;
constexpr std::uint64_t kPageIsPresent = 1 << 3;
constexpr std::uint64_t kPageIsSwapped = 1 << 4;
constexpr std::uint64_t kPageIsZero = 1 << 5;  // only read so far, where the base has a hole

Result<std::vector<PageRun>> dirty_runs_by_scan(int pagemap, std::uint64_t address,
                                                std::uint64_t size) {
  std::vector<PageRun> runs;
  std::vector<PageRegion> regions(4096);
  PmScanArg arg{};
  arg.size = sizeof arg;
  arg.start = address;
  arg.end = address + size;
  arg.vec = reinterpret_cast<std::uint64_t>(regions.data());
  arg.vec_len = regions.size();
  arg.category_inverted = kPageIsFile | kPageIsZero;
  arg.category_mask = kPageIsFile | kPageIsZero;
  arg.category_anyof_mask = kPageIsPresent | kPageIsSwapped;
  arg.return_mask = kPageIsPresent;
  while (arg.start < arg.end) {
    const int n = ::ioctl(pagemap, _IOWR('f', 16, PmScanArg), &arg);
    if (n < 0) return fail_errno("PAGEMAP_SCAN");
    for (int i = 0; i < n; ++i)
      append_run(
          runs, regions[static_cast<std::size_t>(i)].start - address,
          regions[static_cast<std::size_t>(i)].end - regions[static_cast<std::size_t>(i)].start);
    // The kernel's walk_end can lie before regions it has reported already (when they fill the
    // vector exactly at the end of the range); these must not be taken twice.
    const std::uint64_t reported = n > 0 ? regions[static_cast<std::size_t>(n) - 1].end : 0;
    const std::uint64_t next = std::max(arg.walk_end, reported);
    if (next <= arg.start) break;
    arg.start = next;
  }
  return runs;
}

Result<std::vector<PageRun>> runs_from_pagemap(int pagemap, std::uint64_t address,
                                               std::uint64_t size) {
  constexpr std::uint64_t kPresent = 1ULL << 63;
  constexpr std::uint64_t kSwapped = 1ULL << 62;
  constexpr std::uint64_t kFileOrShared = 1ULL << 61;
  std::vector<PageRun> runs;
  std::vector<std::uint64_t> entries(64 * 1024);
  for (std::uint64_t page = 0; page < size / kPage; page += entries.size()) {
    const std::size_t n = std::min<std::uint64_t>(entries.size(), size / kPage - page);
    FB_TRY(sys::pread_all(pagemap, std::as_writable_bytes(std::span(entries).first(n)),
                          (address / kPage + page) * 8));
    for (std::size_t i = 0; i < n; ++i)
      if ((entries[i] & (kPresent | kSwapped)) != 0 && (entries[i] & kFileOrShared) == 0)
        append_run(runs, (page + i) * kPage, kPage);
  }
  return runs;
}

std::uint64_t total_length(const std::vector<PageRun>& runs) {
  std::uint64_t total = 0;
  for (const PageRun& run : runs) total += run.length;
  return total;
}

std::unexpected<Error> damaged(std::string why) {
  return fail(Code::corrupt, "the saved memory is damaged", std::move(why));
}

std::unexpected<Error> fail_guest_ram(std::string_view doing) {
  if (errno == ESRCH)
    return fail(Code::unavailable, "the virtual machine ended", std::string(doing));
  return fail_errno(doing);
}

std::string table_of(const std::vector<PageRun>& runs) {
  std::string table;
  table.reserve(runs.size() * 16);
  for (const PageRun& run : runs) {
    put_u64(table, run.offset);
    put_u64(table, run.length);
  }
  return table;
}

std::uint64_t align(std::uint64_t offset) {
  return (offset + kPage - 1) / kPage * kPage;
}

std::size_t chunk_for(const std::vector<PageRun>& runs) {
  return std::min<std::uint64_t>(kChunk, std::max<std::uint64_t>(total_length(runs), kPage));
}

// Walks the runs in pieces of a bounded number of bytes and ranges.
class RunCursor {
 public:
  RunCursor(const std::vector<PageRun>& runs, std::uint64_t address)
      : runs_(runs), address_(address) {}

  // The next at most `limit` bytes as remote ranges; empty at the end.
  std::vector<iovec> next(std::size_t limit) {
    std::vector<iovec> out;
    while (index_ < runs_.size() && limit > 0 && out.size() < kMaxRanges) {
      const PageRun& run = runs_[index_];
      const std::size_t n = std::min<std::uint64_t>(limit, run.length - within_);
      out.push_back({reinterpret_cast<void*>(address_ + run.offset + within_), n});
      limit -= n;
      within_ += n;
      if (within_ == run.length) {
        ++index_;
        within_ = 0;
      }
    }
    return out;
  }

 private:
  static constexpr std::size_t kMaxRanges = 1024;  // the kernel's limit for one call
  const std::vector<PageRun>& runs_;
  std::uint64_t address_;
  std::size_t index_ = 0;
  std::uint64_t within_ = 0;
};

std::size_t bytes_of(const std::vector<iovec>& ranges) {
  std::size_t n = 0;
  for (const iovec& range : ranges) n += range.iov_len;
  return n;
}

std::string digest_of(XXH3_state_t* state) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  return {reinterpret_cast<const char*>(canonical.digest), kSumBytes};
}

struct XxhState {
  XXH3_state_t* state = XXH3_createState();
  XxhState() { XXH3_128bits_reset(state); }
  XxhState(const XxhState&) = delete;
  XxhState& operator=(const XxhState&) = delete;
  ~XxhState() { XXH3_freeState(state); }
};

// A line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t inode = 0;   // 0: no file
};

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Mapping> parse_mapping(std::string_view line) {
  // start-end perms offset dev inode path
  std::array<std::string_view, 5> fields;
  for (std::string_view& field : fields) {
    const auto from = line.find_first_not_of(' ');
    if (from == std::string_view::npos) return std::nullopt;
    line.remove_prefix(from);
    const auto to = line.find(' ');
    field = line.substr(0, to);
    line.remove_prefix(to == std::string_view::npos ? line.size() : to);
  }
  const auto dash = fields[0].find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto start = parse_hex(fields[0].substr(0, dash));
  const auto end = parse_hex(fields[0].substr(dash + 1));
  const auto offset = parse_hex(fields[2]);
  const auto inode = parse_u64(fields[4]);
  if (!start || !end || !offset || !inode || *end <= *start) return std::nullopt;
  return Mapping{.start = *start, .end = *end, .offset = *offset, .inode = *inode};
}

// More than one only if QEMU was taken over.
constexpr std::size_t kMaxStarts = 16;

// Whether the file is mapped there as a whole: pieces of it, with memory of the process's own over
// its holes, follow each other without a gap.
bool covers(const std::vector<Mapping>& mappings, std::uint64_t start, std::uint64_t size,
            std::uint64_t inode) {
  std::uint64_t at = start;
  for (const Mapping& mapping : mappings) {
    if (mapping.end <= at || mapping.start > at) continue;
    const bool piece = mapping.inode == inode && mapping.start - mapping.offset == start;
    if (!piece && mapping.inode != 0) return false;
    at = mapping.end;
    // QEMU keeps a page that nobody may touch behind it.
    if (at - start >= size) return at - start == size || !piece;
  }
  return false;
}

}  // namespace

Result<std::uint64_t> parse_ram_mapping(std::string_view maps, std::uint64_t inode,
                                        std::uint64_t size) {
  std::vector<Mapping> mappings;
  std::vector<std::uint64_t> starts;
  for (const std::string_view line : split(maps, '\n')) {
    const auto mapping = parse_mapping(line);
    if (!mapping) continue;
    mappings.push_back(*mapping);
    if (mapping->inode != inode || mapping->start < mapping->offset) continue;
    const std::uint64_t start = mapping->start - mapping->offset;
    if (starts.size() < kMaxStarts && std::ranges::find(starts, start) == starts.end())
      starts.push_back(start);
  }
  for (const std::uint64_t start : starts)
    if (covers(mappings, start, size, inode)) return start;
  return fail(Code::internal, "the guest's RAM is not mapped as expected");
}

Result<std::uint64_t> find_ram_mapping(pid_t pid, int ram_fd, std::uint64_t size) {
  struct stat st{};
  if (::fstat(ram_fd, &st) != 0) return fail_errno("fstat of guest RAM");
  FB_TRY_ASSIGN(const std::string maps,
                sys::read_file("/proc/" + std::to_string(pid) + "/maps", 4 << 20));
  if (maps.empty()) return fail(Code::unavailable, "the virtual machine ended");  // not yet reaped
  return parse_ram_mapping(maps, st.st_ino, size);
}

Result<std::vector<PageRun>> dirty_runs(pid_t pid, std::uint64_t address, std::uint64_t size) {
  FB_TRY_ASSIGN(UniqueFd pagemap, sys::open("/proc/" + std::to_string(pid) + "/pagemap", O_RDONLY));
  auto runs = dirty_runs_by_scan(pagemap.get(), address, size);
  if (runs) return runs;
  return runs_from_pagemap(pagemap.get(), address, size);
}

Result<std::vector<PageRun>> dirty_runs_by_pagemap(pid_t pid, std::uint64_t address,
                                                   std::uint64_t size) {
  FB_TRY_ASSIGN(UniqueFd pagemap, sys::open("/proc/" + std::to_string(pid) + "/pagemap", O_RDONLY));
  return runs_from_pagemap(pagemap.get(), address, size);
}

Result<UniqueFd> write_saved(const std::string& path, pid_t pid, std::uint64_t address,
                             std::uint64_t ram_size, const std::string& base_sha256,
                             const std::vector<PageRun>& runs, std::string_view state) {
  FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
  std::string head = table_of(runs);
  head += state;
  const std::uint64_t pages_offset = align(kFixed + head.size());

  XxhState sum;
  XXH3_128bits_update(sum.state, head.data(), head.size());
  std::vector<std::byte> buffer(chunk_for(runs));
  RunCursor cursor(runs, address);
  std::uint64_t at = pages_offset;
  for (auto ranges = cursor.next(buffer.size()); !ranges.empty();
       ranges = cursor.next(buffer.size())) {
    const std::size_t n = bytes_of(ranges);
    const iovec local{buffer.data(), n};
    if (::process_vm_readv(pid, &local, 1, ranges.data(), ranges.size(), 0) !=
        static_cast<ssize_t>(n))
      return fail_guest_ram("reading guest RAM");
    XXH3_128bits_update(sum.state, buffer.data(), n);
    FB_TRY(sys::pwrite_all(file.get(), std::span(buffer).first(n), at));
    at += n;
  }

  std::string fixed(kMagic);
  put_u64(fixed, ram_size);
  put_u64(fixed, runs.size());
  put_u64(fixed, state.size());
  fixed += base_sha256;
  fixed.resize(kFixed - kSumBytes);
  fixed += digest_of(sum.state);
  FB_TRY(sys::pwrite_all(file.get(), std::as_bytes(std::span(fixed)), 0));
  FB_TRY(sys::pwrite_all(file.get(), std::as_bytes(std::span(head)), kFixed));
  return file;
}

Result<SavedMemory> parse_saved(std::string_view bytes, std::uint64_t file_size) {
  if (bytes.size() < kFixed || !bytes.starts_with(kMagic)) return damaged("no header");
  SavedMemory saved;
  saved.ram_size = get_u64(bytes.data() + 8);
  const std::uint64_t count = get_u64(bytes.data() + 16);
  const std::uint64_t state_length = get_u64(bytes.data() + 24);
  saved.base_sha256 = bytes.substr(32, kShaBytes);
  saved.checksum = bytes.substr(32 + kShaBytes, kSumBytes);
  if (count > kMaxRuns || state_length > kMaxState ||
      bytes.size() - kFixed < count * 16 + state_length)
    return damaged("it is cut");
  std::uint64_t last_end = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* at = bytes.data() + kFixed + i * 16;
    const PageRun run{get_u64(at), get_u64(at + 8)};
    if (run.length == 0 || run.offset % kPage != 0 || run.length % kPage != 0 ||
        run.offset < last_end || run.offset > saved.ram_size ||
        run.length > saved.ram_size - run.offset)
      return damaged("a run is out of bounds");
    last_end = run.offset + run.length;
    saved.runs.push_back(run);
  }
  saved.state = bytes.substr(kFixed + count * 16, state_length);
  saved.pages_offset = align(kFixed + count * 16 + state_length);
  if (count > 0 && file_size != saved.pages_offset + total_length(saved.runs))
    return damaged("the pages are cut");
  return saved;
}

Result<SavedMemory> read_saved(int fd) {
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(fd));
  if (size < kFixed) return damaged("shorter than its header");
  std::string bytes(kFixed, '\0');
  FB_TRY(sys::pread_all(fd, std::as_writable_bytes(std::span(bytes)), 0));
  const std::uint64_t count = get_u64(bytes.data() + 16);
  const std::uint64_t state_length = get_u64(bytes.data() + 24);
  if (count > kMaxRuns || state_length > kMaxState || size - kFixed < count * 16 + state_length)
    return damaged("it is cut");
  bytes.resize(kFixed + count * 16 + state_length);
  FB_TRY(sys::pread_all(fd, std::as_writable_bytes(std::span(bytes)), 0));
  return parse_saved(bytes, size);
}

Result<> apply_saved(int fd, const SavedMemory& saved, pid_t pid, std::uint64_t address) {
  XxhState sum;
  const std::string head = table_of(saved.runs) + saved.state;
  XXH3_128bits_update(sum.state, head.data(), head.size());
  std::vector<std::byte> buffer(chunk_for(saved.runs));
  RunCursor cursor(saved.runs, address);
  std::uint64_t at = saved.pages_offset;
  for (auto ranges = cursor.next(buffer.size()); !ranges.empty();
       ranges = cursor.next(buffer.size())) {
    const std::size_t n = bytes_of(ranges);
    FB_TRY(sys::pread_all(fd, std::span(buffer).first(n), at));
    XXH3_128bits_update(sum.state, buffer.data(), n);
    const iovec local{buffer.data(), n};
    if (::process_vm_writev(pid, &local, 1, ranges.data(), ranges.size(), 0) !=
        static_cast<ssize_t>(n))
      return fail_guest_ram("writing guest RAM");
    at += n;
  }
  if (digest_of(sum.state) != saved.checksum) return damaged("checksum of the content");
  return {};
}

}  // namespace firebreak::machine
