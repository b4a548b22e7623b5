// The engine's class, for its own files only: each group of methods has a file. One connection, and
// one caller at a time; connect() may be called on any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "store/sqlite/connection.h"
#include "store/store.h"

namespace firebreak::store {

class SqliteStore final : public Store {
 public:
  // `lock` is shared by all connections of a server.
  SqliteStore(std::shared_ptr<const UniqueFd> lock, std::unique_ptr<Connection> db)
      : lock_(std::move(lock)), db_(std::move(db)) {}

  // sqlite_store.cpp
  Result<std::unique_ptr<Store>> connect() const override;
  Result<> sync() override { return db_->sync(); }

  // sqlite_tenants.cpp
  Result<> create_tenant(const core::Tenant& tenant) override;
  Result<std::optional<core::Tenant>> find_tenant(const core::TenantId& id) const override;
  Result<std::vector<core::Tenant>> list_tenants() const override;
  Result<> set_limits(const core::TenantId& id, const core::TenantLimits& limits) override;
  Result<> set_egress(const core::TenantId& id, const core::EgressSettings& egress) override;
  Result<> put_egress_policy(const core::TenantId& tenant,
                             const core::EgressPolicy& policy) override;
  Result<std::optional<core::EgressPolicy>> find_egress_policy(
      const core::TenantId& tenant, const std::string& name) const override;
  Result<std::vector<core::EgressPolicy>> list_egress_policies(
      const core::TenantId& tenant) const override;
  Result<> remove_egress_policy(const core::TenantId& tenant, const std::string& name) override;
  Result<> remove_tenant(const core::TenantId& id) override;
  Result<> create_key(const core::Key& key) override;
  Result<std::optional<core::Key>> find_key(const core::KeyId& id) const override;
  Result<std::optional<core::Key>> find_key_by_hash(const std::string& api_key_hash) const override;
  Result<std::vector<core::Key>> list_keys(const core::TenantId& tenant) const override;
  Result<> revoke_key(const core::TenantId& tenant, const core::KeyId& id, core::Time at) override;

  // sqlite_sandbox.cpp
  Result<> put_template(const core::TenantId& tenant, const core::SandboxTemplate& value) override;
  Result<std::optional<core::SandboxTemplate>> find_template(
      const core::TenantId& tenant, const std::string& name) const override;
  Result<std::vector<core::SandboxTemplate>> list_templates(
      const core::TenantId& tenant) const override;
  Result<> remove_template(const core::TenantId& tenant, const std::string& name) override;
  Result<core::SandboxPolicy> sandbox_policy(const core::TenantId& tenant) const override;
  Result<> set_sandbox_policy(const core::TenantId& tenant,
                              const core::SandboxPolicy& policy) override;
  Result<std::optional<core::CapRefusal>> take_caps(const core::TenantId& tenant,
                                                    const std::vector<core::CapAsk>& asks) override;
  Result<std::vector<CapCount>> cap_counts(const core::TenantId& tenant,
                                           core::Time since) const override;
  Result<std::uint64_t> forget_caps(core::Time before) override;
  Result<> create_session(const core::SandboxSession& session) override;
  Result<std::optional<core::SandboxSession>> find_session(
      const core::TenantId& tenant, const core::SessionId& id) const override;
  Result<std::vector<core::SandboxSession>> list_sessions(const core::TenantId& tenant,
                                                          bool also_ended,
                                                          std::uint32_t limit) const override;
  Result<std::vector<core::SandboxSession>> live_sessions() const override;
  Result<> change_session(const core::SandboxSession& session) override;
  Result<std::uint64_t> forget_sessions(core::Time ended_before) override;

  // sqlite_invocations.cpp
  Result<> open_invocation(const core::Invocation& intent) override;
  Result<std::vector<core::Invocation>> open_invocations() const override;
  Result<> add_invocation(const core::Invocation& record,
                          const std::optional<InvocationOutput>& output) override;
  Result<std::optional<core::Invocation>> find_invocation(
      const core::TenantId& tenant, const core::InvocationId& id) const override;
  Result<std::vector<core::Invocation>> list_invocations(
      const core::TenantId& tenant, const InvocationFilter& filter,
      const std::optional<core::InvocationId>& after, std::uint32_t limit) const override;
  Result<std::optional<InvocationOutput>> invocation_output(
      const core::TenantId& tenant, const core::InvocationId& id) const override;
  Result<std::uint64_t> forget_invocations(core::Time now, std::uint32_t most) override;

