#include "store/page_token.h"
#include "store/sqlite/codec.h"
#include "store/sqlite/sqlite_engine.h"

namespace firebreak::store {

namespace {

Result<core::Image> read_image(Statement& row) {
  core::Image image;
  image.id = row.id<core::ImageId>();
  image.tenant = row.id<core::TenantId>();
  image.name = row.text();
  FB_TRY_ASSIGN(image.state, decode(core::parse_image_state, row.text()));
  FB_TRY_ASSIGN(image.tags, decode_map(row.text()));
  image.created = row.time();
  image.updated = row.optional_time();
  return image;
}

}  // namespace

Result<> SqliteStore::create_image(const core::Image& image) {
  FB_TRY_ASSIGN(std::string tags, encode_map(image.tags));
  return require_added(db_->run("INSERT INTO images (id, tenant, name, state, tags, created, "
                                "updated) VALUES (?, ?, ?, ?, ?, ?, ?)",
                                image.id, image.tenant, image.name, core::to_string(image.state),
                                tags, image.created, image.updated),
                       "image " + image.name);
}

Result<std::optional<core::Image>> SqliteStore::find_image(const core::TenantId& tenant,
                                                           const core::ImageId& id) const {
  return read_one(db_->query("SELECT id, tenant, name, state, tags, created, updated FROM images "
                             "WHERE id = ? AND tenant IN (?, ?)",
                             id, tenant, core::kSystemTenant),
                  read_image);
}

Result<std::optional<core::Image>> SqliteStore::find_image_by_name(const core::TenantId& tenant,
                                                                   const std::string& name) const {
  return read_one(db_->query("SELECT id, tenant, name, state, tags, created, updated FROM images "
                             "WHERE name = ?1 AND tenant IN (?2, ?3) ORDER BY tenant = ?2 DESC",
                             name, tenant, core::kSystemTenant),
                  read_image);
}

Result<Page<core::Image>> SqliteStore::list_images(const core::TenantId& tenant,
                                                   const std::string& name_contains,
                                                   const PageRequest& page) const {
  FB_TRY(check_page_size(page.size));
  const std::vector<std::string> scope{"images", tenant.str(), name_contains};
  FB_TRY_ASSIGN(Position from, read_page_token(scope, page.token));
  // One row more than asked for tells whether there is a next page.
  FB_TRY_ASSIGN(
      auto images,
      read_all(
          db_->query("SELECT id, tenant, name, state, tags, created, updated FROM images "
                     "WHERE tenant IN (?1, ?2) AND (?3 = '' OR instr(name, ?3) > 0) "
                     "AND (created, id) < (?4, ?5) "
                     "ORDER BY created DESC, id DESC LIMIT ?6",
                     tenant, core::kSystemTenant, name_contains, from.time, from.id, page.size + 1),
          read_image));
  Page<core::Image> out{.items = std::move(images)};
  if (out.items.size() > page.size) {
    out.items.pop_back();
    const core::Image& last = out.items.back();
    out.next = make_page_token(scope, {last.created, last.id.str()});
  }
  return out;
}

Result<> SqliteStore::update_image(const core::Image& image) {
  FB_TRY_ASSIGN(std::string tags, encode_map(image.tags));
  return require_change(
      db_->run("UPDATE images SET state = ?, tags = ?, updated = ? "
               "WHERE id = ? AND tenant = ?",
               core::to_string(image.state), tags, image.updated, image.id, image.tenant),
      "image " + image.id.str());
}

Result<> SqliteStore::remove_image(const core::ImageId& id) {
  return require_change(db_->run("DELETE FROM images WHERE id = ?", id), "image " + id.str());
}

}  // namespace firebreak::store
