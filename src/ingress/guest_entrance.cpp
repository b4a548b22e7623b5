#include "ingress/guest_entrance.h"

namespace firebreak::ingress {

std::optional<Destination> GuestEntrance::find(const core::MicrovmId& microvm) {
  const control::LivePtr vm = live_.find(microvm);
  if (!vm) return std::nullopt;
  return Destination{.microvm = vm->record().id,
                     .tenant = vm->record().tenant,
                     .endpoint = vm->record().endpoint,
                     .memory_mib = vm->record().memory_mib,
                     .hooks = vm->version().hooks};
}

net::Task<Result<session::Guest>> GuestEntrance::enter(core::MicrovmId microvm, Deadline deadline) {
  const control::LivePtr vm = live_.find(microvm);
  if (!vm) co_return fail(Code::not_found, "the microVM has ended");
  co_return co_await guests_.enter(vm->record().tenant, std::move(microvm), deadline);
}

}  // namespace firebreak::ingress
