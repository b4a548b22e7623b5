#include "image/builder.h"

namespace firebreak::image {

net::Task<Result<CheckedLayer>> Builder::check(const LayerStep& step, Deadline deadline) {
  LayerBlobs& blobs = *order_.bases.at(step.image).blobs;
  FB_CO_TRY_ASSIGN(FileSpan blob, co_await blobs.open(step.layer.digest, deadline));
  auto work = [&] { return check_layer(std::move(blob), step.layer, {}, deadline); };
  FB_CO_TRY_ASSIGN(CheckedLayer layer, co_await net::run_blocking(pool_, work));
  if (layer.devices > 0)
    say("    note: device nodes left out, as /dev is the guest's own: " +
        std::to_string(layer.devices));
  co_return layer;
}

net::Task<Result<>> Builder::act(BuildMachine& machine, const LayerStep&, const StepInput& input,
                                 Deadline deadline) {
  FB_CO_TRY_ASSIGN(GuestArchive archive, GuestArchive::open_layer(machine.agent()));
  LayerStream stream(input.layer);
  auto next = [&stream] { return stream.next(); };
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await net::run_blocking(pool_, next));
    if (bytes.empty()) break;
    FB_CO_TRY(co_await archive.write(bytes, deadline));
  }
  co_return co_await archive.finish_packed(deadline);
}

}  // namespace firebreak::image
