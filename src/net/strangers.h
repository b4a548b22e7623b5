// Which connections make room when a listener is full: those without a known caller, the strangers.
// Owned by the listener and its connections together; one executor.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace firebreak::net {

// The connections of strangers, the oldest first.
class Strangers {
 public:
  // One connection's place in the list; the connection owns it. A new connection is a stranger's.
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

  // Ends the oldest connection of a stranger. False: there is none.
  bool cut_oldest() {
    if (places_.empty()) return false;
    Place* oldest = places_.front();
    oldest->leave();
    oldest->cut();
    return true;
  }

  bool room_wanted = false;  // a connection waits, and there is no stranger

 private:
  std::list<Place*> places_;
};

// Whether the caller on one connection is known, by its requests so far. The connection owns it.
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

  // A request was refused because its sender is unknown. True: the connection should end with the
  // answer. A connection whose caller was known becomes a stranger's, unless a request of a known
  // caller is still open on it.
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
