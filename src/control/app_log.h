// What applications printed, kept on the host so that it can be read while a microVM is suspended
// and after it has ended: one file of frames per microVM, of bounded size. Owned by Services; one
// executor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/ids.h"
#include "net/broadcast.h"
#include "wire/frames.h"

namespace firebreak::control {

class AppLog {
 public:
  AppLog(const net::asio::any_io_executor& executor, std::string directory)
      : directory_(std::move(directory)), changed_(executor) {}

  // Beyond kMost bytes nothing more is kept; a gap frame says so once.
  Result<> append(const core::MicrovmId& id, wire::FrameType type, std::string_view bytes);
  // Bytes of the file from a position on, whole frames or not; empty at the end.
  Result<std::string> read(const core::MicrovmId& id, std::uint64_t position) const;
  // When it was printed, to the second: positions in the file, in order; what follows one was
  // printed from its time on.
  struct Mark {
    std::uint64_t position = 0;
    core::Time at{};
  };
  Result<std::vector<Mark>> marks(const core::MicrovmId& id) const;
  // How many bytes of output the file accounts for: where to go on after a restart.
  std::uint64_t offset(const core::MicrovmId& id) const;
  // Somebody's log has grown.
  net::Broadcast& changed() { return changed_; }
  // Removes the logs of all others.
  void keep_only(const std::function<bool(const core::MicrovmId&)>& known);

  // Whose log a file of the directory is part of.
  static core::MicrovmId owner_of(const std::string& file);

  static constexpr std::uint64_t kMost = 8UL << 20;

 private:
  std::string path(const core::MicrovmId& id) const { return directory_ + "/" + id.str(); }
  Result<> mark(const core::MicrovmId& id, std::uint64_t position);

  std::string directory_;
  net::Broadcast changed_;
  std::set<core::MicrovmId> full_;
  std::map<core::MicrovmId, core::Time> marked_;  // when the last mark was set
};

}  // namespace firebreak::control
