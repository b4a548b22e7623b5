// Intents and records of calls in sessions.
#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {
namespace {

// What an intent and a record have in common, in the order of the tables' columns.
core::Invocation read_intent(Statement& row) {
  core::Invocation call;
  call.id = row.id<core::InvocationId>();
  call.tenant = row.id<core::TenantId>();
  call.agent = row.text();
  call.turn = row.text();
  call.session = row.id<core::SessionId>();
  call.template_name = row.text();
  call.language = row.text();
  call.key = row.id<core::KeyId>();
  call.code_hash = row.text();
  call.code_bytes = row.u64();
  call.started = row.time();
  call.expires = row.time();
  return call;
}

Result<core::Invocation> read_record(Statement& row) {
  core::Invocation call = read_intent(row);
  FB_TRY_ASSIGN(call.exit_status, decode(core::parse_exit_status, row.text()));
  call.failure_reason = row.text();
  call.duration = core::Millis(row.i64());
  call.stdout_bytes = row.u64();
  call.stderr_bytes = row.u64();
  call.stdout_truncated = row.boolean();
  call.stderr_truncated = row.boolean();
  call.stdout_hash = row.text();
  call.stderr_hash = row.text();
  return call;
}

}  // namespace

Result<> SqliteStore::open_invocation(const core::Invocation& intent) {
  return require_added(
      db_->run("INSERT INTO invocations_open VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               intent.id, intent.tenant, intent.agent, intent.turn, intent.session,
               intent.template_name, intent.language, intent.key, intent.code_hash,
               intent.code_bytes, intent.started, intent.expires),
      "invocation " + intent.id.str());
}

Result<std::vector<core::Invocation>> SqliteStore::open_invocations() const {
  return read_all(db_->query("SELECT * FROM invocations_open ORDER BY started, id"),
                  [](Statement& row) -> Result<core::Invocation> { return read_intent(row); });
}

Result<> SqliteStore::add_invocation(const core::Invocation& record,
                                     const std::optional<InvocationOutput>& output) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY(db_->run("DELETE FROM invocations_open WHERE id = ?", record.id));
  FB_TRY(require_added(db_->run("INSERT INTO sandbox_invocations VALUES "
                                "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                record.id, record.tenant, record.agent, record.turn, record.session,
                                record.template_name, record.language, record.key, record.code_hash,
                                record.code_bytes, record.started, record.expires,
                                core::to_string(record.exit_status), record.failure_reason,
                                static_cast<std::int64_t>(record.duration.count()),
                                record.stdout_bytes, record.stderr_bytes, record.stdout_truncated,
                                record.stderr_truncated, record.stdout_hash, record.stderr_hash),
                       "invocation " + record.id.str()));
  // A tenant that was removed meanwhile keeps its record and no content.
  if (output)
    FB_TRY(
        db_->run("INSERT INTO invocation_outputs (invocation, tenant, session, stdout, stderr) "
                 "SELECT ?, id, ?, ?, ? FROM tenants WHERE id = ?",
                 record.id, record.session, Blob{output->out}, Blob{output->err}, record.tenant));
  return all.commit();
}

Result<std::optional<core::Invocation>> SqliteStore::find_invocation(
    const core::TenantId& tenant, const core::InvocationId& id) const {
  return read_one(
      db_->query("SELECT * FROM sandbox_invocations WHERE id = ? AND tenant_id = ?", id, tenant),
      read_record);
}

Result<std::vector<core::Invocation>> SqliteStore::list_invocations(
    const core::TenantId& tenant, const InvocationFilter& filter,
    const std::optional<core::InvocationId>& after, std::uint32_t limit) const {
  std::optional<std::string> status;
  if (filter.status) status = core::to_string(*filter.status);
  return read_all(
      db_->query("SELECT * FROM sandbox_invocations WHERE tenant_id = ?1 "
                 "AND (?2 IS NULL OR agent_id = ?2) AND (?3 IS NULL OR session_id = ?3) "
                 "AND (?4 IS NULL OR exit_status = ?4) AND (?5 IS NULL OR (started, id) < "
                 "(SELECT started, id FROM sandbox_invocations WHERE id = ?5 AND tenant_id = ?1)) "
                 "ORDER BY started DESC, id DESC LIMIT ?6",
                 tenant, filter.agent, filter.session, status, after, limit),
      read_record);
}

Result<std::optional<InvocationOutput>> SqliteStore::invocation_output(
    const core::TenantId& tenant, const core::InvocationId& id) const {
  return read_one(db_->query("SELECT stdout, stderr FROM invocation_outputs "
                             "WHERE invocation = ? AND tenant = ?",
                             id, tenant),
                  [](Statement& row) -> Result<InvocationOutput> {
                    InvocationOutput output;
                    output.out = row.bytes();
                    output.err = row.bytes();
                    return output;
                  });
}

Result<std::uint64_t> SqliteStore::forget_invocations(core::Time now, std::uint32_t most) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY(db_->run("UPDATE retention_job SET moment = ?", now));
  FB_TRY(
      db_->run("DELETE FROM invocation_outputs WHERE invocation IN (SELECT id FROM "
               "sandbox_invocations WHERE expires <= ? ORDER BY expires, id LIMIT ?)",
               now, most));
  FB_TRY_ASSIGN(const std::uint64_t gone,
                db_->run("DELETE FROM sandbox_invocations WHERE id IN (SELECT id FROM "
                         "sandbox_invocations WHERE expires <= ? ORDER BY expires, id LIMIT ?)",
                         now, most));
  FB_TRY(db_->run("UPDATE retention_job SET moment = 0"));
  FB_TRY(all.commit());
  return gone;
}

}  // namespace firebreak::store
