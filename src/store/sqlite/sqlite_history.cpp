#include <algorithm>
#include <map>
#include <utility>

#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

Result<core::Event> read_event(Statement& row) {
  core::Event event;
  event.sequence = row.u64();
  event.at = row.time();
  event.tenant = row.id<core::TenantId>();
  event.microvm = row.id<core::MicrovmId>();
  FB_TRY_ASSIGN(event.from, decode(core::parse_microvm_state, row.text()));
  FB_TRY_ASSIGN(event.to, decode(core::parse_microvm_state, row.text()));
  event.reason = row.text();
  event.engine = row.text();
  FB_TRY_ASSIGN(event.isolation, decode_isolation(row.text()));
  return event;
}

core::Usage read_total(Statement& row) {
  core::Usage total;
  total.running_ms = row.u64();
  total.cpu_usec = row.u64();
  total.cpu_over_usec = row.u64();
  total.memory_mib_ms = row.u64();
  total.suspended_mib_ms = row.u64();
  total.snapshot_read_bytes = row.u64();
  total.snapshot_written_bytes = row.u64();
  total.bytes_in = row.u64();
  total.bytes_out = row.u64();
  return total;
}

// In the order of the table's columns; a migration only appends some.
Result<UsageRow> read_usage(Statement& row) {
  UsageRow out;
  out.microvm = row.id<core::MicrovmId>();
  out.tenant = row.id<core::TenantId>();
  out.meter.until = row.time();
  out.meter.cpu_counter = row.u64();
  out.meter.total = read_total(row);
  return out;
}

Result<UsageDay> read_day(Statement& row) {
  UsageDay out;
  out.day = row.time();
  out.microvms = row.u64();
  out.total = read_total(row);
  return out;
}

}  // namespace

Result<> SqliteStore::append_event(const core::Microvm& microvm, core::MicrovmState from,
                                   core::Time at, const std::string& reason) {
  FB_TRY(db_->run(
      "INSERT INTO events (at, tenant, microvm, from_state, to_state, reason, engine, "
      "isolation) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      at, microvm.tenant, microvm.id, core::to_string(from), core::to_string(microvm.state), reason,
      microvm.engine, core::to_string(microvm.isolation)));
  return {};
}

Result<> SqliteStore::note(const core::MicrovmId& id, const std::string& what, core::Time at) {
  constexpr core::Seconds kSame{60};
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(auto microvm, find_any_microvm(id));
  if (!microvm) return fail(Code::not_found, "microVM " + id.str() + " does not exist");
  FB_TRY_ASSIGN(const auto newest,
                read_one(db_->query("SELECT sequence, at, tenant, microvm, from_state, to_state, "
                                    "reason, engine, isolation FROM events WHERE microvm = ? "
                                    "ORDER BY sequence DESC LIMIT 1",
                                    id),
                         read_event));
  if (newest && newest->reason == what && newest->from == newest->to && at - newest->at < kSame)
    return {};
  FB_TRY(append_event(*microvm, microvm->state, at, what));
  return all.commit();
}

Result<std::vector<core::Event>> SqliteStore::events(const core::TenantId& tenant,
                                                     std::optional<core::MicrovmId> microvm,
                                                     std::uint64_t after,
                                                     std::uint32_t limit) const {
  const auto first = static_cast<std::int64_t>(std::min<std::uint64_t>(after, INT64_MAX));
  if (microvm) {
    return read_all(
        db_->query("SELECT sequence, at, tenant, microvm, from_state, to_state, reason, "
                   "engine, isolation "
                   "FROM events WHERE microvm = ? AND tenant = ? AND sequence > ? "
                   "ORDER BY sequence LIMIT ?",
                   *microvm, tenant, first, limit),
        read_event);
  }
  return read_all(db_->query("SELECT sequence, at, tenant, microvm, from_state, to_state, reason, "
                             "engine, isolation "
                             "FROM events WHERE tenant = ? AND sequence > ? "
                             "ORDER BY sequence LIMIT ?",
                             tenant, first, limit),
                  read_event);
}

Result<std::uint64_t> SqliteStore::last_event() const {
  // Not max(sequence): numbers are not given again when the last events are forgotten.
  FB_TRY_ASSIGN(std::int64_t last,
                db_->number("SELECT seq FROM sqlite_sequence WHERE name = 'events'"));
  return static_cast<std::uint64_t>(last);
}

Result<std::uint64_t> SqliteStore::forget_events(core::Time before) {
  return db_->run("DELETE FROM events WHERE at < ?", before);
}

Result<std::optional<core::Meter>> SqliteStore::meter(const core::MicrovmId& id) const {
  FB_TRY_ASSIGN(auto row,
                read_one(db_->query("SELECT * FROM usage WHERE microvm = ?", id), read_usage));
  if (!row) return std::nullopt;
  return row->meter;
}

Result<> SqliteStore::save_meter(const UsageRow& row) {
  const core::Usage& total = row.meter.total;
  // A tenant removed meanwhile must not make the others' meters fail.
  FB_TRY(db_->run(
      "INSERT OR REPLACE INTO usage (microvm, tenant, metered_until, cpu_counter, "
      "running_ms, cpu_usec, cpu_over_usec, memory_mib_ms, suspended_mib_ms, "
      "snapshot_read_bytes, snapshot_written_bytes, bytes_in, bytes_out) "
      "SELECT ?, id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM tenants WHERE id = ?",
      row.microvm, row.meter.until, row.meter.cpu_counter, total.running_ms, total.cpu_usec,
      total.cpu_over_usec, total.memory_mib_ms, total.suspended_mib_ms, total.snapshot_read_bytes,
      total.snapshot_written_bytes, total.bytes_in, total.bytes_out, row.tenant));
  return {};
}

