// Records of objects and uploads as files: JSON beside the bytes they name. Blocking; any thread.
#pragma once

#include <string>

#include "object/object_store.h"

namespace firebreak::object {

// Bytes are in "data-RANDOM", records in "object-HASH-OF-KEY.json" and "upload-ID.json": a name in
// a directory is never a caller's.
std::string record_name(std::string_view key);
std::string new_data_name();

Result<> write_record(const std::string& directory, const ObjectInfo& info);
Result<ObjectInfo> read_record(const std::string& path);

Result<> write_upload(const std::string& directory, const Upload& upload);
Result<Upload> read_upload(const std::string& path);
std::string upload_name(std::string_view id);

}  // namespace firebreak::object
