#include "object/object_files.h"

#include "base/json.h"
#include "base/sys.h"
#include "wire/crypto.h"

namespace firebreak::object {
namespace {

// Of a record: metadata is bounded by what a request's head may hold.
constexpr std::size_t kMaxRecord = 4UL << 20;

json::object map_json(const std::map<std::string, std::string>& map) {
  json::object out;
  for (const auto& [name, value] : map) out[name] = value;
  return out;
}

json::object part_json(const PartInfo& part) {
  return {{"number", part.number},
          {"size", part.size},
          {"etag", part.etag},
          {"modified", core::to_unix_ms(part.modified)},
          {"file", part.file}};
}

Result<json::object> read_json(const std::string& path) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path, kMaxRecord));
  auto object = parse_json_object(text);
  if (!object) return fail(Code::corrupt, "the record " + path + " is damaged");
  return object;
}

Result<PartInfo> read_part(const json::object& object) {
  JsonReader reader(object);
  PartInfo part;
  part.number = static_cast<std::uint32_t>(reader.u64("number"));
  part.size = reader.u64("size");
  part.etag = reader.string("etag");
  part.modified = core::from_unix_ms(reader.i64("modified"));
  part.file = reader.string("file");
  FB_TRY(reader.result());
  return part;
}

}  // namespace

std::string record_name(std::string_view key) {
  return "object-" + wire::sha256_hex(key) + ".json";
}

std::string new_data_name() {
  return "data-" + sys::random_hex(16);
}

std::string upload_name(std::string_view id) {
  return "upload-" + std::string(id) + ".json";
}

Result<> write_record(const std::string& directory, const ObjectInfo& info) {
  const json::object record{{"key", info.key},
                            {"size", info.size},
                            {"etag", info.etag},
                            {"modified", core::to_unix_ms(info.modified)},
                            {"headers", map_json(info.headers)},
                            {"file", info.file}};
  return sys::replace_file(directory + "/" + record_name(info.key), json::serialize(record), 0600);
}

Result<ObjectInfo> read_record(const std::string& path) {
  FB_TRY_ASSIGN(const json::object object, read_json(path));
  JsonReader reader(object);
  ObjectInfo info;
  info.key = reader.string("key");
  info.size = reader.u64("size");
  info.etag = reader.string("etag");
  info.modified = core::from_unix_ms(reader.i64("modified"));
  info.headers = reader.string_map_or_empty("headers");
  info.file = reader.string("file");
  FB_TRY(reader.result());
  return info;
}

Result<> write_upload(const std::string& directory, const Upload& upload) {
  json::array parts;
  for (const auto& [number, part] : upload.parts) parts.push_back(part_json(part));
  const json::object record{{"id", upload.id},
                            {"bucket", upload.bucket},
                            {"key", upload.key},
                            {"created", core::to_unix_ms(upload.created)},
                            {"headers", map_json(upload.headers)},
                            {"parts", std::move(parts)}};
  return sys::replace_file(directory + "/" + upload_name(upload.id), json::serialize(record), 0600);
}

Result<Upload> read_upload(const std::string& path) {
  FB_TRY_ASSIGN(const json::object object, read_json(path));
  JsonReader reader(object);
  Upload upload;
  upload.id = reader.string("id");
  upload.bucket = reader.string("bucket");
  upload.key = reader.string("key");
  upload.created = core::from_unix_ms(reader.i64("created"));
  upload.headers = reader.string_map_or_empty("headers");
  const json::array* parts = reader.array("parts", true);
  FB_TRY(reader.result());
  for (const json::value& each : *parts) {
    if (!each.is_object()) return fail(Code::corrupt, "the record " + path + " is damaged");
    FB_TRY_ASSIGN(PartInfo part, read_part(each.as_object()));
    upload.parts[part.number] = std::move(part);
  }
  return upload;
}

}  // namespace firebreak::object
