// A few threads for blocking file work, so that a slow disk never holds up execs. Jobs are short
// steps: no job waits for a peer. Owned by the data side; submit() from the data thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace firebreak::guest {

class Workers {
 public:
  explicit Workers(std::size_t threads = 2);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  void submit(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace firebreak::guest
