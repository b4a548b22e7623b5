// The network card. It is in the tenant's network namespace while the microVM may reach anything;
// otherwise it stays outside, and the tenant sees only its loopback. Addresses are the same in
// every microVM. Made on the data thread, used on the ctl thread afterwards.
#pragma once

#include "base/fd.h"
#include "base/links.h"
#include "base/result.h"
#include "guest/metadata_listener.h"

namespace firebreak::guest {

class Card {
 public:
  // Moves the calling thread into a new network namespace, which becomes the tenant's.
  static Result<Card> enter_new_namespace();

  // Into the tenant's namespace or out of it; nothing to do when it is there already. A machine
  // without a card has nothing to give: not_found.
  Result<> give();
  Result<> take();
  // In the tenant's namespace; the calling thread is inside.
  Result<MetadataListener> open_metadata() const {
    return MetadataListener::open(tenant_.netns.get(), tenant_.links);
  }

 private:
  struct Side {
    UniqueFd netns;
    Links links;
  };
  static Result<Side> here();
  Card(Side outside, Side tenant) : outside_(std::move(outside)), tenant_(std::move(tenant)) {}

  Side outside_;
  Side tenant_;
  bool given_ = false;
};

}  // namespace firebreak::guest