Result<> SqliteStore::save_meters(const std::vector<UsageRow>& rows) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  for (const UsageRow& row : rows) FB_TRY(save_meter(row));
  return all.commit();
}

Result<std::vector<UsageRow>> SqliteStore::usage(const core::TenantId& tenant, core::Time since,
                                                 std::uint32_t limit) const {
  return read_all(db_->query("SELECT * FROM usage WHERE tenant = ? AND metered_until >= ? "
                             "ORDER BY metered_until DESC, microvm LIMIT ?",
                             tenant, since, limit),
                  read_usage);
}

Result<> SqliteStore::add_to_day(const core::TenantId& tenant, const UsageDay& more) {
  const core::Usage& total = more.total;
  FB_TRY(db_->run(
      "INSERT INTO usage_days (tenant, day, microvms, running_ms, cpu_usec, cpu_over_usec, "
      "memory_mib_ms, suspended_mib_ms, snapshot_read_bytes, snapshot_written_bytes, bytes_in, "
      "bytes_out) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
      "ON CONFLICT DO UPDATE SET microvms = microvms + excluded.microvms, "
      "running_ms = running_ms + excluded.running_ms, cpu_usec = cpu_usec + excluded.cpu_usec, "
      "cpu_over_usec = cpu_over_usec + excluded.cpu_over_usec, "
      "memory_mib_ms = memory_mib_ms + excluded.memory_mib_ms, "
      "suspended_mib_ms = suspended_mib_ms + excluded.suspended_mib_ms, "
      "snapshot_read_bytes = snapshot_read_bytes + excluded.snapshot_read_bytes, "
      "snapshot_written_bytes = snapshot_written_bytes + excluded.snapshot_written_bytes, "
      "bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out",
      tenant, more.day, more.microvms, total.running_ms, total.cpu_usec, total.cpu_over_usec,
      total.memory_mib_ms, total.suspended_mib_ms, total.snapshot_read_bytes,
      total.snapshot_written_bytes, total.bytes_in, total.bytes_out));
  return {};
}

Result<std::uint64_t> SqliteStore::roll_up_usage(core::Time before, std::uint32_t most) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  // Tenant by tenant, because the index is by tenant.
  FB_TRY_ASSIGN(
      const auto rows,
      read_all(db_->query("DELETE FROM usage WHERE microvm IN (SELECT u.microvm FROM usage u "
                          "WHERE u.tenant IN (SELECT id FROM tenants) AND u.metered_until < ? "
                          "AND NOT EXISTS (SELECT 1 FROM microvms m WHERE m.id = u.microvm "
                          "AND m.state <> 'TERMINATED') LIMIT ?) RETURNING *",
                          before, most),
               read_usage));
  std::map<std::pair<core::TenantId, core::Time>, UsageDay> days;
  for (const UsageRow& row : rows) {
    const core::Time day = std::chrono::floor<std::chrono::days>(row.meter.until);
    UsageDay& sum = days[{row.tenant, day}];
    sum.day = day;
    ++sum.microvms;
    sum.total += row.meter.total;
  }
  for (const auto& [key, day] : days) FB_TRY(add_to_day(key.first, day));
  FB_TRY(all.commit());
  return rows.size();
}

Result<std::vector<UsageDay>> SqliteStore::usage_days(const core::TenantId& tenant,
                                                      core::Time since) const {
  const core::Time first = std::chrono::floor<std::chrono::days>(since);
  return read_all(db_->query("SELECT day, microvms, running_ms, cpu_usec, cpu_over_usec, "
                             "memory_mib_ms, suspended_mib_ms, snapshot_read_bytes, "
                             "snapshot_written_bytes, bytes_in, bytes_out FROM usage_days "
                             "WHERE tenant = ? AND day >= ? ORDER BY day DESC",
                             tenant, first),
                  read_day);
}

Result<core::Usage> SqliteStore::usage_total(const core::TenantId& tenant, core::Time since) const {
  // Of one moment: what is rolled up in between would count twice or not at all.
  FB_TRY_ASSIGN(const Atomic moment, Atomic::begin(*db_, Access::read));
  FB_TRY_ASSIGN(
      const auto row,
      read_one(db_->query("SELECT '', tenant, 0, 0, coalesce(sum(running_ms), 0), "
                          "coalesce(sum(cpu_usec), 0), coalesce(sum(cpu_over_usec), 0), "
                          "coalesce(sum(memory_mib_ms), 0), coalesce(sum(suspended_mib_ms), 0), "
                          "coalesce(sum(snapshot_read_bytes), 0), "
                          "coalesce(sum(snapshot_written_bytes), 0), "
                          "coalesce(sum(bytes_in), 0), coalesce(sum(bytes_out), 0) "
                          "FROM usage WHERE tenant = ? AND metered_until >= ? GROUP BY tenant",
                          tenant, since),
               read_usage));
  core::Usage total = row ? row->meter.total : core::Usage{};
  FB_TRY_ASSIGN(const auto days, usage_days(tenant, since));
  for (const UsageDay& day : days) total += day.total;
  return total;
}

}  // namespace firebreak::store
