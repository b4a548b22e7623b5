#include "store/page_token.h"
#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

constexpr core::Seconds kTokenMemory{24 * 3600};

std::optional<core::Seconds> optional_seconds(Statement& row) {
  auto value = row.optional_i64();
  if (!value) return std::nullopt;
  return core::Seconds(*value);
}

Result<std::optional<core::IdlePolicy>> read_idle(Statement& row) {
  const auto max_idle = optional_seconds(row);
  const auto suspended = optional_seconds(row);
  const auto auto_resume = row.optional_i64();
  const std::string rule = row.text();
  if (!max_idle) return std::nullopt;
  core::IdlePolicy idle{.max_idle = *max_idle,
                        .suspended = suspended.value_or(core::Seconds(0)),
                        .auto_resume = auto_resume.value_or(0) != 0};
  FB_TRY_ASSIGN(idle.rule, decode(core::parse_idle_rule, rule));
  return idle;
}

// In the order of the table's columns; a migration only appends some.
Result<core::Microvm> read_microvm(Statement& row) {
  core::Microvm microvm;
  microvm.id = row.id<core::MicrovmId>();
  microvm.tenant = row.id<core::TenantId>();
  microvm.endpoint = row.id<core::EndpointId>();
  microvm.image = row.id<core::ImageId>();
  microvm.image_name = row.text();
  microvm.image_version = row.u32();
  microvm.memory_mib = row.u32();
  FB_TRY_ASSIGN(microvm.state, decode(core::parse_microvm_state, row.text()));
  FB_TRY_ASSIGN(microvm.intent, decode(core::parse_intent, row.text()));
  microvm.state_reason = row.text();
  FB_TRY_ASSIGN(microvm.idle, read_idle(row));
  microvm.max_duration = optional_seconds(row);
  microvm.payload = row.text();
  microvm.generation = row.u64();
  microvm.parent = row.id<core::MicrovmId>();
  microvm.client_token = row.text();
  microvm.request_hash = row.text();
  FB_TRY_ASSIGN(microvm.tags, decode_map(row.text()));
  microvm.config = row.text();
  microvm.started = row.time();
  microvm.state_since = row.time();
  microvm.suspended_at = row.optional_time();
  microvm.terminated = row.optional_time();
  microvm.revision = row.u64();
  microvm.egress = row.text();
  microvm.role = row.text();
  microvm.name = row.text();
  FB_TRY_ASSIGN(microvm.env, decode_map(row.text()));
  microvm.engine = row.text();
  FB_TRY_ASSIGN(microvm.isolation, decode_isolation(row.text()));
  return microvm;
}

Result<core::MicrovmId> read_id(Statement& row) {
  return row.id<core::MicrovmId>();
}

// The four columns of an idle policy; all NULL without one.
struct IdleColumns {
  explicit IdleColumns(const std::optional<core::IdlePolicy>& idle) {
    if (!idle) return;
    max = idle->max_idle;
    suspended = idle->suspended;
    resume = idle->auto_resume;
    rule = core::to_string(idle->rule);
  }
  std::optional<core::Seconds> max;
  std::optional<core::Seconds> suspended;
  std::optional<bool> resume;
  std::optional<std::string_view> rule;
};

Result<> insert_microvm(Connection& db, const core::Microvm& vm) {
  const IdleColumns idle(vm.idle);
  FB_TRY_ASSIGN(std::string tags, encode_map(vm.tags));
  FB_TRY_ASSIGN(std::string env, encode_map(vm.env));
  return require_added(
      db.run("INSERT INTO microvms (id, tenant, endpoint, image, image_name, image_version, "
             "memory_mib, state, intent, state_reason, idle_max, idle_suspended, idle_resume, "
             "idle_rule, max_duration, payload, generation, parent, client_token, request_hash, "
             "tags, config, started, state_since, suspended_at, terminated, revision, egress, "
             "role, name, env, engine, isolation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
             "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
             vm.id, vm.tenant, vm.endpoint, vm.image, vm.image_name, vm.image_version,
             vm.memory_mib, core::to_string(vm.state), core::to_string(vm.intent), vm.state_reason,
             idle.max, idle.suspended, idle.resume, idle.rule, vm.max_duration, vm.payload,
             vm.generation, vm.parent, vm.client_token, vm.request_hash, tags, vm.config,
             vm.started, vm.state_since, vm.suspended_at, vm.terminated, vm.revision, vm.egress,
             vm.role, vm.name, env, vm.engine, core::to_string(vm.isolation)),
      "microVM " + vm.id.str());
}

