#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

Result<core::ImageVersion> read_version(Statement& row) {
  core::ImageVersion version;
  version.image = row.id<core::ImageId>();
  version.number = row.u32();
  FB_TRY_ASSIGN(version.state, decode(core::parse_version_state, row.text()));
  version.active = row.boolean();
  version.state_reason = row.text();
  version.memory_mib = row.u32();
  FB_TRY_ASSIGN(version.hooks, stored(core::hooks_from_json(row.text()), "hook setting"));
  FB_TRY_ASSIGN(version.env, decode_map(row.text()));
  version.snapshot = row.text();
  version.config = row.text();
  version.created = row.time();
  version.updated = row.optional_time();
  version.egress = row.text();
  version.engine = row.text();
  FB_TRY_ASSIGN(version.isolation, decode_isolation(row.text()));
  return version;
}

Result<core::Build> read_build(Statement& row) {
  core::Build build;
  build.id = row.id<core::BuildId>();
  build.image = row.id<core::ImageId>();
  build.version = row.u32();
  FB_TRY_ASSIGN(build.state, decode(core::parse_build_state, row.text()));
  build.state_reason = row.text();
  build.memory_bytes = row.u64();
  build.disk_bytes = row.u64();
  build.created = row.time();
  build.finished = row.optional_time();
  return build;
}

std::string name_of(const core::ImageId& image, std::uint32_t number) {
  return "version " + core::version_text(number) + " of image " + image.str();
}

}  // namespace

Result<> SqliteStore::create_version(const core::ImageVersion& version) {
  FB_TRY(core::check(version.hooks));
  FB_TRY_ASSIGN(std::string env, encode_map(version.env));
  return require_added(
      db_->run("INSERT INTO image_versions (image, number, state, active, state_reason, "
               "memory_mib, hooks, env, snapshot, config, created, updated, egress, engine, "
               "isolation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               version.image, version.number, core::to_string(version.state), version.active,
               version.state_reason, version.memory_mib, core::to_json(version.hooks), env,
               version.snapshot, version.config, version.created, version.updated, version.egress,
               version.engine, core::to_string(version.isolation)),
      name_of(version.image, version.number));
}

Result<std::optional<core::ImageVersion>> SqliteStore::find_version(const core::ImageId& image,
                                                                    std::uint32_t number) const {
  return read_one(
      db_->query("SELECT image, number, state, active, state_reason, memory_mib, hooks, env, "
                 "snapshot, config, created, updated, egress, engine, isolation "
                 "FROM image_versions "
                 "WHERE image = ? AND number = ?",
                 image, number),
      read_version);
}

Result<std::vector<core::ImageVersion>> SqliteStore::list_versions(
    const core::ImageId& image) const {
  return read_all(
      db_->query("SELECT image, number, state, active, state_reason, memory_mib, hooks, env, "
                 "snapshot, config, created, updated, egress, engine, isolation "
                 "FROM image_versions "
                 "WHERE image = ? ORDER BY number",
                 image),
      read_version);
}

Result<std::optional<core::ImageVersion>> SqliteStore::latest_runnable(
    const core::ImageId& image) const {
  return read_one(
      db_->query("SELECT image, number, state, active, state_reason, memory_mib, hooks, env, "
                 "snapshot, config, created, updated, egress, engine, isolation "
                 "FROM image_versions "
                 "WHERE image = ? AND state = 'SUCCESSFUL' AND active "
                 "ORDER BY number DESC LIMIT 1",
                 image),
      read_version);
}

Result<> SqliteStore::update_version(const core::ImageVersion& version) {
  FB_TRY(core::check(version.hooks));
  FB_TRY_ASSIGN(std::string env, encode_map(version.env));
  return require_change(
      db_->run("UPDATE image_versions SET state = ?, active = ?, state_reason = ?, "
               "memory_mib = ?, hooks = ?, env = ?, snapshot = ?, config = ?, updated = ?, "
               "egress = ?, engine = ?, isolation = ? "
               "WHERE image = ? AND number = ?",
               core::to_string(version.state), version.active, version.state_reason,
               version.memory_mib, core::to_json(version.hooks), env, version.snapshot,
               version.config, version.updated, version.egress, version.engine,
               core::to_string(version.isolation), version.image, version.number),
      name_of(version.image, version.number));
}

Result<> SqliteStore::remove_version(const core::ImageId& image, std::uint32_t number) {
  return require_change(
      db_->run("DELETE FROM image_versions WHERE image = ? AND number = ?", image, number),
      name_of(image, number));
}

Result<std::vector<core::ImageVersion>> SqliteStore::versions_with_snapshot(
    const std::string& snapshot) const {
  return read_all(
      db_->query(
          "SELECT image, number, state, active, state_reason, memory_mib, hooks, env, "
          "snapshot, config, created, updated, egress, engine, isolation FROM image_versions "
          "WHERE snapshot = ? AND snapshot <> '' ORDER BY image, number",
          snapshot),
      read_version);
}

Result<std::vector<core::ImageVersion>> SqliteStore::all_versions() const {
  return read_all(
      db_->query("SELECT image, number, state, active, state_reason, memory_mib, hooks, env, "
                 "snapshot, config, created, updated, egress, engine, isolation "
                 "FROM image_versions "
                 "ORDER BY image, number"),
      read_version);
}

Result<> SqliteStore::record_isolation(const std::string& engine, core::Isolation isolation) {
  const std::string_view text = core::to_string(isolation);
  FB_TRY_ASSIGN(Atomic all, Atomic::begin(*db_));
  FB_TRY(db_->run("UPDATE image_versions SET isolation = ? WHERE isolation = '' AND engine = ?",
                  text, engine));
  FB_TRY(db_->run("UPDATE microvms SET isolation = ? WHERE isolation = '' AND engine = ?", text,
                  engine));
  FB_TRY(db_->run("UPDATE events SET isolation = ? WHERE isolation = '' AND engine = ?", text,
                  engine));
  return all.commit();
}

Result<> SqliteStore::create_build(const core::Build& build) {
  return require_added(
      db_->run("INSERT INTO builds (id, image, version, state, state_reason, memory_bytes, "
               "disk_bytes, created, finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
               build.id, build.image, build.version, core::to_string(build.state),
               build.state_reason, build.memory_bytes, build.disk_bytes, build.created,
               build.finished),
      "build " + build.id.str());
}

Result<> SqliteStore::update_build(const core::Build& build) {
  return require_change(
      db_->run("UPDATE builds SET state = ?, state_reason = ?, memory_bytes = ?, disk_bytes = ?, "
               "finished = ? WHERE id = ? AND image = ? AND version = ?",
               core::to_string(build.state), build.state_reason, build.memory_bytes,
               build.disk_bytes, build.finished, build.id, build.image, build.version),
      "build " + build.id.str());
}

Result<std::optional<core::Build>> SqliteStore::find_build(const core::ImageId& image,
                                                           std::uint32_t version,
                                                           const core::BuildId& id) const {
  return read_one(
      db_->query("SELECT id, image, version, state, state_reason, memory_bytes, disk_bytes, "
                 "created, finished FROM builds WHERE id = ? AND image = ? AND version = ?",
                 id, image, version),
      read_build);
}

Result<std::vector<core::Build>> SqliteStore::list_builds(const core::ImageId& image,
                                                          std::uint32_t version) const {
  return read_all(
      db_->query("SELECT id, image, version, state, state_reason, memory_bytes, disk_bytes, "
                 "created, finished FROM builds WHERE image = ? AND version = ? "
                 "ORDER BY created DESC, id DESC",
                 image, version),
      read_build);
}

}  // namespace firebreak::store
