#include "guest/metadata_session.h"

#include "base/text.h"

namespace firebreak::guest {
namespace {

constexpr wire::Http1Limits kLimits{.max_head_bytes = 8UL * 1024, .max_headers = 64};
constexpr std::size_t kMaxBody = 16UL * 1024;
constexpr std::string_view kTokenPath = "/latest/api/token";
constexpr std::string_view kData = "/latest/meta-data/";
constexpr std::string_view kCredentials = "/latest/meta-data/iam/security-credentials/";
constexpr std::string_view kDocument = "/latest/dynamic/instance-identity/document";
constexpr std::string_view kTtlHeader = "x-aws-ec2-metadata-token-ttl-seconds";
constexpr std::string_view kTokenHeader = "x-aws-ec2-metadata-token";

// There is one zone.
std::string zone(const Metadata::Values& values) {
  return values.region + "a";
}

// What SDKs look at to find out where they are.
std::string identity(const Metadata::Values& values) {
  return json::serialize(json::object{{"accountId", values.account},
                                      {"architecture", "x86_64"},
                                      {"availabilityZone", zone(values)},
                                      {"instanceId", values.instance_id},
                                      {"region", values.region},
                                      {"version", "2017-09-30"}});
}

}  // namespace

MetadataSession::MetadataSession(Metadata& metadata)
    : metadata_(metadata), parser_(wire::Http1Parser::Role::request, kLimits) {}

bool MetadataSession::receive(std::string_view input, Metadata::Clock::time_point now,
                              std::string& out) {
  using Event = wire::Http1Parser::Event;
  for (;;) {
    const auto step = parser_.step(input);
    if (!step) {
      put({.status = parser_.error_status()}, false, out);
      return false;
    }
    input.remove_prefix(step->consumed);
    switch (step->event) {
      case Event::need_more:
        return true;
      case Event::head:
        break;
      case Event::body:
        body_ += step->body.size();
        if (body_ <= kMaxBody) break;
        put({.status = 413}, false, out);
        return false;
      case Event::end: {
        const bool keep_alive = parser_.head().keep_alive && !parser_.head().upgrade;
        put(answer(parser_.head(), now), keep_alive, out);
        if (!keep_alive) return false;
        parser_.next();
        body_ = 0;
      }
    }
  }
}

// What a proxy passed on for somebody else is refused, and so is every read without a token: a
// program that can be made to fetch a URL cannot be made to send these headers.
MetadataSession::Answer MetadataSession::answer(const wire::Http1Head& head,
                                                Metadata::Clock::time_point now) {
  for (const wire::HeaderField& field : head.headers) {
    if (field.name == "x-forwarded-for") return {.status = 403};
  }
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (path == kTokenPath)
    return head.method == "PUT" ? issue_token(head, now) : Answer{.status = 405};
  if (head.method != "GET") return {.status = 405};
  if (!metadata_.accepts(wire::find_header(head.headers, kTokenHeader), now))
    return {.status = 401};
  return read(path);
}

MetadataSession::Answer MetadataSession::issue_token(const wire::Http1Head& head,
                                                     Metadata::Clock::time_point now) {
  const auto seconds = parse_u64(wire::find_header(head.headers, kTtlHeader));
  constexpr auto kMost = static_cast<std::uint64_t>(Metadata::kLongestToken.count());
  if (!seconds || *seconds == 0 || *seconds > kMost) return {.status = 400};
  return {.status = 200,
          .body = metadata_.issue_token(std::chrono::seconds(*seconds), now),
          .ttl = std::to_string(*seconds)};
}

MetadataSession::Answer MetadataSession::read(std::string_view path) const {
  const Metadata::Values values = metadata_.values();
  const bool has_role = !values.role.empty();
  // A directory is found with and without the slash at its end.
  const auto is = [path](std::string_view directory) {
    return path == directory || path == directory.substr(0, directory.size() - 1);
  };
  if (is(kData)) {
    std::string names = has_role ? "iam/\ninstance-id" : "instance-id";
    return {.body = values.region.empty() ? names : names + "\nplacement/"};
  }
  if (path == "/latest/meta-data/instance-id" && !values.instance_id.empty())
    return {.body = values.instance_id};
  if (!values.region.empty()) {
    if (is("/latest/meta-data/placement/")) return {.body = "availability-zone\nregion"};
    if (path == "/latest/meta-data/placement/region") return {.body = values.region};
    if (path == "/latest/meta-data/placement/availability-zone") return {.body = zone(values)};
    if (path == kDocument) return {.body = identity(values), .type = "application/json"};
  }
  if (has_role && is("/latest/meta-data/iam/")) return {.body = "security-credentials/"};
  if (has_role && is(kCredentials)) return {.body = values.role};
  if (has_role && path.starts_with(kCredentials) && path.substr(kCredentials.size()) == values.role)
    return {.body = values.credentials, .type = "application/json"};
  return {.status = 404};
}

void MetadataSession::put(const Answer& answer, bool keep_alive, std::string& out) {
  wire::Headers headers{{"content-type", answer.type},
                        {"content-length", std::to_string(answer.body.size())},
                        {"cache-control", "no-store"}};
  if (!answer.ttl.empty()) headers.push_back({std::string(kTtlHeader), answer.ttl});
  if (!keep_alive) headers.push_back({"connection", "close"});
  if (!wire::put_response_head(answer.status, headers, out)) return;  // they are ours: never
  out += answer.body;
}

}  // namespace firebreak::guest