// What a change can touch.
Result<> update_microvm(Connection& db, const core::Microvm& vm) {
  const IdleColumns idle(vm.idle);
  FB_TRY_ASSIGN(std::string env, encode_map(vm.env));
  return require_change(
      db.run("UPDATE microvms SET state = ?, intent = ?, state_reason = ?, idle_max = ?, "
             "idle_suspended = ?, idle_resume = ?, idle_rule = ?, max_duration = ?, payload = ?, "
             "generation = ?, state_since = ?, suspended_at = ?, terminated = ?, revision = ?, "
             "egress = ?, name = ?, env = ? "
             "WHERE id = ?",
             core::to_string(vm.state), core::to_string(vm.intent), vm.state_reason, idle.max,
             idle.suspended, idle.resume, idle.rule, vm.max_duration, vm.payload, vm.generation,
             vm.state_since, vm.suspended_at, vm.terminated, vm.revision, vm.egress, vm.name, env,
             vm.id),
      "microVM " + vm.id.str());
}

// One text for each: a condition that could be either would use no index. For all, ?1 is NULL.
const std::string& list_text(bool of_one_tenant) {
  const auto text = [](const std::string& whose) {
    return "SELECT * FROM microvms WHERE " + whose +
           " AND (?2 IS NULL OR image = ?2) AND (?3 IS NULL OR image_version = ?3) "
           "AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR EXISTS (SELECT 1 FROM "
           "json_each(tags) AS tag WHERE tag.key = ?5 AND tag.atom = ?6)) "
           "AND (started, id) < (?7, ?8) ORDER BY started DESC, id DESC LIMIT ?9";
  };
  static const std::string of_tenant = text("tenant = ?1");
  static const std::string of_all = text("?1 IS NULL");
  return of_one_tenant ? of_tenant : of_all;
}

std::vector<std::string> scope_of(const std::optional<core::TenantId>& tenant,
                                  const MicrovmFilter& filter) {
  auto part = [](bool set, std::string text) { return set ? "=" + text : std::string("*"); };
  return {"microvms",
          tenant ? tenant->str() : "*",
          part(filter.image.has_value(), filter.image ? filter.image->str() : ""),
          part(filter.version.has_value(), std::to_string(filter.version.value_or(0))),
          part(filter.state.has_value(),
               filter.state ? std::string(core::to_string(*filter.state)) : ""),
          part(filter.tag.has_value(), filter.tag ? filter.tag->first : ""),
          part(filter.tag.has_value(), filter.tag ? filter.tag->second : "")};
}

}  // namespace

Result<std::optional<core::Microvm>> SqliteStore::made_before(const core::Microvm& asked) {
  if (asked.client_token.empty()) return std::nullopt;
  FB_TRY(db_->run("DELETE FROM client_tokens WHERE created <= ?", asked.started - kTokenMemory));
  FB_TRY_ASSIGN(auto made,
                read_one(db_->query("SELECT microvms.* FROM client_tokens "
                                    "JOIN microvms ON microvms.id = client_tokens.microvm "
                                    "WHERE client_tokens.tenant = ? AND token = ?",
                                    asked.tenant, asked.client_token),
                         read_microvm));
  if (made && made->request_hash != asked.request_hash) {
    return fail(Code::conflict, Reason{"client_token_used"},
                "the client token was used for another request",
                Repair{"use a new one for each request"});
  }
  return made;
}

