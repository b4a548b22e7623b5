// A server that runs only while somebody uses it: started by the first of those who share its data
// directory, stopped by the last. Owned by a command; one thread.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "client.h"

namespace firebreak::cli {

class StandaloneServer {
 public:
  // Starts one on the directory, or joins the one that runs there. Returns when it answers.
  static Result<StandaloneServer> join(const std::string& data_dir,
                                       const std::vector<std::string>& options);
  Result<Connection> connection() const;
  // The last one ends its microVMs and the server; who is not the last changes nothing.
  Result<> leave();

 private:
  StandaloneServer(std::string data_dir, UniqueFd lock)
      : data_dir_(std::move(data_dir)), lock_(std::move(lock)) {}
  Result<> stop();

  std::string data_dir_;
  UniqueFd lock_;  // shared while it is used, exclusive while it starts or stops
};

}  // namespace firebreak::cli
