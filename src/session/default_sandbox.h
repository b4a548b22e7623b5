// The sandbox that a caller works in without naming one: one for each key, or for each session of a
// key where the protocol has sessions. It is made when it is first needed, found again after a
// restart of the server, and ended with its session or when nobody has used the session for a
// while. Sandboxes that callers made themselves are the tenant's; these belong to their owner
// alone. Owned by the server; one executor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/supervisor.h"
#include "net/semaphore.h"
#include "net/task_group.h"

namespace firebreak::session {

struct SandboxOwner {
  core::Tenant tenant;
  core::KeyId key;
  std::string session;  // empty: the key's own
};

struct DefaultSandboxOptions {
  std::string image = "python";
  core::Seconds idle{600};             // then suspended
  core::Seconds suspended{24 * 3600};  // then ended
  core::Seconds session_life{3600};    // unused, then the session's sandbox is ended
};

class DefaultSandboxes {
 public:
  DefaultSandboxes(control::Supervisor& supervisor, DefaultSandboxOptions options = {});

  // Made when there is none, and started; Code::unavailable when that takes longer.
  net::Task<Result<core::MicrovmId>> take(SandboxOwner owner, Deadline deadline);
  // As it is now; Code::not_found when there is none.
  net::Task<Result<core::MicrovmId>> find(SandboxOwner owner);
  // A sandbox that the caller names by id or name. Those of other owners are not found.
  net::Task<Result<core::Microvm>> resolve(SandboxOwner owner, std::string word);
  // What the owner may use and has not ended, a page at a time.
  struct Listed {
    std::vector<core::Microvm> sandboxes;
    std::string next;  // of the page behind it; empty: it was the last
  };
  net::Task<Result<Listed>> list(SandboxOwner owner, std::string page);

  // One more, with a name or settings of its own; it is the tenant's. Started, or PENDING when that
  // takes longer. Sleeps and ends like a default sandbox when nobody uses it.
  net::Task<Result<core::Microvm>> create(SandboxOwner owner, control::LaunchRequest request,
                                          Deadline deadline);

  // It is the owner's default sandbox.
  static bool is_default(const SandboxOwner& owner, const core::Microvm& microvm);

  // The session is in use now.
  void touch(const SandboxOwner& owner);
  // The session is over.
  net::Task<void> end(SandboxOwner owner);
  // Ends those of sessions that nobody used for session_life; every so often, by itself.
  net::Task<void> sweep();
  void start();
  net::Task<bool> close(Deadline deadline) { return tasks_.close(deadline); }

 private:
  struct Place {
    explicit Place(const net::asio::any_io_executor& executor) : turn(executor) {}
    net::Mutex turn;  // of making it
    core::MicrovmId id;
    core::Time used{};
    core::TenantId tenant;
    bool of_session = false;
  };
  using PlacePtr = std::shared_ptr<Place>;
  PlacePtr place_of(const SandboxOwner& owner);
  net::Task<Result<std::optional<core::Microvm>>> look(SandboxOwner owner, PlacePtr place);
  net::Task<Result<core::MicrovmId>> make(SandboxOwner owner, Deadline deadline);
  net::Task<void> sweep_always();
  core::IdlePolicy idle() const;

  control::Supervisor& supervisor_;
  DefaultSandboxOptions options_;
  std::map<std::string, PlacePtr> places_;  // by owner
  net::TaskGroup tasks_;                    // last: they use what is above
};

}  // namespace firebreak::session
