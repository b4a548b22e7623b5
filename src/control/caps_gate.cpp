#include "control/caps_gate.h"

namespace firebreak::control {
namespace {

std::optional<core::Dimension> dimension_of(Act act) {
  switch (act) {
    case Act::launch:
    case Act::fork:
      return core::Dimension::launches_daily;
    case Act::wake:
      return core::Dimension::wakes_hourly;
    case Act::exec:
    case Act::code:
      return core::Dimension::execs_daily;
    case Act::build:
      return core::Dimension::builds_daily;
    case Act::write_file:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Error cap_error(const core::CapRefusal& refusal) {
  Error error = fail(Code::exhausted, Reason{"cap_exceeded"}, refusal.message(),
                     Repair{"try again after it is reset, or ask an administrator for more"})
                    .error();
  error.resets_at_ms = core::to_unix_ms(refusal.resets_at);
  error.data.emplace_back("dimension", core::to_string(refusal.dimension));
  return error;
}

net::Task<Result<>> CapsGate::ask(Ask ask) {
  // Refused by the inner gate: not counted.
  FB_CO_TRY(co_await inner_.ask(ask));
  const auto dimension = dimension_of(ask.act);
  const core::TenantLimits* limits = dimension ? limits_(ask.tenant) : nullptr;
  if (limits == nullptr) co_return Result<>();
  const auto wanted = core::ask_of(limits->caps, *dimension, clock_.now(), {}, ask.count);
  if (!wanted) co_return Result<>();
  // A power cut may forget the last acts; it ended what they did as well.
  FB_CO_TRY_ASSIGN(
      const auto refused,
      co_await db_.run([&](store::Store& store) { return store.take_caps(ask.tenant, {*wanted}); },
                       store::Durability::later));
  if (refused) co_return std::unexpected(cap_error(*refused));
  co_return Result<>();
}

}  // namespace firebreak::control
