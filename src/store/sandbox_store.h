// The part of the store that governs sessions: templates, sandbox policies, caps, sessions, and the
// records of calls, which nobody changes. Part of Store; the same rules hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/caps.h"
#include "core/sandbox.h"

namespace firebreak::store {

// How much of a cap is used in the window that began then.
struct CapCount {
  core::Dimension dimension = core::Dimension::tenant_daily;
  std::string subject;
  core::Time begin{};
  std::uint64_t count = 0;
  friend bool operator==(const CapCount&, const CapCount&) = default;
};

// All that a call printed, compressed.
struct InvocationOutput {
  std::string out;
  std::string err;
  friend bool operator==(const InvocationOutput&, const InvocationOutput&) = default;
};

struct InvocationFilter {
  std::optional<std::string> agent;
  std::optional<core::SessionId> session;
  std::optional<core::ExitStatus> status;
};

class SandboxStore {
 public:
  virtual ~SandboxStore() = default;

  // --- templates of a tenant, by name, at most 100 (Code::exhausted).
  virtual Result<> put_template(const core::TenantId& tenant,
                                const core::SandboxTemplate& value) = 0;
  virtual Result<std::optional<core::SandboxTemplate>> find_template(
      const core::TenantId& tenant, const std::string& name) const = 0;
  virtual Result<std::vector<core::SandboxTemplate>> list_templates(
      const core::TenantId& tenant) const = 0;
  virtual Result<> remove_template(const core::TenantId& tenant, const std::string& name) = 0;

  // --- the policy of a tenant; what is usual when none was set.
  virtual Result<core::SandboxPolicy> sandbox_policy(const core::TenantId& tenant) const = 0;
  virtual Result<> set_sandbox_policy(const core::TenantId& tenant,
                                      const core::SandboxPolicy& policy) = 0;

  // --- caps. Counts all that is asked or, when one of them has no room, nothing: then the first
  // that has none. Never more than the cap, whoever asks at the same time.
  virtual Result<std::optional<core::CapRefusal>> take_caps(
      const core::TenantId& tenant, const std::vector<core::CapAsk>& asks) = 0;
  // Of the windows that began at that moment or later.
  virtual Result<std::vector<CapCount>> cap_counts(const core::TenantId& tenant,
                                                   core::Time since) const = 0;
  virtual Result<std::uint64_t> forget_caps(core::Time before) = 0;

  // --- sessions. conflict: the turn has one that has not ended.
  virtual Result<> create_session(const core::SandboxSession& session) = 0;
  virtual Result<std::optional<core::SandboxSession>> find_session(
      const core::TenantId& tenant, const core::SessionId& id) const = 0;
  // The newest first.
  virtual Result<std::vector<core::SandboxSession>> list_sessions(const core::TenantId& tenant,
                                                                  bool also_ended,
                                                                  std::uint32_t limit) const = 0;
  // Of every tenant: for the start.
  virtual Result<std::vector<core::SandboxSession>> live_sessions() const = 0;
  // Everything but who it belongs to and what it was made with. conflict: it has ended already.
  virtual Result<> change_session(const core::SandboxSession& session) = 0;
  virtual Result<std::uint64_t> forget_sessions(core::Time ended_before) = 0;

  // --- records of calls. An intent is there from the moment that the call was counted until its
  // record is; so every call that was let in has one record, whatever ends the server.
  virtual Result<> open_invocation(const core::Invocation& intent) = 0;
  // Of every tenant: for the start.
  virtual Result<std::vector<core::Invocation>> open_invocations() const = 0;
  // The record, and the end of its intent if it had one. conflict: it has a record.
  virtual Result<> add_invocation(const core::Invocation& record,
                                  const std::optional<InvocationOutput>& output) = 0;
  virtual Result<std::optional<core::Invocation>> find_invocation(
      const core::TenantId& tenant, const core::InvocationId& id) const = 0;
  // The newest first; `after` is the last of the page before.
  virtual Result<std::vector<core::Invocation>> list_invocations(
      const core::TenantId& tenant, const InvocationFilter& filter,
      const std::optional<core::InvocationId>& after, std::uint32_t limit) const = 0;
  // nullopt: it was not kept, or no longer is.
  virtual Result<std::optional<InvocationOutput>> invocation_output(
      const core::TenantId& tenant, const core::InvocationId& id) const = 0;
  // The retention job: the one way in which records go. At most so many; how many.
  virtual Result<std::uint64_t> forget_invocations(core::Time now, std::uint32_t most) = 0;
};

}  // namespace firebreak::store
