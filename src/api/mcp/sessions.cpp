#include "api/mcp/sessions.h"

#include <algorithm>

namespace firebreak::api::mcp {
namespace {
constexpr std::ptrdiff_t kMostOfKey = 1000;
}

void Sessions::forget_old() {
  const core::Time now = clock_.now();
  std::erase_if(sessions_, [&](const auto& entry) {
    return entry.second->calls.empty() && now - entry.second->used > life_;
  });
}

Result<std::string> Sessions::open(const control::Caller& caller, std::string version) {
  forget_old();
  const auto own = std::ranges::count_if(
      sessions_, [&](const auto& entry) { return entry.second->key == caller.key.id; });
  if (own >= kMostOfKey)
    return fail(Code::exhausted, "the key has " + std::to_string(own) + " open MCP sessions",
                Repair{"end sessions with DELETE, or wait until unused ones are forgotten"});
  std::string id = core::new_uuid();
  sessions_[id] = std::make_shared<Session>(Session{
      .key = caller.key.id, .version = std::move(version), .used = clock_.now(), .calls = {}});
  return id;
}

SessionPtr Sessions::find(const std::string& id, const control::Caller& caller) {
  forget_old();
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second->key != caller.key.id) return nullptr;
  at->second->used = clock_.now();
  return at->second;
}

bool Sessions::close(const std::string& id, const control::Caller& caller) {
  const SessionPtr session = find(id, caller);
  if (!session) return false;
  for (const auto& [call, presence] : session->calls) presence->cancel();
  sessions_.erase(id);
  return true;
}

ListedCall::ListedCall(SessionPtr session, std::string id, CallPresence& presence)
    : session_(std::move(session)), id_(std::move(id)) {
  if (session_) listed_ = session_->calls.emplace(id_, &presence).second;
}

ListedCall::~ListedCall() {
  if (session_ && listed_) session_->calls.erase(id_);
}

}  // namespace firebreak::api::mcp
