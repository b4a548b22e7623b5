#include "core/request_fields.h"

#include "core/caps.h"
#include "core/egress.h"
#include "core/hooks.h"

namespace firebreak::core {
namespace {

// A limit of a tenant; of what fits into 32 bits.
Field small(std::string_view name, std::string_view about) {
  return within({name, "integer", about}, 0, 1'000'000);
}

Field patterns(std::string_view name, std::string_view about, bool required = false) {
  return {name, "string|array", about, required, false, "string"};
}

}  // namespace

// Limits, and behind them caps: one table for what a tenant may have and do.
const Fields& limit_fields() {
  static const Fields fields = [] {
    Fields all{small("microvms", "live ones"),
               {"memoryMib", "integer", "of live microVMs together"},
               small("images", "how many"),
               small("versionsPerImage", "how many"),
               small("launchesPerSecond", "how many")};
    for (const CapRule& rule : cap_rules()) all.push_back({rule.name, "integer|null", rule.about});
    return all;
  }();
  return fields;
}

const Fields& idle_fields() {
  static const Fields fields{
      {"maxIdleSeconds", "integer", "at most 604800; then it is suspended; 0: never", true},
      {"suspendedSeconds", "integer", "at most 604800; then it is ended; default 86400"},
      {"autoResume", "boolean", "a call wakes it; default true"},
      one_of({"rule", "string", "what keeps it awake; default work"}, {"work", "traffic"})};
  return fields;
}

const Fields& hook_fields() {
  static const Fields fields = [] {
    const Fields setting{{"enabled", "boolean", "default false"},
                         within({"timeout", "integer", "seconds; 0: the hook's default"}, 0, 3600)};
    const auto hook = [&setting](Hook which, std::string_view about) -> Field {
      return {to_string(which), "object", about, false, false, {}, setting};
    };
    return Fields{within({"port", "integer", "where the application answers hooks"}, 0, 65535),
                  hook(Hook::ready, "may the snapshot be taken"),
                  hook(Hook::validate, "is a first clone fit"),
                  hook(Hook::run, "after a launch"),
                  hook(Hook::resume, "after a resume"),
                  hook(Hook::suspend, "before a suspend"),
                  hook(Hook::terminate, "before the end")};
  }();
  return fields;
}

const Fields& preload_fields() {
  static const Fields fields{
      {"python", "array", "at most 64 names, such as matplotlib.pyplot", false, false, "string"},
      {"node", "array", "at most 64 names, such as lodash", false, false, "string"}};
  return fields;
}

const Fields& egress_policy_fields() {
  static const Fields fields = [] {
    const Fields rule{
        one_of({"action", "string", "what happens", true}, {"allow", "deny"}),
        {"any", "boolean", "true: everything; this, cidr or domain"},
        {"cidr", "string", "addresses, as 10.0.0.0/8"},
        {"domain", "string", "a name, or *.NAME"},
        one_of({"protocol", "string", "default any"}, {"any", "tcp", "udp", "icmp"}),
        {"ports", "array", "numbers, and ranges as \"8000-8100\"", false, false, "integer|string"}};
    return Fields{
        {"name", "string", "as in the path"},
        {"rules", "array", "what is allowed and denied", false, false, {}, rule},
        {"internet", "boolean", "what no rule names is allowed"},
        {"sniCheck", "boolean", "names in TLS must be those that were looked up"},
        {"maxBytes", "integer", "out and in together; 0: no limit"},
        within({"maxConnections", "integer", "at once; 0: no limit"}, 0, kMaxConnections)};
  }();
  return fields;
}

const Fields& role_policy_fields() {
  static const Fields fields = [] {
    const Fields prefix{patterns("s3:prefix", "what is listed begins with one of these")};
    const Field condition{"Condition",
                          "object",
                          "one of these",
                          false,
                          false,
                          {},
                          {{"StringLike", "object", "with * and ?", false, false, {}, prefix},
                           {"StringEquals", "object", "exactly", false, false, {}, prefix}}};
    const Fields statement{{"Sid", "string", "a name for people"},
                           one_of({"Effect", "string", "what it does", true}, {"Allow", "Deny"}),
                           patterns("Action", "as s3:GetObject, lambda:* or *", true),
                           patterns("Resource", "ARNs, with * and ?", true),
                           condition};
    return Fields{{"Version", "string", "2012-10-17"},
                  {"Statement", "array|object", "at most 50", true, false, {}, statement}};
  }();
  return fields;
}

}  // namespace firebreak::core
