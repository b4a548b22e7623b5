// What a suspended clone is: the pages of its RAM that are no longer the base's, and its device
// state, in one checksummed file. Written at suspend, put back at resume. Blocking functions on a
// stopped QEMU; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::machine {

// Of a device state; far above what QEMU writes.
inline constexpr std::uint64_t kMaxState = 16U << 20;

struct PageRun {
  std::uint64_t offset = 0;  // in guest RAM
  std::uint64_t length = 0;
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

// Where the RAM memfd (by inode) is mapped in the process.
Result<std::uint64_t> find_ram_mapping(pid_t pid, int ram_fd, std::uint64_t size);
// Same from the text of /proc/PID/maps.
Result<std::uint64_t> parse_ram_mapping(std::string_view maps, std::uint64_t inode,
                                        std::uint64_t size);

// Pages copied on write, as runs in order. Uses PAGEMAP_SCAN where the kernel has it (6.7), else
// reads the page map.
Result<std::vector<PageRun>> dirty_runs(pid_t pid, std::uint64_t address, std::uint64_t size);
// The fallback by itself, for the test that compares the two.
Result<std::vector<PageRun>> dirty_runs_by_pagemap(pid_t pid, std::uint64_t address,
                                                   std::uint64_t size);

// Writes runs and device state into a new file; not yet synced (the caller overlaps that).
Result<UniqueFd> write_saved(const std::string& path, pid_t pid, std::uint64_t address,
                             std::uint64_t ram_size, const std::string& base_sha256,
                             const std::vector<PageRun>& runs, std::string_view state);

// A file as found on disk, without the pages.
struct SavedMemory {
  std::uint64_t ram_size = 0;
  std::string base_sha256;
  std::vector<PageRun> runs;
  std::string state;
  std::uint64_t pages_offset = 0;
  std::string checksum;  // over runs, state and pages
};
// Reads and checks structure and bounds; Code::corrupt otherwise. The pages are checked by
// apply_saved.
Result<SavedMemory> read_saved(int fd);
// The pure part of it: everything before the pages.
Result<SavedMemory> parse_saved(std::string_view bytes, std::uint64_t file_size);
// Puts the pages into the process. Code::corrupt if the checksum does not match (the machine must
// then be killed).
Result<> apply_saved(int fd, const SavedMemory& saved, pid_t pid, std::uint64_t address);

}  // namespace firebreak::machine
