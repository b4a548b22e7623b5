// Who makes room when a listener is full: the connections on which nobody has shown who they are.
// Owned by the listener and its connections together; one executor.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace firebreak::net {

// The places of strangers, the one that has been here longest first.
class Strangers {
 public:
  // Of one connection; the connection owns it. A new one is a stranger's.
  class Place {
   public:
    explicit Place(std::shared_ptr<Strangers> all) : all_(std::move(all)) { enter(); }
    ~Place() { leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    void enter() {
      if (std::exchange(listed_, true)) return;
      at_ = all_->places_.insert(all_->places_.end(), this);
    }
    void leave() {
      if (std::exchange(listed_, false)) all_->places_.erase(at_);
    }

    bool needed() const { return all_->room_wanted; }

    // What ends the connection.
    std::function<void()> cut;

   private:
    friend class Strangers;
    const std::shared_ptr<Strangers> all_;
    std::list<Place*>::iterator at_;
    bool listed_ = false;
  };

  // Ends the connection that has been a stranger's longest. False: there is none.
  bool cut_oldest() {
    if (places_.empty()) return false;
    Place* oldest = places_.front();
    oldest->leave();
    oldest->cut();
    return true;
  }

  bool room_wanted = false;  // somebody waits, and all are known

 private:
  std::list<Place*> places_;
};

// What the requests of one connection have shown about who asks. The connection owns it.
class Standing {
 public:
  explicit Standing(std::shared_ptr<Strangers::Place> place) : place_(std::move(place)) {}

  // A request whose sender is known; it counts as open until the visit ends.
  class Visit {
   public:
    explicit Visit(Standing& standing) : standing_(standing) {
      ++standing_.visits_;
      standing_.place_->leave();
      standing_.known_ = true;
    }
    ~Visit() { --standing_.visits_; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Standing& standing_;
  };

  // A request was refused because nobody knows its sender. True: the connection should end with the
  // answer, because it is nobody's. One that was somebody's makes room from now on, unless a
  // request of somebody known is open.
  bool refuse() {
    if (!known_) return true;
    if (visits_ > 0) return false;
    known_ = false;
    place_->enter();
    return place_->needed();
  }

 private:
  std::shared_ptr<Strangers::Place> place_;
  std::size_t visits_ = 0;
  bool known_ = false;
};

}  // namespace firebreak::net