  // sqlite_secrets.cpp
  Result<> put_secret(const core::Secret& secret) override;
  Result<std::vector<core::Secret>> all_secrets() const override;
  Result<> remove_secret(const core::TenantId& tenant, const std::string& name) override;

  // sqlite_roles.cpp
  Result<core::Role> put_role(const core::TenantId& tenant, const core::Role& role) override;
  Result<std::vector<core::Role>> list_roles(const core::TenantId& tenant) const override;
  Result<> remove_role(const core::TenantId& tenant, const std::string& name) override;

  // sqlite_images.cpp
  Result<> create_image(const core::Image& image) override;
  Result<std::optional<core::Image>> find_image(const core::TenantId& tenant,
                                                const core::ImageId& id) const override;
  Result<std::optional<core::Image>> find_image_by_name(const core::TenantId& tenant,
                                                        const std::string& name) const override;
  Result<Page<core::Image>> list_images(const core::TenantId& tenant,
                                        const std::string& name_contains,
                                        const PageRequest& page) const override;
  Result<> update_image(const core::Image& image) override;
  Result<> remove_image(const core::ImageId& id) override;

  // sqlite_versions.cpp
  Result<> create_version(const core::ImageVersion& version) override;
  Result<std::optional<core::ImageVersion>> find_version(const core::ImageId& image,
                                                         std::uint32_t number) const override;
  Result<std::vector<core::ImageVersion>> list_versions(const core::ImageId& image) const override;
  Result<std::optional<core::ImageVersion>> latest_runnable(
      const core::ImageId& image) const override;
  Result<> update_version(const core::ImageVersion& version) override;
  Result<> remove_version(const core::ImageId& image, std::uint32_t number) override;
  Result<std::vector<core::ImageVersion>> versions_with_snapshot(
      const std::string& snapshot) const override;
  Result<std::vector<core::ImageVersion>> all_versions() const override;
  Result<> record_isolation(const std::string& engine, core::Isolation isolation) override;
  Result<> create_build(const core::Build& build) override;
  Result<> update_build(const core::Build& build) override;
  Result<std::optional<core::Build>> find_build(const core::ImageId& image, std::uint32_t version,
                                                const core::BuildId& id) const override;
  Result<std::vector<core::Build>> list_builds(const core::ImageId& image,
                                               std::uint32_t version) const override;

  // sqlite_microvms.cpp
  Result<Created> create_microvm(const core::Microvm& microvm,
                                 const core::TenantLimits& limits) override;
  Result<std::optional<core::Microvm>> find_microvm(const core::TenantId& tenant,
                                                    const core::MicrovmId& id) const override;
  Result<std::optional<core::MicrovmId>> find_microvm_by_name(
      const core::TenantId& tenant, const std::string& name) const override;
  Result<std::vector<core::MicrovmId>> microvm_ids_beginning(
      const core::TenantId& tenant, const std::string& prefix) const override;
  Result<std::optional<core::Microvm>> find_any_microvm(const core::MicrovmId& id) const override;
  Result<std::optional<core::Microvm>> find_by_endpoint(const core::EndpointId& id) const override;
  Result<Page<core::Microvm>> list_microvms(const core::TenantId& tenant,
                                            const MicrovmFilter& filter,
                                            const PageRequest& page) const override;
  Result<Page<core::Microvm>> list_all_microvms(const MicrovmFilter& filter,
                                                const PageRequest& page) const override;
  Result<std::vector<core::Microvm>> live_microvms() const override;
  Result<std::vector<core::MicrovmId>> microvm_ids() const override;
  Result<core::Microvm> change(const MicrovmChange& change) override;
  Result<core::TenantUse> tenant_use(const core::TenantId& tenant) const override;
  Result<std::uint64_t> forget_terminated(core::Time before) override;

