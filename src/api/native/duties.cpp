#include "api/native/duties.h"

#include <algorithm>
#include <array>
#include <string>

namespace firebreak::api {
namespace {

using core::KeyKind;

struct Duty {
  std::string_view call;
  KeyKind kind;
};

// What the three narrow kinds may do, and nothing else.
constexpr std::array kDuties{Duty{"POST /v1/execute-code", KeyKind::agent},
                             Duty{"POST /v1/turns/{turn}/end", KeyKind::agent},
                             Duty{"POST /v1/sessions", KeyKind::agent},
                             Duty{"GET /v1/sessions", KeyKind::agent},
                             Duty{"GET /v1/sessions/{session}", KeyKind::agent},
                             Duty{"DELETE /v1/sessions/{session}", KeyKind::agent},
                             Duty{"POST /v1/sessions/{session}/execute", KeyKind::agent},
                             Duty{"POST /v1/sessions/{session}/exec", KeyKind::agent},
                             Duty{"GET /v1/invocations", KeyKind::auditor},
                             Duty{"GET /v1/invocations/{invocation}", KeyKind::auditor},
                             Duty{"GET /v1/invocations/{invocation}/output", KeyKind::auditor},
                             Duty{"GET /v1/sessions", KeyKind::auditor},
                             Duty{"GET /v1/sessions/{session}", KeyKind::auditor},
                             Duty{"GET /v1/events", KeyKind::auditor},
                             Duty{"GET /v1/usage", KeyKind::auditor},
                             Duty{"GET /v1/tenant", KeyKind::agent},
                             Duty{"GET /v1/tenant", KeyKind::approver},
                             Duty{"GET /v1/tenant", KeyKind::auditor}};

}  // namespace

bool may_call(KeyKind kind, bool admin, std::string_view method, std::string_view pattern) {
  if (kind == KeyKind::administrator) return true;
  if (admin) return false;
  if (kind == KeyKind::owner) return true;
  const std::string call = std::string(method) + " " + std::string(pattern);
  return std::ranges::any_of(
      kDuties, [&](const Duty& duty) { return duty.kind == kind && duty.call == call; });
}

}  // namespace firebreak::api
