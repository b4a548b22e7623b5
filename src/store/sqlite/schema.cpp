#include "store/sqlite/schema.h"

#include <array>
#include <string>

#include "wire/crypto.h"

namespace firebreak::store {

namespace {

// "FBRK", in the file's header.
constexpr std::int64_t kApplicationId = 0x4642524B;

// Times are milliseconds of Unix time, durations seconds. Usage has no foreign key to microVMs: it
// outlives them. Images are named by microVMs but may be gone while the microVM's record stays.
constexpr std::string_view kFirst = R"sql(
CREATE TABLE tenants (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  limits TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  sealed_secret BLOB NOT NULL,
  api_key_hash TEXT NOT NULL,
  admin INTEGER NOT NULL,
  created INTEGER NOT NULL,
  revoked INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_tenant ON keys (tenant);
CREATE UNIQUE INDEX keys_by_hash ON keys (api_key_hash) WHERE api_key_hash <> '';

CREATE TABLE images (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  tags TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER,
  UNIQUE (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX images_by_age ON images (created, id);

CREATE TABLE image_versions (
  image TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  active INTEGER NOT NULL,
  state_reason TEXT NOT NULL,
  memory_mib INTEGER NOT NULL,
  hooks TEXT NOT NULL,
  env TEXT NOT NULL,
  snapshot TEXT NOT NULL,
  config TEXT NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER,
  PRIMARY KEY (image, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE builds (
  id TEXT PRIMARY KEY,
  image TEXT NOT NULL,
  version INTEGER NOT NULL,
  state TEXT NOT NULL,
  state_reason TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  created INTEGER NOT NULL,
  finished INTEGER,
  FOREIGN KEY (image, version) REFERENCES image_versions (image, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX builds_by_version ON builds (image, version);

CREATE TABLE microvms (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id),
  endpoint TEXT NOT NULL UNIQUE,
  image TEXT NOT NULL,
  image_name TEXT NOT NULL,
  image_version INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  state TEXT NOT NULL,
  intent TEXT NOT NULL,
  state_reason TEXT NOT NULL,
  idle_max INTEGER,
  idle_suspended INTEGER,
  idle_resume INTEGER,
  idle_rule TEXT,
  max_duration INTEGER,
  payload TEXT NOT NULL,
  generation INTEGER NOT NULL,
  parent TEXT NOT NULL,
  client_token TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  tags TEXT NOT NULL,
  config TEXT NOT NULL,
  started INTEGER NOT NULL,
  state_since INTEGER NOT NULL,
  suspended_at INTEGER,
  terminated INTEGER,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX microvms_by_age ON microvms (tenant, started, id);
CREATE INDEX microvms_live ON microvms (tenant, memory_mib) WHERE state <> 'TERMINATED';
CREATE INDEX microvms_ended ON microvms (terminated) WHERE state = 'TERMINATED';

CREATE TABLE client_tokens (
  tenant TEXT NOT NULL,
  token TEXT NOT NULL,
  microvm TEXT NOT NULL REFERENCES microvms (id) ON DELETE CASCADE,
  created INTEGER NOT NULL,
  PRIMARY KEY (tenant, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX client_tokens_by_microvm ON client_tokens (microvm);
CREATE INDEX client_tokens_by_age ON client_tokens (created);

CREATE TABLE events (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  microvm TEXT NOT NULL REFERENCES microvms (id) ON DELETE CASCADE,
  from_state TEXT NOT NULL,
  to_state TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_tenant ON events (tenant, sequence);
CREATE INDEX events_by_microvm ON events (microvm, sequence);

CREATE TABLE usage (
  microvm TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  metered_until INTEGER NOT NULL,
  cpu_counter INTEGER NOT NULL,
  running_ms INTEGER NOT NULL,
  cpu_usec INTEGER NOT NULL,
  cpu_over_usec INTEGER NOT NULL,
  memory_mib_ms INTEGER NOT NULL,
  suspended_mib_ms INTEGER NOT NULL,
  snapshot_read_bytes INTEGER NOT NULL,
  snapshot_written_bytes INTEGER NOT NULL,
  bytes_in INTEGER NOT NULL,
  bytes_out INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_tenant ON usage (tenant, metered_until);
)sql";

constexpr std::string_view kEgress = R"sql(
ALTER TABLE tenants ADD COLUMN egress_default TEXT NOT NULL DEFAULT 'INTERNET_EGRESS';
ALTER TABLE tenants ADD COLUMN egress_maximum TEXT NOT NULL DEFAULT 'INTERNET_EGRESS';
ALTER TABLE image_versions ADD COLUMN egress TEXT NOT NULL DEFAULT '';
ALTER TABLE microvms ADD COLUMN egress TEXT NOT NULL DEFAULT 'NO_EGRESS';

CREATE TABLE egress_policies (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  policy TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
)sql";

// What was issued, not the tokens themselves; looked up when one is listed or revoked.
constexpr std::string_view kAccessTokens = R"sql(
CREATE TABLE access_tokens (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  microvm TEXT NOT NULL REFERENCES microvms (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  ports TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  revoked INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX access_tokens_by_microvm ON access_tokens (microvm, created);
CREATE INDEX access_tokens_by_tenant ON access_tokens (tenant);
CREATE INDEX access_tokens_by_expiry ON access_tokens (expires);
CREATE INDEX access_tokens_revoked ON access_tokens (expires) WHERE revoked IS NOT NULL;
)sql";

constexpr std::string_view kRoles = R"sql(
ALTER TABLE microvms ADD COLUMN role TEXT NOT NULL DEFAULT '';

CREATE TABLE roles (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  policy TEXT NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
)sql";

// What microVMs used that ended long ago, by the day they were metered last.
constexpr std::string_view kUsageDays = R"sql(
CREATE TABLE usage_days (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  day INTEGER NOT NULL,
  microvms INTEGER NOT NULL,
  running_ms INTEGER NOT NULL,
  cpu_usec INTEGER NOT NULL,
  cpu_over_usec INTEGER NOT NULL,
  memory_mib_ms INTEGER NOT NULL,
  suspended_mib_ms INTEGER NOT NULL,
  snapshot_read_bytes INTEGER NOT NULL,
  snapshot_written_bytes INTEGER NOT NULL,
  bytes_in INTEGER NOT NULL,
  bytes_out INTEGER NOT NULL,
  PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_age ON events (at);
)sql";

// A name belongs to one microVM that lives; those that ended keep theirs until they are forgotten.
constexpr std::string_view kMicrovmNames = R"sql(
ALTER TABLE microvms ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE microvms ADD COLUMN env TEXT NOT NULL DEFAULT '{}';
CREATE INDEX microvms_by_name ON microvms (tenant, name, started) WHERE name <> '';
CREATE UNIQUE INDEX microvms_live_names ON microvms (tenant, name)
  WHERE name <> '' AND state <> 'TERMINATED';
CREATE INDEX microvms_of_all_by_age ON microvms (started, id);
)sql";

// Whether a snapshot is still needed is asked at each build and each removal.
constexpr std::string_view kSnapshots = R"sql(
CREATE INDEX image_versions_by_snapshot ON image_versions (snapshot) WHERE snapshot <> '';
)sql";

// Which engine runs it, and how strongly that keeps it from the host. Servers before knew one
// engine; which class of isolation their host gave is known to the server only, which fills it in
// (SqliteStore::record_isolation).
constexpr std::string_view kEngines = R"sql(
ALTER TABLE image_versions ADD COLUMN engine TEXT NOT NULL DEFAULT 'qemu';
ALTER TABLE image_versions ADD COLUMN isolation TEXT NOT NULL DEFAULT '';
ALTER TABLE microvms ADD COLUMN engine TEXT NOT NULL DEFAULT 'qemu';
ALTER TABLE microvms ADD COLUMN isolation TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN engine TEXT NOT NULL DEFAULT 'qemu';
ALTER TABLE events ADD COLUMN isolation TEXT NOT NULL DEFAULT '';
CREATE INDEX events_without_isolation ON events (engine) WHERE isolation = '';
)sql";

// Records of calls outlive their tenant and leave by the retention job alone: it says which moment
// it is in `retention_job`, and only what has expired by then may go.
constexpr std::string_view kSandbox = R"sql(
ALTER TABLE keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'owner';
ALTER TABLE keys ADD COLUMN agent TEXT NOT NULL DEFAULT '';
UPDATE keys SET kind = 'administrator' WHERE admin <> 0;

CREATE TABLE sandbox_templates (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  template TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE sandbox_policies (
  tenant TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
  tier TEXT NOT NULL CHECK (tier IN ('standard', 'regulated')),
  enabled INTEGER NOT NULL,
  retention_days INTEGER NOT NULL CHECK (retention_days BETWEEN 1 AND 180),
  keep_output INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cap_counters (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  dimension TEXT NOT NULL,
  subject TEXT NOT NULL,
  begin INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (tenant, dimension, subject, begin)
) STRICT, WITHOUT ROWID;
CREATE INDEX cap_counters_by_age ON cap_counters (begin);

CREATE TABLE sandbox_sessions (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  agent TEXT NOT NULL,
  turn TEXT NOT NULL,
  template TEXT NOT NULL,
  microvm TEXT NOT NULL,
  key TEXT NOT NULL,
  created INTEGER NOT NULL,
  last_call INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  ended INTEGER,
  end_reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sandbox_sessions_of_turns ON sandbox_sessions (tenant, agent, turn)
  WHERE turn <> '' AND ended IS NULL;
CREATE INDEX sandbox_sessions_by_age ON sandbox_sessions (tenant, created, id);
CREATE INDEX sandbox_sessions_ended ON sandbox_sessions (ended) WHERE ended IS NOT NULL;

CREATE TABLE invocations_open (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  template TEXT NOT NULL,
  language TEXT NOT NULL,
  key_id TEXT NOT NULL,
  executed_code_hash TEXT NOT NULL,
  code_bytes INTEGER NOT NULL,
  started INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sandbox_invocations (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  template TEXT NOT NULL,
  language TEXT NOT NULL,
  key_id TEXT NOT NULL,
  executed_code_hash TEXT NOT NULL,
  code_bytes INTEGER NOT NULL,
  started INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  exit_status TEXT NOT NULL
    CHECK (exit_status IN ('ok', 'error', 'timeout', 'oom', 'cap_exceeded', 'provisioning')),
  failure_reason TEXT NOT NULL,
  duration_ms INTEGER NOT NULL,
  stdout_bytes INTEGER NOT NULL,
  stderr_bytes INTEGER NOT NULL,
  stdout_truncated INTEGER NOT NULL,
  stderr_truncated INTEGER NOT NULL,
  stdout_hash TEXT NOT NULL,
  stderr_hash TEXT NOT NULL,
  CHECK (expires > started AND expires <= started + 15552000000)
) STRICT, WITHOUT ROWID;
CREATE INDEX sandbox_invocations_by_age ON sandbox_invocations (tenant_id, started, id);
CREATE INDEX sandbox_invocations_by_session ON sandbox_invocations (session_id);
CREATE INDEX sandbox_invocations_by_expiry ON sandbox_invocations (expires);

CREATE TABLE invocation_outputs (
  invocation TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  session TEXT NOT NULL,
  stdout BLOB NOT NULL,
  stderr BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invocation_outputs_by_tenant ON invocation_outputs (tenant);

CREATE TABLE retention_job (moment INTEGER NOT NULL) STRICT;
INSERT INTO retention_job (moment) VALUES (0);

CREATE TRIGGER sandbox_invocations_are_not_changed BEFORE UPDATE ON sandbox_invocations
BEGIN
  SELECT RAISE(ABORT, 'records of calls are never changed');
END;
-- INSERT OR REPLACE removes without asking the trigger of removals.
CREATE TRIGGER sandbox_invocations_are_not_replaced BEFORE INSERT ON sandbox_invocations
WHEN EXISTS (SELECT 1 FROM sandbox_invocations WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'records of calls are never replaced');
END;
CREATE TRIGGER sandbox_invocations_are_kept BEFORE DELETE ON sandbox_invocations
WHEN OLD.expires > (SELECT moment FROM retention_job)
BEGIN
  SELECT RAISE(ABORT, 'records of calls are kept until they expire');
END;
)sql";

// The value is sealed with the server's key, for this tenant and name.
constexpr std::string_view kSecrets = R"sql(
CREATE TABLE secrets (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  sealed BLOB NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
)sql";

constexpr std::array kMigrations{Migration{"first", kFirst},
                                 Migration{"egress", kEgress},
                                 Migration{"access tokens", kAccessTokens},
                                 Migration{"roles", kRoles},
                                 Migration{"usage days", kUsageDays},
                                 Migration{"microVM names", kMicrovmNames},
                                 Migration{"snapshots", kSnapshots},
                                 Migration{"engines", kEngines},
                                 Migration{"sandbox", kSandbox},
                                 Migration{"secrets", kSecrets}};

constexpr std::string_view kJournal = R"sql(
CREATE TABLE schema_migrations (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied INTEGER NOT NULL DEFAULT (unixepoch() * 1000)
) STRICT;
)sql";

Result<> check_owner(Connection& db) {
  FB_TRY_ASSIGN(std::int64_t owner, db.number("PRAGMA application_id"));
  if (owner == kApplicationId) return {};
  FB_TRY_ASSIGN(std::int64_t tables, db.number("SELECT count(*) FROM sqlite_schema"));
  if (owner == 0 && tables == 0) return {};
  return fail(Code::corrupt, "the store " + db.path() + " is a database of another program",
              Repair{"name another file"});
}

Result<> check_applied(Connection& db, std::span<const Migration> known, std::int64_t version) {
  auto unlisted = [&] {
    return fail(Code::corrupt,
                "the store " + db.path() + " says version " + std::to_string(version) +
                    " but does not list the migrations that make it",
                Repair{"restore it "
                       "from a backup"});
  };
  FB_TRY_ASSIGN(Statement rows, db.query("SELECT number, name, checksum FROM schema_migrations "
                                         "ORDER BY number"));
  for (std::int64_t expected = 1;; ++expected) {
    FB_TRY_ASSIGN(bool row, rows.step());
    if (!row && expected == version + 1) return {};
    if (!row || rows.i64() != expected || expected > version) return unlisted();
    const std::string name = rows.text();
    if (rows.text() != wire::sha256_hex(known[static_cast<std::size_t>(expected) - 1].sql)) {
      return fail(Code::corrupt,
                  "the store " + db.path() + " was made by another migration " +
                      std::to_string(expected) + " (" + name + ") than this program has",
                  Repair{"use the program that made it"});
    }
  }
}

Result<> apply(Connection& db, const Migration& migration, std::int64_t number) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(db));
  if (number == 1) FB_TRY(db.script(std::string(kJournal)));
  FB_TRY(db.script(std::string(migration.sql)));
  FB_TRY(db.run("INSERT INTO schema_migrations (number, name, checksum) VALUES (?, ?, ?)", number,
                migration.name, wire::sha256_hex(migration.sql)));
  // A pragma takes no bound value; both are numbers of ours.
  FB_TRY(db.script("PRAGMA application_id = " + std::to_string(kApplicationId) +
                   "; PRAGMA user_version = " + std::to_string(number)));
  return all.commit();
}

}  // namespace

std::span<const Migration> migrations() {
  return kMigrations;
}

Result<std::int64_t> check_version(Connection& db, std::span<const Migration> known) {
  FB_TRY(check_owner(db));
  FB_TRY_ASSIGN(std::int64_t version, db.number("PRAGMA user_version"));
  const auto newest = static_cast<std::int64_t>(known.size());
  if (version > newest) {
    return fail(Code::corrupt,
                "the store " + db.path() + " has version " + std::to_string(version) +
                    ", this program knows versions up to " + std::to_string(newest),
                Repair{"start the newer program"});
  }
  if (version > 0) FB_TRY(check_applied(db, known, version));
  return version;
}

Result<> migrate(Connection& db, std::span<const Migration> known) {
  FB_TRY_ASSIGN(std::int64_t version, check_version(db, known));
  while (version < static_cast<std::int64_t>(known.size())) {
    const Migration& migration = known[static_cast<std::size_t>(version)];
    ++version;
    if (auto done = apply(db, migration, version); !done) {
      return fail(done.error(), "migration " + std::to_string(version));
    }
  }
  return {};
}

}  // namespace firebreak::store