  // sqlite_tokens.cpp
  Result<> create_token(const core::AccessToken& token) override;
  Result<std::vector<core::AccessToken>> list_tokens(const core::TenantId& tenant,
                                                     const core::MicrovmId& microvm) const override;
  Result<> revoke_token(const core::TenantId& tenant, const core::MicrovmId& microvm,
                        const core::TokenId& id, core::Time at) override;
  Result<std::vector<core::AccessToken>> revoked_tokens(core::Time now) const override;

  // sqlite_history.cpp
  Result<std::vector<core::Event>> events(const core::TenantId& tenant,
                                          std::optional<core::MicrovmId> microvm,
                                          std::uint64_t after, std::uint32_t limit) const override;
  Result<std::uint64_t> last_event() const override;
  Result<> note(const core::MicrovmId& id, const std::string& what, core::Time at) override;
  Result<std::uint64_t> forget_events(core::Time before) override;
  Result<std::optional<core::Meter>> meter(const core::MicrovmId& id) const override;
  Result<> save_meters(const std::vector<UsageRow>& rows) override;
  Result<std::vector<UsageRow>> usage(const core::TenantId& tenant, core::Time since,
                                      std::uint32_t limit) const override;
  Result<std::uint64_t> roll_up_usage(core::Time before, std::uint32_t most) override;
  Result<std::vector<UsageDay>> usage_days(const core::TenantId& tenant,
                                           core::Time since) const override;
  Result<core::Usage> usage_total(const core::TenantId& tenant, core::Time since) const override;

 private:
  Result<> start(Access access, Deadline deadline, Durability durability) override {
    return db_->begin(access, deadline, durability);
  }
  Result<> commit() override { return db_->commit(); }
  void rollback() noexcept override { db_->rollback(); }

  // The microVM a client token has made, when it is remembered and was asked for in the same way.
  Result<std::optional<core::Microvm>> made_before(const core::Microvm& asked);
  // conflict when another one that lives has the name.
  Result<> check_name(const core::Microvm& microvm) const;
  // Unset: of every tenant.
  Result<Page<core::Microvm>> list_some(const std::optional<core::TenantId>& tenant,
                                        const MicrovmFilter& filter, const PageRequest& page) const;
  Result<> save_meter(const UsageRow& row);
  Result<> add_to_day(const core::TenantId& tenant, const UsageDay& more);
  Result<> append_event(const core::Microvm& microvm, core::MicrovmState from, core::Time at,
                        const std::string& reason);

  // Destroyed last: the file is free when nobody uses it any more.
  std::shared_ptr<const UniqueFd> lock_;
  std::unique_ptr<Connection> db_;
};

// Rows of a statement, each read by `read`.
template <class Read>
auto read_all(Result<Statement> rows, Read read)
    -> Result<std::vector<typename std::invoke_result_t<Read, Statement&>::value_type>> {
  if (!rows) return std::unexpected(rows.error());
  std::vector<typename std::invoke_result_t<Read, Statement&>::value_type> out;
  while (true) {
    FB_TRY_ASSIGN(bool row, rows->step());
    if (!row) return out;
    FB_TRY_ASSIGN(auto item, read(*rows));
    out.push_back(std::move(item));
  }
}

// The first row, if any.
template <class Read>
auto read_one(Result<Statement> rows, Read read)
    -> Result<std::optional<typename std::invoke_result_t<Read, Statement&>::value_type>> {
  if (!rows) return std::unexpected(rows.error());
  FB_TRY_ASSIGN(bool row, rows->step());
  if (!row) return std::nullopt;
  FB_TRY_ASSIGN(auto item, read(*rows));
  return item;
}

// For statements that must change exactly the row they name.
inline Result<> require_change(const Result<std::uint64_t>& changed, const std::string& what) {
  if (!changed) return std::unexpected(changed.error());
  if (*changed == 0) return fail(Code::not_found, what + " does not exist");
  return {};
}

// For statements that add a row: says what was being added when it is taken or belongs to nothing.
inline Result<> require_added(const Result<std::uint64_t>& changed, const std::string& what) {
  if (!changed) return fail(changed.error(), what);
  return {};
}

}  // namespace firebreak::store
