// Files and directories of a guest, and tar archives both ways. Paths are any bytes but NUL,
// resolved inside the tenant's root. One executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/channel.h"
#include "session/guest.h"

namespace firebreak::session {

struct FileInfo {
  std::string name;  // percent-encoded, as all names that are not plain text
  std::string type;  // file, dir, symlink, fifo, socket, char, block
  std::uint64_t size = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t mtime_ns = 0;
  std::optional<std::string> target;  // of a symlink
};

struct WriteOptions {
  std::optional<std::uint32_t> mode;
  bool append = false;
  std::optional<std::uint64_t> offset;
  std::string user;
  bool parents = false;  // directories on the way are made
};

// Bytes that come out of a guest, piece by piece.
class Download {
 public:
  // `context` bytes in front are for the outlet only; of what follows, `length` bytes are wanted.
  Download(const Guest& guest, std::unique_ptr<net::ChannelStream> stream, Origin origin,
           std::optional<std::uint64_t> size, std::uint64_t context = 0,
           std::optional<std::uint64_t> length = std::nullopt);
  // Empty at the end.
  net::Task<Result<std::string>> next(Deadline deadline);
  // Of the whole file, where the guest said it.
  std::optional<std::uint64_t> size() const { return size_; }

 private:
  const Guest& guest_;
  std::unique_ptr<net::ChannelStream> stream_;
  std::unique_ptr<Flow> flow_;
  std::optional<std::uint64_t> size_;
  std::uint64_t context_;
  std::optional<std::uint64_t> length_;  // still wanted
  bool ended_ = false;
};

// Gives the next bytes that go into a guest; empty at the end.
using Source = std::function<net::Task<Result<std::string>>()>;

net::Task<Result<Download>> read_file(const Guest& guest, std::string path, std::uint64_t offset,
                                      std::optional<std::uint64_t> length, Deadline deadline);
// Without append or offset the file is replaced whole or not at all.
net::Task<Result<>> write_file(const Guest& guest, std::string path, WriteOptions options,
                               Source source, Deadline deadline);
net::Task<Result<FileInfo>> stat_file(const Guest& guest, std::string path, bool follow,
                                      Deadline deadline);
// Each entry of a directory, in no order.
net::Task<Result<>> list_directory(const Guest& guest, std::string path,
                                   std::function<net::Task<Result<>>(FileInfo)> sink,
                                   Deadline deadline);
net::Task<Result<>> make_directory(const Guest& guest, std::string path,
                                   std::optional<std::uint32_t> mode, bool parents,
                                   Deadline deadline);
net::Task<Result<>> remove_file(const Guest& guest, std::string path, bool recursive,
                                Deadline deadline);
net::Task<Result<>> rename_file(const Guest& guest, std::string from, std::string to,
                                Deadline deadline);

// A directory's content, or one file, as a tar archive.
net::Task<Result<Download>> read_archive(const Guest& guest, std::string path, Deadline deadline);
// Unpacks an archive below a directory; entries that lead out are refused.
net::Task<Result<>> write_archive(const Guest& guest, std::string path, Source source,
                                  Deadline deadline);

}  // namespace firebreak::session
