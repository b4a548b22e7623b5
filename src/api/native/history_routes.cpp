// Routes of history: events as they happen, usage, and the leak check.
#include <fmt/chrono.h>

#include "api/native/microvm_json.h"
#include "api/native/native_api.h"
#include "base/text.h"
#include "control/microvm_names.h"

namespace firebreak::api {
namespace {

constexpr std::uint32_t kEventsAtOnce = 500;
constexpr std::uint32_t kUsageItems = 1000;
constexpr auto kStreamDeadline = std::chrono::hours(24);
constexpr auto kComment = std::chrono::seconds(15);

// Server-sent events: those after ?after (or the Last-Event-ID header), then as they come.
net::Task<Result<>> events(control::Supervisor& supervisor, Call& call) {
  std::string from = call.query("after");
  if (from.empty()) from = wire::find_header(call.exchange.request().headers, "last-event-id");
  store::Database& db = supervisor.services().db;
  std::uint64_t after = 0;
  if (from.empty()) {
    FB_CO_TRY_ASSIGN(after,
                     co_await db.run([](const store::Store& store) { return store.last_event(); }));
  } else {
    const auto number = parse_u64(from);
    if (!number) co_return fail(Code::invalid, "after must be the sequence number of an event");
    after = *number;
  }
  std::optional<core::MicrovmId> one;
  if (call.target.has_query("microvm")) {
    FB_CO_TRY_ASSIGN(one,
                     co_await control::resolve_microvm(db, call.tenant(), call.query("microvm")));
  }
  const bool follow = call.query("follow") != "0";
  const Deadline deadline = Deadline::in(kStreamDeadline);
  FB_CO_TRY(co_await call.exchange.start(
      200, {{"content-type", "text/event-stream"}, {"cache-control", "no-store"}}, call.deadline));
  Deadline comment = Deadline::in(std::chrono::seconds(0));
  while (!deadline.passed()) {
    const std::uint64_t seen = supervisor.changed().count();
    FB_CO_TRY_ASSIGN(const auto list, co_await db.run([&](const store::Store& store) {
      return store.events(call.tenant(), one, after, kEventsAtOnce);
    }));
    std::string text;
    for (const core::Event& event : list) {
      after = event.sequence;
      text += "id: " + std::to_string(event.sequence) +
              "\nevent: transition\ndata: " + json::serialize(to_json(event)) + "\n\n";
    }
    if (list.empty() && !follow) break;
    // A comment now and then finds out whether the client is still there. Only now and then: one
    // for each change of other tenants would tell about them.
    if (list.empty() && comment.passed()) text = ": \n\n";
    if (!text.empty()) {
      FB_CO_TRY(co_await call.exchange.write(text, deadline));
      comment = Deadline::in(kComment);
    }
    if (list.empty()) (void)co_await supervisor.changed().wait(comment, seen);
  }
  co_return co_await call.exchange.finish(deadline);
}

struct Used {
  core::Usage total;
  std::vector<store::UsageRow> rows;
  std::vector<store::UsageDay> days;
};

net::Task<Result<>> usage(control::Supervisor& supervisor, Call& call) {
  core::Time since{};
  if (call.target.has_query("since")) {
    since = core::from_unix_ms(static_cast<std::int64_t>(*call.number("since")));
  }
  co_await supervisor.account_now(call.tenant());
  Used used;
  // In one turn, so that nothing is rolled up in between.
  FB_CO_TRY(co_await supervisor.services().db.run([&](const store::Store& store) -> Result<> {
    FB_TRY_ASSIGN(used.total, store.usage_total(call.tenant(), since));
    FB_TRY_ASSIGN(used.rows, store.usage(call.tenant(), since, kUsageItems + 1));
    FB_TRY_ASSIGN(used.days, store.usage_days(call.tenant(), since));
    return {};
  }));
  const bool more = used.rows.size() > kUsageItems;
  if (more) used.rows.pop_back();
  json::array items;
  for (const store::UsageRow& row : used.rows) {
    json::object item = to_json(row.meter.total);
    item["microvm"] = row.microvm.str();
    items.push_back(std::move(item));
  }
  json::array days;
  for (const store::UsageDay& day : used.days) {
    json::object item = to_json(day.total);
    item["day"] = fmt::format("{:%F}", day.day);
    item["microvms"] = day.microvms;
    days.push_back(std::move(item));
  }
  co_return co_await call.reply_json(200, json::object{{"total", to_json(used.total)},
                                                       {"items", std::move(items)},
                                                       {"days", std::move(days)},
                                                       {"more", more}});
}

}  // namespace

void NativeApi::add_history_routes() {
  router_.add({"GET", "/v1/events", "State changes as server-sent events", false,
               Carries::guest_bytes, [this](Call& call) { return events(supervisor_, call); }});
  router_.add({"GET", "/v1/usage", "What was used, in all and per microVM", false, Carries::nothing,
               [this](Call& call) { return usage(supervisor_, call); }});
  router_.add({"POST", "/v1/check", "Compare the host with the store, and put it right", true,
               Carries::nothing, [this](Call& call) -> net::Task<Result<>> {
                 FB_CO_TRY_ASSIGN(const control::CheckReport report,
                                  co_await check_(call.flag("repair")));
                 co_return co_await call.reply_json(200, control::to_json(report));
               }});
}

}  // namespace firebreak::api
