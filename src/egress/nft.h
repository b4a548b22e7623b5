// Runs nftables commands through libnftables inside a network namespace. Each command has a thread
// of its own that enters the namespace and ends there, because the library opens its netlink socket
// when a context is made and may open it again in the middle of a command: no other thread, and
// above all not the host's namespace, can be hit. Blocks; any thread but the event loop's.
#pragma once

#include <string>
#include <thread>

#include "base/result.h"

namespace firebreak::egress {

// Of one namespace. One owner, who calls one after the other. The library keeps state of its own
// between contexts, so commands of all runners wait for each other.
class NftRunner {
 public:
  explicit NftRunner(int netns) : netns_(netns) {}  // the owner keeps it open
  NftRunner(const NftRunner&) = delete;
  NftRunner& operator=(const NftRunner&) = delete;
  ~NftRunner() { settle(); }

  // One transaction: all of the script or nothing.
  Result<> run(const std::string& script);
  // The output of a listing, as the library's JSON.
  Result<std::string> list(const std::string& command);

 private:
  Result<std::string> execute(const std::string& commands, unsigned output_flags);
  void settle();

  const int netns_;
  // After a change of rules, closing the socket waits until no packet uses the old ones: some 10 ms
  // that nobody else needs to wait for. Joined before the next command.
  std::thread last_;
};

}  // namespace firebreak::egress
