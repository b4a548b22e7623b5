// What Firebreak remembers, as a domain interface: engines behind it (SQLite now) pass one
// conformance suite. A Store is one connection; several, also of several servers, may work on the
// same data. Calls block: the owner runs them off the event loop, one at a time per connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "core/access_token.h"
#include "core/model.h"
#include "core/role.h"
#include "core/secret.h"
#include "store/sandbox_store.h"

namespace firebreak::store {

template <class T>
struct Page {
  std::vector<T> items;
  std::string next;  // token of the next page; empty at the end
};

// What a commit promises. `now`: it has reached the disk when commit returns. `later`: everybody
// sees it at once and the end of the server cannot undo it, but a power cut can, until sync() or a
// commit with `now` has returned, on any connection. A power cut takes the newest commits first:
// what is left is a state that there was. An engine may treat `later` as `now`.
enum class Durability { now, later };

// `read`: everything read in the transaction is of one moment; nobody waits for it and it waits for
// nobody. `write`: no other transaction writes between its first look and its commit.
enum class Access { read, write };

struct PageRequest {
  std::uint32_t size = 50;  // 1..1000
  std::string token;        // of the page before; bound to the listing and its filter
};

struct MicrovmFilter {
  std::optional<core::ImageId> image;
  std::optional<std::uint32_t> version;
  std::optional<core::MicrovmState> state;
  std::optional<std::pair<std::string, std::string>> tag;
};

// A change of one microVM, applied only while it still is what the caller read: `expected` is the
// revision. A state change must be in core's table and is journalled as an event in the same
// transaction.
struct MicrovmChange {
  core::MicrovmId id;
  std::uint64_t expected = 0;
  std::optional<core::MicrovmState> state;
  std::optional<core::Intent> intent;
  std::optional<std::string> reason;
  std::optional<std::optional<core::IdlePolicy>> idle;
  std::optional<std::optional<core::Seconds>> max_duration;
  std::optional<std::uint64_t> generation;
  std::optional<std::string> egress;
  std::optional<std::string> name;  // conflict: another one that lives has it
  bool clear_payload = false;
  core::Time at{};
  std::optional<core::Meter> meter;  // as save_meters would, in the same transaction
};

struct UsageRow {
  core::MicrovmId microvm;
  core::TenantId tenant;
  core::Meter meter;
};

// What a tenant's microVMs used that were metered last on that day and are no longer told apart.
struct UsageDay {
  core::Time day{};  // its beginning, UTC
  std::uint64_t microvms = 0;
  core::Usage total;
  friend bool operator==(const UsageDay&, const UsageDay&) = default;
};

class Store;

// A transaction of one connection: the calls of that connection belong to it until it ends. All of
// it is kept by commit(), nothing if it is destroyed before. Blocks, as the store does.
class Transaction {
 public:
  Transaction(Transaction&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  // Code::timeout when the deadline has passed already. What failed is undone.
  Result<> commit(Deadline deadline);

 private:
  friend class Store;
  explicit Transaction(Store& store) : store_(&store) {}
  Store* store_;
};

// A call outside of a transaction is one of its own, with Durability::now. A call that failed
// changed nothing; a transaction may go on after it, unless the store itself failed (disk full):
// then each further call fails. Calls that only read are const.
class Store : public SandboxStore {
 public:
  // --- transactions
  // Another connection to the same data. May be called on any thread.
  virtual Result<std::unique_ptr<Store>> connect() const = 0;
  // One at a time per connection. A writer waits until others have ended; Code::timeout when the
  // deadline passes first.
  Result<Transaction> begin(Access access, Deadline deadline,
                            Durability durability = Durability::now) {
    FB_TRY(start(access, deadline, durability));
    return Transaction(*this);
  }
  // Everything that any connection committed until now has reached the disk.
  virtual Result<> sync() = 0;

  // --- tenants and keys
  virtual Result<> create_tenant(const core::Tenant& tenant) = 0;  // conflict: id or name taken
  virtual Result<std::optional<core::Tenant>> find_tenant(const core::TenantId& id) const = 0;
  virtual Result<std::vector<core::Tenant>> list_tenants() const = 0;
  virtual Result<> set_limits(const core::TenantId& id, const core::TenantLimits& limits) = 0;
  virtual Result<> set_egress(const core::TenantId& id, const core::EgressSettings& egress) = 0;
  // conflict while it has microVMs that are not TERMINATED; removes keys, images, history and
  // usage.
  virtual Result<> remove_tenant(const core::TenantId& id) = 0;
  virtual Result<> create_key(const core::Key& key) = 0;
  virtual Result<std::optional<core::Key>> find_key(const core::KeyId& id) const = 0;
  virtual Result<std::optional<core::Key>> find_key_by_hash(
      const std::string& api_key_hash) const = 0;
  virtual Result<std::vector<core::Key>> list_keys(const core::TenantId& tenant) const = 0;
  // not_found for a key of another tenant; revoking twice keeps the first time.
  virtual Result<> revoke_key(const core::TenantId& tenant, const core::KeyId& id,
                              core::Time at) = 0;

