// check: through the running server, which knows its parked clones; without one, on the files
// alone.
#include <memory>

#include <boost/asio/co_spawn.hpp>

#include "base/sys.h"
#include "commands.h"
#include "control/check.h"
#include "machine/engines.h"
#include "machine/qemu/qemu_engine.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::cli {
namespace {

std::size_t show_each(const json::object& report, std::string_view list) {
  const json::value* all = report.if_contains(list);  // an older server has no such list
  if (all == nullptr) return 0;
  for (const json::value& one : all->as_array()) {
    const json::object& entry = one.as_object();
    print_line(text_of(entry, "kind") + " " + text_of(entry, "name") + " " +
               text_of(entry, "what") +
               (text_of(entry, "repaired") == "true" ? " (repaired)" : ""));
  }
  return all->as_array().size();
}

int show(const json::object& report, bool as_json) {
  const bool ok = text_of(report, "ok") == "true";
  if (as_json) {
    print_json(report);
    return ok ? 0 : 1;
  }
  const std::size_t unclear = show_each(report, "unclear");
  const std::size_t leaks = show_each(report, "leaks");
  print_line(std::to_string(leaks) + " leaks" +
             (unclear > 0 ? ", " + std::to_string(unclear) + " unclear" : ""));
  return ok ? 0 : 1;
}

// Where the server last kept its cgroups and uids.
Result<machine::QemuConfig> engine_config(const std::string& data_dir) {
  auto text = sys::read_file(data_dir + "/host.json");
  if (!text) {
    return fail(Code::not_found, "no server has run on " + data_dir,
                Repair{"name another with --data-dir"});
  }
  FB_TRY_ASSIGN(const json::object object, parse_json_object(*text));
  JsonReader reader(object);
  machine::QemuConfig config;
  config.data_dir = data_dir;
  config.cgroup_root = reader.string("cgroup");
  config.initramfs = reader.string_or("initramfs", "");
  config.uids.first = static_cast<uid_t>(reader.u64("uidFirst"));
  config.uids.count = static_cast<uid_t>(reader.u64("uidCount"));
  FB_TRY(reader.result());
  return config;
}

Result<json::object> check_alone(const std::string& data_dir, bool repair) {
  FB_TRY_ASSIGN(const machine::QemuConfig config, engine_config(data_dir));
  FB_TRY_ASSIGN(auto store,
                store::open_sqlite_store({.path = data_dir + "/firebreak.db", .vfs = ""}));
  net::asio::io_context io(1);
  store::Database db(io.get_executor(), std::move(store));
  net::asio::thread_pool pool(2);
  FB_TRY_ASSIGN(auto engine, machine::QemuEngine::create(config, io.get_executor(), pool));
  const machine::Engines engines(*engine);
  Result<control::CheckReport> report = fail(Code::internal, "the check did not run");
  net::asio::co_spawn(
      io, control::check_host(control::host_context(db, engines, data_dir, std::nullopt), repair),
      [&report](std::exception_ptr error, Result<control::CheckReport> result) {
        if (!error) report = std::move(result);
      });
  io.run();
  if (!report) return std::unexpected(report.error());
  return control::to_json(*report);
}

}  // namespace

void add_check_command(Command& root, Common& common) {
  auto repair = std::make_shared<bool>(false);
  Command& check = root.add("check", "Compare the host with the store; exit 1 when they differ");
  check.group(kAdminGroup)
      .about(
          "With a running server it asks that one (administrator's key); without, it looks itself "
          "(root).");
  check.flag("--repair", *repair, "Remove what is this server's and belongs to nobody");
  add_json_flag(check, common);
  check.example("firebreak check", "prints '0 leaks' when all is well");
  check.example("firebreak check --repair", "");
  check.run([repair, &common] {
    if (find_server(common.server)) {
      return with_client(common, [&](Client& client, int& status) -> net::Task<Result<>> {
        FB_CO_TRY_ASSIGN(
            const json::object answer,
            co_await client.call("POST", *repair ? "/v1/check?repair=1" : "/v1/check"));
        status = show(answer, common.json);
        co_return Result<>();
      });
    }
    auto report = check_alone(common.server.data_dir, *repair);
    if (report) return show(*report, common.json);
    print_error(report.error().message);
    return 1;
  });
}

}  // namespace firebreak::cli
