#include "session/app_output.h"

#include "base/text.h"
#include "wire/frames.h"

namespace firebreak::session {
namespace {

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

}  // namespace

net::Task<Result<>> read_app_output(control::Supervisor& supervisor, core::TenantId tenant,
                                    core::MicrovmId id, bool follow, AppSink sink) {
  FB_CO_TRY(co_await supervisor.get(tenant, id));
  control::AppLog& log = supervisor.services().app_log;
  std::uint64_t position = 0;
  wire::FrameDecoder decoder;
  for (;;) {
    const bool over = supervisor.registry().find(id) == nullptr;
    FB_CO_TRY_ASSIGN(const std::string bytes, log.read(id, position));
    position += bytes.size();
    decoder.feed(bytes);
    for (;;) {
      FB_CO_TRY_ASSIGN(auto frame, decoder.next());
      if (!frame) break;
      if (auto event = event_of(*std::move(frame))) FB_CO_TRY(co_await sink(*std::move(event)));
    }
    if (!bytes.empty()) continue;
    if (over || !follow) co_return Result<>();
    (void)co_await log.changed().wait(Deadline::in(std::chrono::seconds(1)));
  }
}

}  // namespace firebreak::session
