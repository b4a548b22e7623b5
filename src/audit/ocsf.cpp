#include "audit/ocsf.h"

#include <array>

namespace firebreak::audit {
namespace {

// Classes of OCSF, with what their activities are called there.
struct ActClass {
  std::string_view act;
  int category;
  int class_uid;
  int activity;
  std::string_view name;  // of the class
};

constexpr ActClass kApi{"", 6, 6003, 99, "API Activity"};
constexpr std::array kClasses{
    ActClass{"microvm.launch", 6, 6002, 3, "Application Lifecycle"},
    ActClass{"microvm.fork", 6, 6002, 3, "Application Lifecycle"},
    ActClass{"microvm.end", 6, 6002, 4, "Application Lifecycle"},
    ActClass{"microvm.suspend", 6, 6002, 99, "Application Lifecycle"},
    ActClass{"microvm.resume", 6, 6002, 99, "Application Lifecycle"},
    ActClass{"exec", 1, 1007, 1, "Process Activity"},
    ActClass{"code", 1, 1007, 1, "Process Activity"},
    ActClass{"file.write", 1, 1001, 3, "File System Activity"},
    ActClass{"file.read", 1, 1001, 2, "File System Activity"},
    ActClass{"egress", 4, 4001, 6, "Network Activity"},
    ActClass{"key.create", 3, 3004, 1, "Entity Management"},
    ActClass{"key.revoke", 3, 3004, 4, "Entity Management"},
    ActClass{"policy.change", 3, 3004, 3, "Entity Management"},
    ActClass{"limits.change", 3, 3004, 3, "Entity Management"},
    ActClass{"token.create", 6, 6003, 1, "API Activity"},
    ActClass{"audit.read", 6, 6003, 2, "API Activity"},
    ActClass{"admin.look", 6, 6003, 2, "API Activity"},
};

const ActClass& class_of(std::string_view act) {
  for (const ActClass& entry : kClasses) {
    if (entry.act == act) return entry;
  }
  return kApi;
}

constexpr std::string_view kBegin = R"({"unmapped":{"hash":")";
constexpr std::string_view kRecord = R"(","record":)";
constexpr std::size_t kHashText = 64;

void member(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  append_quoted(out, value);
}

}  // namespace

void append_line(std::string& out, const Record& record, std::string_view hash) {
  const ActClass& as = class_of(record.act);
  out += kBegin;
  out += hash;
  out += kRecord;
  append_canonical(out, record);
  out +=
      R"(},"metadata":{"version":"1.4.0","product":{"name":"Firebreak","vendor_name":"Firebreak"},"uid":")";
  out += hash.substr(0, 32);
  out += R"("},"category_uid":)" + std::to_string(as.category);
  out += R"(,"class_uid":)" + std::to_string(as.class_uid);
  member(out, R"(,"class_name":)", as.name);
  out += R"(,"activity_id":)" + std::to_string(as.activity);
  member(out, R"(,"activity_name":)", record.act);
  out += R"(,"type_uid":)" + std::to_string(as.class_uid * 100 + as.activity);
  const bool refused = record.outcome == "refused";
  out += R"(,"severity_id":)" + std::string(refused ? "2" : "1");
  out += R"(,"status_id":)" + std::string(refused ? "2" : "1");
  out += R"(,"time":)" + std::to_string(core::to_unix_ms(record.at));
  out += R"(,"count":)" + std::to_string(record.count);
  member(out, R"(,"actor":{"user":{"uid":)", record.by.key.str());
  member(out, R"(},"app_name":)", record.by.agent);
  member(out, R"(,"session":{"uid":)", record.by.session);
  member(out, R"(}},"src_endpoint":{"name":)", record.by.door);
  member(out, R"(},"api":{"operation":)", record.act);
  member(out, R"(},"device":{"type_id":6,"uid":)", record.microvm.str());
  member(out, R"(,"hypervisor":)", record.engine);
  member(out, R"(,"image":{"name":)", record.image);
  member(out, R"(,"uid":)", record.digest);
  out += "}}";
  if (as.class_uid == 1001 || as.class_uid == 1007) {
    const bool file = as.class_uid == 1001;
    member(out, file ? R"(,"file":{"type_id":0,"name":)" : R"(,"process":{"uid":)",
           file ? record.subject : record.detail);
    out += '}';
  }
  out += '}';
}

std::optional<Line> read_line(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  if (line.size() < kHashText + kRecord.size()) return std::nullopt;
  Line out;
  out.hash = line.substr(0, kHashText);
  line.remove_prefix(kHashText);
  if (!line.starts_with(kRecord)) return std::nullopt;
  line.remove_prefix(kRecord.size());
  const std::string_view from = line;
  auto record = take_canonical(line);
  if (!record) return std::nullopt;
  out.record = *std::move(record);
  out.canonical = from.substr(0, from.size() - line.size());
  return out;
}

}  // namespace firebreak::audit
