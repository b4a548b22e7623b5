// Sessions of clients that speak a revision with `initialize`: which version, whose they are, and
// the calls that can be cancelled. In memory: after a restart of the server clients are told that
// their session is unknown, and open another one. Owned by the façade; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/mcp/answer.h"
#include "control/key_ring.h"

namespace firebreak::api::mcp {

struct Session {
  core::KeyId key;
  std::string version;
  core::Time used{};
  std::map<std::string, CallPresence*> calls;  // under way, by the text of their id
};
using SessionPtr = std::shared_ptr<Session>;

class Sessions {
 public:
  Sessions(const core::Clock& clock, core::Seconds life) : clock_(clock), life_(life) {}

  // Code::exhausted when the key has too many.
  Result<std::string> open(const control::Caller& caller, std::string version);
  // Null for one that is unknown, over, or another key's.
  SessionPtr find(const std::string& id, const control::Caller& caller);
  // Its calls are cancelled; false: there is none.
  bool close(const std::string& id, const control::Caller& caller);
  std::size_t size() const { return sessions_.size(); }

 private:
  void forget_old();

  const core::Clock& clock_;
  core::Seconds life_;
  std::map<std::string, SessionPtr> sessions_;
};

// A call of a session, cancellable by its id while this lives.
class ListedCall {
 public:
  ListedCall(SessionPtr session, std::string id, CallPresence& presence);
  ~ListedCall();
  ListedCall(const ListedCall&) = delete;
  ListedCall& operator=(const ListedCall&) = delete;
  // Another call under way has the same id.
  bool taken() const { return !listed_; }

 private:
  SessionPtr session_;
  std::string id_;
  bool listed_ = false;
};

}  // namespace firebreak::api::mcp