  // --- egress policies of a tenant, by name, at most 100 (Code::exhausted); one that cannot be
  // read any more is an error, never another policy.
  virtual Result<> put_egress_policy(const core::TenantId& tenant,
                                     const core::EgressPolicy& policy) = 0;
  virtual Result<std::optional<core::EgressPolicy>> find_egress_policy(
      const core::TenantId& tenant, const std::string& name) const = 0;
  virtual Result<std::vector<core::EgressPolicy>> list_egress_policies(
      const core::TenantId& tenant) const = 0;
  virtual Result<> remove_egress_policy(const core::TenantId& tenant, const std::string& name) = 0;

  // --- roles of a tenant, by name. Replacing one keeps its id and the time it was made; the role
  // as it is now.
  virtual Result<core::Role> put_role(const core::TenantId& tenant, const core::Role& role) = 0;
  virtual Result<std::vector<core::Role>> list_roles(const core::TenantId& tenant) const = 0;
  virtual Result<> remove_role(const core::TenantId& tenant, const std::string& name) = 0;

  // --- secrets of tenants, by name, at most core::kMostSecrets (Code::exhausted).
  virtual Result<> put_secret(const core::Secret& secret) = 0;
  virtual Result<std::vector<core::Secret>> all_secrets() const = 0;
  virtual Result<> remove_secret(const core::TenantId& tenant, const std::string& name) = 0;

  // --- images. A tenant sees its own and those of the system tenant (a row like any other, made by
  // the owner); every read that a caller's name leads to takes the tenant, and a foreign thing is
  // absent.
  virtual Result<> create_image(const core::Image& image) = 0;  // conflict: name taken
  virtual Result<std::optional<core::Image>> find_image(const core::TenantId& tenant,
                                                        const core::ImageId& id) const = 0;
  // Own first, then the system tenant's.
  virtual Result<std::optional<core::Image>> find_image_by_name(const core::TenantId& tenant,
                                                                const std::string& name) const = 0;
  virtual Result<Page<core::Image>> list_images(const core::TenantId& tenant,
                                                const std::string& name_contains,
                                                const PageRequest& page) const = 0;
  virtual Result<> update_image(const core::Image& image) = 0;  // state, tags, updated
  // Removes versions and builds with it.
  virtual Result<> remove_image(const core::ImageId& id) = 0;

  virtual Result<> create_version(const core::ImageVersion& version) = 0;
  virtual Result<std::optional<core::ImageVersion>> find_version(const core::ImageId& image,
                                                                 std::uint32_t number) const = 0;
  virtual Result<std::vector<core::ImageVersion>> list_versions(
      const core::ImageId& image) const = 0;
  // The highest that is runnable.
  virtual Result<std::optional<core::ImageVersion>> latest_runnable(
      const core::ImageId& image) const = 0;
  virtual Result<> update_version(const core::ImageVersion& version) = 0;
  virtual Result<> remove_version(const core::ImageId& image, std::uint32_t number) = 0;
  // Of every tenant: those that stand on this snapshot; none for the empty name.
  virtual Result<std::vector<core::ImageVersion>> versions_with_snapshot(
      const std::string& snapshot) const = 0;
  // Every version of every tenant: for the start, check and collection.
  virtual Result<std::vector<core::ImageVersion>> all_versions() const = 0;

  // Versions, microVMs and events of an engine that were written by a server which did not record
  // the class of isolation get this one; others keep theirs.
  virtual Result<> record_isolation(const std::string& engine, core::Isolation isolation) = 0;

  virtual Result<> create_build(const core::Build& build) = 0;
  virtual Result<> update_build(const core::Build& build) = 0;
  virtual Result<std::optional<core::Build>> find_build(const core::ImageId& image,
                                                        std::uint32_t version,
                                                        const core::BuildId& id) const = 0;
  virtual Result<std::vector<core::Build>> list_builds(const core::ImageId& image,
                                                       std::uint32_t version) const = 0;

