// Runs skopeo, the program that speaks with registries, without our rights and with an end. Owned
// by the BaseFinder; one executor.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "machine/process.h"
#include "net/task.h"

namespace firebreak::control {

// The programs that a build has started. Cancelling the build ends them. One executor.
class BuildTools {
 public:
  BuildTools() = default;
  BuildTools(const BuildTools&) = delete;
  BuildTools& operator=(const BuildTools&) = delete;
  ~BuildTools() = default;

  bool stopped() const { return stopped_; }
  // No further one may begin.
  void stop();

 private:
  friend class Skopeo;
  bool stopped_ = false;
  std::set<const machine::JailedProcess*> running_;
};

struct SkopeoSettings {
  std::string directory;  // for outputs
  uid_t uid = 0;          // it runs as
};

class Skopeo {
 public:
  Skopeo(net::asio::any_io_executor executor, net::asio::thread_pool& pool, SkopeoSettings settings)
      : executor_(std::move(executor)), pool_(pool), settings_(std::move(settings)) {}

  static bool installed();

  struct Call {
    std::vector<std::string> arguments;
    std::string directory;         // where it starts, and all that it can write
    std::uint64_t file_bytes = 0;  // of each file that it writes
    std::shared_ptr<BuildTools> tools;
  };
  // Its standard output. Code::unavailable when it fails, with what it said last; all that it said
  // is in the detail.
  net::Task<Result<std::string>> run(Call call, Deadline deadline);

 private:
  net::Task<bool> ended(const machine::JailedProcess& process, Deadline deadline);

  net::asio::any_io_executor executor_;
  net::asio::thread_pool& pool_;
  SkopeoSettings settings_;
};

}  // namespace firebreak::control
