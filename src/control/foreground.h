// How many launches and resumes are under way: the pool makes clones only while there are none.
// Owned by the Supervisor; one executor.
#pragma once

namespace firebreak::control {

class ForegroundWork {
 public:
  bool any() const { return count_ > 0; }
  int count() const { return count_; }

 private:
  friend class Foreground;
  int count_ = 0;
};

// Counts as one while it lives: held in everything that a user waits for.
class Foreground {
 public:
  explicit Foreground(ForegroundWork& work) : work_(work) { ++work_.count_; }
  ~Foreground() { --work_.count_; }
  Foreground(const Foreground&) = delete;
  Foreground& operator=(const Foreground&) = delete;

 private:
  ForegroundWork& work_;
};

}  // namespace firebreak::control
