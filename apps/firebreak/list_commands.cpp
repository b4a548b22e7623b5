// ps: microVMs as a table, as ids, as JSON.
#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "base/text.h"
#include "base/words.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

constexpr std::array kStates = {"PENDING",   "RUNNING",     "SUSPENDING",
                                "SUSPENDED", "TERMINATING", "TERMINATED"};

struct ListOptions {
  bool all = false;
  bool quiet = false;
  std::string tenant;
  std::vector<std::string> filter_words;
  std::vector<NameValue> filters;  // from these
};

Result<> read_filters(ListOptions& options) {
  for (const std::string& word : options.filter_words) {
    NameValue filter = split_pair(word).value_or(NameValue{word, ""});
    const std::string value = filter.value;
    if (filter.name == "state") {
      std::ranges::transform(filter.value, filter.value.begin(),
                             [](unsigned char c) { return std::toupper(c); });
      if (std::ranges::find(kStates, filter.value) == kStates.end())
        return fail(Code::invalid, "there is no state '" + value + "'",
                    Repair{"use pending, running, suspending, suspended, terminating or "
                           "terminated"});
    } else if (filter.name == "tag") {
      if (!split_pair(filter.value))
        return fail(Code::invalid, "--filter tag must be tag=KEY=VALUE, not '" + word + "'");
    } else if (filter.name != "image" && filter.name != "name") {
      return fail(Code::invalid, "there is no filter '" + filter.name + "'",
                  Repair{"use state=STATE, image=NAME, name=NAME or tag=KEY=VALUE"});
    }
    options.filters.push_back(std::move(filter));
  }
  return {};
}

bool matches(const json::object& microvm, const NameValue& filter) {
  if (filter.name == "state" || filter.name == "name")
    return text_of(microvm, filter.name) == filter.value;
  if (filter.name == "image") {
    const std::string image = text_of(microvm, "image");
    return image == filter.value || image + ":" + text_of(microvm, "imageVersion") == filter.value;
  }
  const auto tag = split_pair(filter.value);
  const json::value* tags = microvm.if_contains("tags");
  return tag && tags != nullptr && tags->is_object() &&
         text_of(tags->as_object(), tag->name) == tag->value;
}

// Filters of one kind are alternatives, filters of different kinds must all hold.
bool is_wanted(const json::object& microvm, const ListOptions& options) {
  bool ended_is_meant = options.all;
  for (const NameValue& one : options.filters) {
    if (one.name == "state" && one.value == "TERMINATED") ended_is_meant = true;
    const bool any = std::ranges::any_of(options.filters, [&](const NameValue& other) {
      return other.name == one.name && matches(microvm, other);
    });
    if (!any) return false;
  }
  return ended_is_meant || text_of(microvm, "state") != "TERMINATED";
}

void print_table(const json::array& items, bool with_tenant) {
  std::vector<std::string> head{"ID", "NAME", "IMAGE", "STATE", "STARTED", "REASON"};
  if (with_tenant) head.insert(head.begin(), "TENANT");
  TextTable table(std::move(head));
  for (const json::value& item : items) {
    const json::object& vm = item.as_object();
    std::vector<std::string> row{text_of(vm, "id"),
                                 text_of(vm, "name"),
                                 text_of(vm, "image") + ":" + text_of(vm, "imageVersion"),
                                 text_of(vm, "state"),
                                 age_of(vm, "startedAt"),
                                 text_of(vm, "stateReason")};
    if (with_tenant) row.insert(row.begin(), text_of(vm, "tenant"));
    table.add(std::move(row));
  }
  table.print();
}

net::Task<Result<>> list(Client& client, const ListOptions& options, bool as_json) {
  json::array items;
  std::string path = "/v1/microvms?pageSize=1000";
  if (!options.tenant.empty()) path += "&tenant=" + percent_encode(options.tenant, "");
  FB_CO_TRY(co_await each_item(client, path, [&](json::object microvm) {
    if (is_wanted(microvm, options)) items.push_back(std::move(microvm));
  }));
  if (as_json)
    print_json(items);
  else if (!options.quiet)
    print_table(items, !options.tenant.empty());
  else
    for (const json::value& item : items) print_line(text_of(item.as_object(), "id"));
  co_return Result<>();
}

}  // namespace

void add_list_commands(Command& root, Common& common) {
  auto options = std::make_shared<ListOptions>();
  Command& ps = root.add("ps", "List microVMs").group(kMicrovmGroup).also({"ls", "list"});
  ps.flag("-a,--all", options->all, "Also those that have ended");
  ps.flag("-q,--quiet", options->quiet, "Print ids only").excludes("--json");
  ps.option("-f,--filter", options->filter_words, "KEY=VALUE",
            "Only those with state=STATE, image=NAME, name=NAME or tag=KEY=VALUE")
      .pair();
  ps.option("--tenant", options->tenant, "ACCOUNT",
            "Of this tenant, or of 'all' (needs an administrator's key)");
  add_json_flag(ps, common);
  ps.example("firebreak ps", "those that have not ended");
  ps.example("firebreak ps -q --filter state=suspended --filter tag=job=demo", "for scripts");
  ps.check([options] { return read_filters(*options); });
  run_with_client(ps, common, [options, &common](Client& client, int&) {
    return list(client, *options, common.json);
  });
}

}  // namespace firebreak::cli