  // --- microVMs
  // Atomically: counts against the tenant's limits (exhausted), or, when the client token was used
  // in the last 24 hours, returns the microVM it made (conflict when the request differs).
  // `created` tells which. It begins as PENDING, with an event; not_found: no such tenant;
  // conflict: another one that lives has the name.
  struct Created {
    core::Microvm microvm;
    bool created = true;
  };
  virtual Result<Created> create_microvm(const core::Microvm& microvm,
                                         const core::TenantLimits& limits) = 0;
  virtual Result<std::optional<core::Microvm>> find_microvm(const core::TenantId& tenant,
                                                            const core::MicrovmId& id) const = 0;
  // The one that lives with that name, else the newest that had it.
  virtual Result<std::optional<core::MicrovmId>> find_microvm_by_name(
      const core::TenantId& tenant, const std::string& name) const = 0;
  // Those whose ids begin so, also TERMINATED ones.
  virtual Result<std::vector<core::MicrovmId>> microvm_ids_beginning(
      const core::TenantId& tenant, const std::string& prefix) const = 0;
  // Of any tenant: for administrators, and never for a name that anybody else gave.
  virtual Result<std::optional<core::Microvm>> find_any_microvm(
      const core::MicrovmId& id) const = 0;
  // For the endpoint: a token has proven who may use it.
  virtual Result<std::optional<core::Microvm>> find_by_endpoint(
      const core::EndpointId& id) const = 0;
  virtual Result<Page<core::Microvm>> list_microvms(const core::TenantId& tenant,
                                                    const MicrovmFilter& filter,
                                                    const PageRequest& page) const = 0;
  // Of every tenant: for administrators.
  virtual Result<Page<core::Microvm>> list_all_microvms(const MicrovmFilter& filter,
                                                        const PageRequest& page) const = 0;
  // Every microVM that is not TERMINATED, of every tenant: for reconciling after a start.
  virtual Result<std::vector<core::Microvm>> live_microvms() const = 0;
  // Of every tenant, also TERMINATED ones: whose files may be there.
  virtual Result<std::vector<core::MicrovmId>> microvm_ids() const = 0;
  // conflict: changed meanwhile, or not in core's table. Returns it as it is now.
  virtual Result<core::Microvm> change(const MicrovmChange& change) = 0;
  // What counts against the limits: everything that is not TERMINATED.
  virtual Result<core::TenantUse> tenant_use(const core::TenantId& tenant) const = 0;
  // Forgets TERMINATED ones older than that, with their events; their usage is kept. How many.
  virtual Result<std::uint64_t> forget_terminated(core::Time before) = 0;

  // --- tokens of endpoints. They go with their microVM.
  // Forgets those that expired before it was made. not_found: no such microVM of the tenant.
  virtual Result<> create_token(const core::AccessToken& token) = 0;
  virtual Result<std::vector<core::AccessToken>> list_tokens(
      const core::TenantId& tenant, const core::MicrovmId& microvm) const = 0;
  // not_found for one of another tenant or microVM; revoking twice keeps the first time.
  virtual Result<> revoke_token(const core::TenantId& tenant, const core::MicrovmId& microvm,
                                const core::TokenId& id, core::Time at) = 0;
  // Revoked and not yet expired, of every tenant: what the endpoint must refuse.
  virtual Result<std::vector<core::AccessToken>> revoked_tokens(core::Time now) const = 0;

  // --- history and usage
  // Events are numbered in the order of their commits: who has read number N never finds a new one
  // below it. A number is never given twice, also after events were forgotten; there may be gaps.
  virtual Result<std::vector<core::Event>> events(const core::TenantId& tenant,
                                                  std::optional<core::MicrovmId> microvm,
                                                  std::uint64_t after,
                                                  std::uint32_t limit) const = 0;
  // Every event that is not committed yet gets a greater number.
  virtual Result<std::uint64_t> last_event() const = 0;
  // An event without another state, unless the newest of that microVM says the same and is less
  // than a minute old.
  virtual Result<> note(const core::MicrovmId& id, const std::string& what, core::Time at) = 0;
  // Forgets events older than that, also of microVMs that live. How many.
  virtual Result<std::uint64_t> forget_events(core::Time before) = 0;
  virtual Result<std::optional<core::Meter>> meter(const core::MicrovmId& id) const = 0;
  // Replaces the meters, in one transaction; those of tenants that are gone are left out.
  virtual Result<> save_meters(const std::vector<UsageRow>& rows) = 0;
  // Of microVMs active (metered) at or after `since`, what each used in its whole life: those
  // metered last first.
  virtual Result<std::vector<UsageRow>> usage(const core::TenantId& tenant, core::Time since,
                                              std::uint32_t limit) const = 0;
  // Adds what microVMs used that have ended and were metered last before that to the days of their
  // tenants, and forgets what each used. At most so many; how many.
  virtual Result<std::uint64_t> roll_up_usage(core::Time before, std::uint32_t most) = 0;
  // The newest first; also the day in which `since` lies.
  virtual Result<std::vector<UsageDay>> usage_days(const core::TenantId& tenant,
                                                   core::Time since) const = 0;
  // With the days.
  virtual Result<core::Usage> usage_total(const core::TenantId& tenant, core::Time since) const = 0;

 private:
  friend class Transaction;
  virtual Result<> start(Access access, Deadline deadline, Durability durability) = 0;
  virtual Result<> commit() = 0;
  virtual void rollback() noexcept = 0;
};

inline Transaction::~Transaction() {
  if (store_ != nullptr) store_->rollback();
}

inline Result<> Transaction::commit(Deadline deadline) {
  Store* const store = std::exchange(store_, nullptr);
  Result<> done = fail(Code::timeout, "the store's transaction took too long", Repair{"try again"});
  if (!deadline.passed()) done = store->commit();
  if (!done) store->rollback();
  return done;
}

}  // namespace firebreak::store