Result<Store::Created> SqliteStore::create_microvm(const core::Microvm& microvm,
                                                   const core::TenantLimits& limits) {
  if (microvm.state != core::MicrovmState::pending) {
    return fail(Code::invalid, "a microVM begins as PENDING");
  }
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(auto before, made_before(microvm));
  if (before) {
    FB_TRY(all.commit());
    return Created{.microvm = *std::move(before), .created = false};
  }
  FB_TRY_ASSIGN(core::TenantUse use, tenant_use(microvm.tenant));
  if (auto refusal = core::check_launch(limits, use, microvm.memory_mib)) {
    return std::unexpected(refusal->error());
  }
  FB_TRY(check_name(microvm));
  Created out{.microvm = microvm, .created = true};
  out.microvm.revision = 1;
  FB_TRY(insert_microvm(*db_, out.microvm));
  if (!microvm.client_token.empty()) {
    FB_TRY(
        db_->run("INSERT INTO client_tokens (tenant, token, microvm, created) "
                 "VALUES (?, ?, ?, ?)",
                 microvm.tenant, microvm.client_token, microvm.id, microvm.started));
  }
  FB_TRY(append_event(out.microvm, microvm.state, microvm.started, microvm.state_reason));
  FB_TRY(all.commit());
  return out;
}

Result<std::optional<core::Microvm>> SqliteStore::find_microvm(const core::TenantId& tenant,
                                                               const core::MicrovmId& id) const {
  return read_one(db_->query("SELECT * FROM microvms WHERE id = ? AND tenant = ?", id, tenant),
                  read_microvm);
}

Result<> SqliteStore::check_name(const core::Microvm& microvm) const {
  if (microvm.name.empty()) return {};
  FB_TRY_ASSIGN(const auto other,
                read_one(db_->query("SELECT id FROM microvms WHERE tenant = ? AND name = ? "
                                    "AND name <> '' AND state <> 'TERMINATED' AND id <> ?",
                                    microvm.tenant, microvm.name, microvm.id),
                         read_id));
  if (!other) return {};
  return fail(Code::conflict, Reason{"name_taken"},
              "the microVM " + other->str() + " has the name " + microvm.name,
              Repair{"choose another name, or end that one"});
}

Result<std::optional<core::MicrovmId>> SqliteStore::find_microvm_by_name(
    const core::TenantId& tenant, const std::string& name) const {
  return read_one(db_->query("SELECT id FROM microvms WHERE tenant = ? AND name = ? AND name <> '' "
                             "ORDER BY state = 'TERMINATED', started DESC, id LIMIT 1",
                             tenant, name),
                  read_id);
}

Result<std::vector<core::MicrovmId>> SqliteStore::microvm_ids_beginning(
    const core::TenantId& tenant, const std::string& prefix) const {
  // All that begin so are between it and it with the greatest character after it.
  return read_all(db_->query("SELECT id FROM microvms WHERE id >= ?1 AND id < ?1 || '~' "
                             "AND tenant = ?2 ORDER BY id",
                             prefix, tenant),
                  read_id);
}

Result<std::optional<core::Microvm>> SqliteStore::find_any_microvm(
    const core::MicrovmId& id) const {
  return read_one(db_->query("SELECT * FROM microvms WHERE id = ?", id), read_microvm);
}

Result<std::optional<core::Microvm>> SqliteStore::find_by_endpoint(
    const core::EndpointId& id) const {
  return read_one(db_->query("SELECT * FROM microvms WHERE endpoint = ?", id), read_microvm);
}

Result<Page<core::Microvm>> SqliteStore::list_microvms(const core::TenantId& tenant,
                                                       const MicrovmFilter& filter,
                                                       const PageRequest& page) const {
  return list_some(tenant, filter, page);
}

Result<Page<core::Microvm>> SqliteStore::list_all_microvms(const MicrovmFilter& filter,
                                                           const PageRequest& page) const {
  return list_some(std::nullopt, filter, page);
}

