// Templates, sandbox policies, caps and sessions.
#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {
namespace {

constexpr std::int64_t kMaxTemplates = 100;  // of a tenant

Result<core::SandboxTemplate> read_template(Statement& row) {
  FB_TRY_ASSIGN(const json::object object, stored(parse_json_object(row.text()), "template"));
  return stored(core::template_from_json(object), "template");
}

Result<core::SandboxPolicy> read_sandbox_policy(Statement& row) {
  core::SandboxPolicy policy;
  FB_TRY_ASSIGN(policy.tier, decode(core::parse_tier, row.text()));
  policy.enabled = row.boolean();
  policy.retention_days = row.u32();
  policy.keep_output = row.boolean();
  return policy;
}

Result<CapCount> read_count(Statement& row) {
  CapCount count;
  FB_TRY_ASSIGN(count.dimension, decode(core::parse_dimension, row.text()));
  count.subject = row.text();
  count.begin = row.time();
  count.count = row.u64();
  return count;
}

Result<core::SandboxSession> read_session(Statement& row) {
  core::SandboxSession session;
  session.id = row.id<core::SessionId>();
  session.tenant = row.id<core::TenantId>();
  session.agent = row.text();
  session.turn = row.text();
  FB_TRY_ASSIGN(session.with, read_template(row));
  session.microvm = row.id<core::MicrovmId>();
  session.key = row.id<core::KeyId>();
  session.created = row.time();
  session.last_call = row.time();
  session.calls = row.u32();
  session.ended = row.optional_time();
  session.end_reason = row.text();
  return session;
}

}  // namespace

// --------------------------------------------------------------------------- templates and
// policies

Result<> SqliteStore::put_template(const core::TenantId& tenant,
                                   const core::SandboxTemplate& value) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(const std::int64_t others,
                db_->number("SELECT count(*) FROM sandbox_templates WHERE tenant = ? AND name <> ?",
                            tenant, value.name));
  if (others >= kMaxTemplates)
    return fail(Code::exhausted,
                "a tenant has at most " + std::to_string(kMaxTemplates) + " templates",
                Repair{"remove one first"});
  FB_TRY(require_added(
      db_->run("INSERT INTO sandbox_templates (tenant, name, template) VALUES (?, ?, ?) "
               "ON CONFLICT (tenant, name) DO UPDATE SET template = excluded.template",
               tenant, value.name, json::serialize(core::to_json(value))),
      "template " + value.name));
  return all.commit();
}

Result<std::optional<core::SandboxTemplate>> SqliteStore::find_template(
    const core::TenantId& tenant, const std::string& name) const {
  return read_one(db_->query("SELECT template FROM sandbox_templates WHERE tenant = ? AND name = ?",
                             tenant, name),
                  read_template);
}

Result<std::vector<core::SandboxTemplate>> SqliteStore::list_templates(
    const core::TenantId& tenant) const {
  return read_all(
      db_->query("SELECT template FROM sandbox_templates WHERE tenant = ? ORDER BY name", tenant),
      read_template);
}

Result<> SqliteStore::remove_template(const core::TenantId& tenant, const std::string& name) {
  return require_change(
      db_->run("DELETE FROM sandbox_templates WHERE tenant = ? AND name = ?", tenant, name),
      "template " + name);
}

Result<core::SandboxPolicy> SqliteStore::sandbox_policy(const core::TenantId& tenant) const {
  FB_TRY_ASSIGN(const auto set,
                read_one(db_->query("SELECT tier, enabled, retention_days, keep_output "
                                    "FROM sandbox_policies WHERE tenant = ?",
                                    tenant),
                         read_sandbox_policy));
  return set ? *set : core::usual_policy(core::Tier::standard);
}

Result<> SqliteStore::set_sandbox_policy(const core::TenantId& tenant,
                                         const core::SandboxPolicy& policy) {
  return require_added(
      db_->run("INSERT OR REPLACE INTO sandbox_policies (tenant, tier, enabled, retention_days, "
               "keep_output) VALUES (?, ?, ?, ?, ?)",
               tenant, core::to_string(policy.tier), policy.enabled, policy.retention_days,
               policy.keep_output),
      "sandbox policy of tenant " + tenant.str());
}

// -------------------------------------------------------------------------------------------- caps

