// What the tenant is told about itself at 169.254.169.254: the microVM's id, and credentials of its
// role while it has one; and the tokens that a reader needs. Owned by the agent; set by the ctl
// thread, read by the metadata thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace firebreak::guest {

class Metadata {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLongestToken{21600};
  static constexpr std::size_t kMaxTokens = 1024;

  struct Values {
    std::string instance_id;
    std::string region;  // empty: not told by an older host
    std::string account;
    std::string role;         // name under which the credentials are found; empty: there are none
    std::string credentials;  // JSON, as the tenant gets it
  };
  static Result<Values> parse(const json::object& body);

  Metadata() = default;
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;
  ~Metadata() { wipe_credentials(); }

  // Tokens that were given out for another microVM end.
  void set(Values values);
  // Wipes the credentials before the memory is saved, and lets readers wait until release().
  void hold();
  void release();
  // Waits while held: what was asked before a freeze is answered after it.
  Values values();

  std::string issue_token(std::chrono::seconds life, Clock::time_point now);
  bool accepts(std::string_view token, Clock::time_point now);

 private:
  static void wipe(std::string& text);
  void wipe_credentials();

  std::mutex mutex_;
  std::condition_variable released_;
  bool held_ = false;                                             // guarded by mutex_
  Values values_;                                                 // guarded by mutex_
  std::map<std::string, Clock::time_point, std::less<>> tokens_;  // to their end; mutex_
};

}  // namespace firebreak::guest