Result<Page<core::Microvm>> SqliteStore::list_some(const std::optional<core::TenantId>& tenant,
                                                   const MicrovmFilter& filter,
                                                   const PageRequest& page) const {
  FB_TRY(check_page_size(page.size));
  const std::vector<std::string> scope = scope_of(tenant, filter);
  FB_TRY_ASSIGN(Position from, read_page_token(scope, page.token));
  std::optional<std::string_view> state;
  if (filter.state) state = core::to_string(*filter.state);
  std::optional<std::string> tag_key;
  std::optional<std::string> tag_value;
  if (filter.tag) std::tie(tag_key, tag_value) = *filter.tag;
  // One row more than asked for tells whether there is a next page.
  FB_TRY_ASSIGN(auto microvms, read_all(db_->query(list_text(tenant.has_value()), tenant,
                                                   filter.image, filter.version, state, tag_key,
                                                   tag_value, from.time, from.id, page.size + 1),
                                        read_microvm));
  Page<core::Microvm> out{.items = std::move(microvms)};
  if (out.items.size() > page.size) {
    out.items.pop_back();
    const core::Microvm& last = out.items.back();
    out.next = make_page_token(scope, {last.started, last.id.str()});
  }
  return out;
}

Result<std::vector<core::Microvm>> SqliteStore::live_microvms() const {
  return read_all(
      db_->query("SELECT * FROM microvms WHERE state <> 'TERMINATED' ORDER BY started, id"),
      read_microvm);
}

Result<core::Microvm> SqliteStore::change(const MicrovmChange& change) {
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY_ASSIGN(auto found, read_one(db_->query("SELECT * FROM microvms WHERE id = ?", change.id),
                                     read_microvm));
  if (!found)
    return fail(Code::not_found, Reason{"microvm_not_found"},
                "microVM " + change.id.str() + " does not exist");
  core::Microvm now = *std::move(found);
  if (now.revision != change.expected) {
    Error error =
        fail(Code::conflict, Reason{"changed_meanwhile"},
             "microVM " + change.id.str() + " was changed meanwhile", Repair{"read it again"})
            .error();
    error.detail = "revision " + std::to_string(now.revision) + ", expected " +
                   std::to_string(change.expected);
    return std::unexpected(std::move(error));
  }
  const core::MicrovmState from = now.state;
  if (change.state) FB_TRY(core::enter(now, *change.state, change.at));
  if (change.intent) now.intent = *change.intent;
  if (change.reason) now.state_reason = *change.reason;
  if (change.idle) now.idle = *change.idle;
  if (change.max_duration) now.max_duration = *change.max_duration;
  if (change.generation) now.generation = *change.generation;
  if (change.egress) now.egress = *change.egress;
  if (change.clear_payload) now.payload.clear();
  if (change.name) {
    now.name = *change.name;
    FB_TRY(check_name(now));
  }
  ++now.revision;
  FB_TRY(update_microvm(*db_, now));
  if (change.state) FB_TRY(append_event(now, from, change.at, change.reason.value_or("")));
  if (change.meter) FB_TRY(save_meter({now.id, now.tenant, *change.meter}));
  FB_TRY(all.commit());
  return now;
}

Result<core::TenantUse> SqliteStore::tenant_use(const core::TenantId& tenant) const {
  core::TenantUse use;
  FB_TRY_ASSIGN(const Atomic moment, Atomic::begin(*db_, Access::read));
  {
    FB_TRY_ASSIGN(Statement live,
                  db_->query("SELECT count(*), coalesce(sum(memory_mib), 0) FROM microvms "
                             "WHERE tenant = ? AND state <> 'TERMINATED'",
                             tenant));
    FB_TRY(live.step());
    use.microvms = live.u32();
    use.memory_mib = live.u64();
  }
  FB_TRY_ASSIGN(std::int64_t images,
                db_->number("SELECT count(*) FROM images WHERE tenant = ?", tenant));
  use.images = static_cast<std::uint32_t>(images);
  return use;
}

Result<std::vector<core::MicrovmId>> SqliteStore::microvm_ids() const {
  return read_all(db_->query("SELECT id FROM microvms ORDER BY id"), read_id);
}

Result<std::uint64_t> SqliteStore::forget_terminated(core::Time before) {
  // Events and client tokens go with them.
  return db_->run("DELETE FROM microvms WHERE state = 'TERMINATED' AND terminated < ?", before);
}

}  // namespace firebreak::store
