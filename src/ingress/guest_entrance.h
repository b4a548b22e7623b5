// The proxy's way to the server's microVMs. Owned by the program; one executor.
#pragma once

#include "ingress/entrance.h"

namespace firebreak::ingress {

class GuestEntrance final : public Entrance {
 public:
  GuestEntrance(const control::LiveMicrovms& live, session::Guests& guests)
      : live_(live), guests_(guests) {}
  std::optional<Destination> find(const core::MicrovmId& microvm) override;
  net::Task<Result<session::Guest>> enter(core::MicrovmId microvm, Deadline deadline) override;

 private:
  const control::LiveMicrovms& live_;
  session::Guests& guests_;
};

}  // namespace firebreak::ingress
