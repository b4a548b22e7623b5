// What builds print, kept on the host: one text file a build, of bounded size, as long as the
// build's record. Owned by Images; one executor.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/ids.h"
#include "net/broadcast.h"

namespace firebreak::control {

class BuildLog {
 public:
  BuildLog(const net::asio::any_io_executor& executor, std::string directory)
      : directory_(std::move(directory)), changed_(executor) {}

  // Beyond kMost bytes nothing more is kept; the log says so once.
  void append(const core::BuildId& build, std::string_view text);
  // From a position on; empty at the end, and for a build without a log.
  Result<std::string> read(const core::BuildId& build, std::uint64_t position) const;
  void remove(const core::BuildId& build);
  // Removes the logs of all others.
  Result<> keep_only(const std::set<core::BuildId>& builds);
  // Some build's log has grown, or a build has ended.
  net::Broadcast& changed() { return changed_; }

  static constexpr std::uint64_t kMost = std::uint64_t{16} << 20;
  static constexpr std::size_t kPiece = std::size_t{64} << 10;

 private:
  std::string path(const core::BuildId& build) const { return directory_ + "/" + build.str(); }

  std::string directory_;
  net::Broadcast changed_;
  std::map<core::BuildId, std::uint64_t> sizes_;  // of builds of this process
};

}  // namespace firebreak::control
