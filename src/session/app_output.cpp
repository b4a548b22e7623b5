#include "session/app_output.h"

#include <chrono>

#include "base/text.h"
#include "wire/frames.h"

namespace firebreak::session {
namespace {

// What the application printed before the host began to listen arrives a moment after the start.
constexpr auto kFresh = std::chrono::seconds(5);
constexpr auto kFirstLine = std::chrono::seconds(1);

std::optional<AppEvent> event_of(wire::Frame frame) {
  switch (frame.type) {
    case wire::FrameType::out:
      return Chunk{Stream::out, std::move(frame.payload)};
    case wire::FrameType::err:
      return Chunk{Stream::err, std::move(frame.payload)};
    case wire::FrameType::gap:
      if (frame.payload.size() == 8) return Gap{get_u64(frame.payload.data())};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool just_started(control::Supervisor& supervisor, const core::Microvm& microvm) {
  const auto vm = supervisor.live().find(microvm.id);
  return vm != nullptr && core::has_application(vm->version()) &&
         microvm.state == core::MicrovmState::running &&
         supervisor.services().clock.now() - microvm.state_since < kFresh;
}

}  // namespace

net::Task<Result<>> read_app_output(control::Supervisor& supervisor, core::TenantId tenant,
                                    core::MicrovmId id, bool follow, AppSink sink) {
  FB_CO_TRY_ASSIGN(const core::Microvm microvm, co_await supervisor.get(tenant, id));
  control::AppLog& log = supervisor.services().app_log;
  const bool fresh = just_started(supervisor, microvm);
  const Deadline first_line = Deadline::in(kFirstLine);
  std::uint64_t position = 0;
  wire::FrameDecoder decoder;
  for (;;) {
    const bool over = supervisor.live().find(id) == nullptr;
    FB_CO_TRY_ASSIGN(const std::string bytes, log.read(id, position));
    position += bytes.size();
    decoder.feed(bytes);
    for (;;) {
      FB_CO_TRY_ASSIGN(auto frame, decoder.next());
      if (!frame) break;
      if (auto event = event_of(*std::move(frame))) FB_CO_TRY(co_await sink(*std::move(event)));
    }
    if (!bytes.empty()) continue;
    const bool expected = fresh && position == 0 && !first_line.passed();
    if (over || !(follow || expected)) co_return Result<>();
    (void)co_await log.changed().wait(follow ? Deadline::in(kFirstLine) : first_line);
  }
}

}  // namespace firebreak::session