Result<std::optional<core::CapRefusal>> SqliteStore::take_caps(
    const core::TenantId& tenant, const std::vector<core::CapAsk>& asks) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  for (const core::CapAsk& ask : asks) {
    const std::string_view name = core::to_string(ask.dimension);
    FB_TRY_ASSIGN(
        const std::uint64_t counted,
        db_->run("INSERT INTO cap_counters (tenant, dimension, subject, begin, count) "
                 "SELECT ?, ?, ?, ?, ? WHERE ? <= ? "
                 "ON CONFLICT DO UPDATE SET count = count + excluded.count "
                 "WHERE count + excluded.count <= ?",
                 tenant, name, ask.subject, ask.begin, ask.amount, ask.amount, ask.cap, ask.cap));
    if (counted == 1) continue;
    FB_TRY_ASSIGN(const std::int64_t used,
                  db_->number("SELECT count FROM cap_counters WHERE tenant = ? AND dimension = ? "
                              "AND subject = ? AND begin = ?",
                              tenant, name, ask.subject, ask.begin));
    // What was counted before it is undone: `all` is not committed.
    return core::CapRefusal{
        .dimension = ask.dimension,
        .cap = ask.cap,
        .used = static_cast<std::uint64_t>(used),
        .resets_at = core::end_of(core::rule_of(ask.dimension).window, ask.begin)};
  }
  FB_TRY(all.commit());
  return std::nullopt;
}

Result<std::vector<CapCount>> SqliteStore::cap_counts(const core::TenantId& tenant,
                                                      core::Time since) const {
  return read_all(db_->query("SELECT dimension, subject, begin, count FROM cap_counters "
                             "WHERE tenant = ? AND begin >= ? ORDER BY dimension, subject, begin",
                             tenant, since),
                  read_count);
}

Result<std::uint64_t> SqliteStore::forget_caps(core::Time before) {
  return db_->run("DELETE FROM cap_counters WHERE begin < ?", before);
}

// ---------------------------------------------------------------------------------------- sessions

Result<> SqliteStore::create_session(const core::SandboxSession& session) {
  return require_added(
      db_->run("INSERT INTO sandbox_sessions (id, tenant, agent, turn, template, microvm, key, "
               "created, last_call, calls, ended, end_reason) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               session.id, session.tenant, session.agent, session.turn,
               json::serialize(core::to_json(session.with)), session.microvm, session.key,
               session.created, session.last_call, session.calls, session.ended,
               session.end_reason),
      "session " + session.id.str());
}

Result<std::optional<core::SandboxSession>> SqliteStore::find_session(
    const core::TenantId& tenant, const core::SessionId& id) const {
  return read_one(
      db_->query("SELECT * FROM sandbox_sessions WHERE id = ? AND tenant = ?", id, tenant),
      read_session);
}

Result<std::vector<core::SandboxSession>> SqliteStore::list_sessions(const core::TenantId& tenant,
                                                                     bool also_ended,
                                                                     std::uint32_t limit) const {
  return read_all(db_->query("SELECT * FROM sandbox_sessions WHERE tenant = ? "
                             "AND (ended IS NULL OR ?) ORDER BY created DESC, id DESC LIMIT ?",
                             tenant, also_ended, limit),
                  read_session);
}

Result<std::vector<core::SandboxSession>> SqliteStore::live_sessions() const {
  return read_all(db_->query("SELECT * FROM sandbox_sessions WHERE ended IS NULL ORDER BY id"),
                  read_session);
}

Result<> SqliteStore::change_session(const core::SandboxSession& session) {
  FB_TRY_ASSIGN(const std::uint64_t changed,
                db_->run("UPDATE sandbox_sessions SET microvm = ?, last_call = ?, calls = ?, "
                         "ended = ?, end_reason = ? WHERE id = ? AND ended IS NULL",
                         session.microvm, session.last_call, session.calls, session.ended,
                         session.end_reason, session.id));
  if (changed == 0)
    return fail(Code::conflict, "the session " + session.id.str() + " has ended",
                Repair{"begin another"});
  return {};
}

Result<std::uint64_t> SqliteStore::forget_sessions(core::Time ended_before) {
  return db_->run("DELETE FROM sandbox_sessions WHERE ended IS NOT NULL AND ended < ?",
                  ended_before);
}

}  // namespace firebreak::store
