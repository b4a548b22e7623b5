// Objects: put, get with ranges, delete; and the reading of bodies.
#include <span>

#include <unistd.h>

#include "api/s3/s3_api.h"
#include "api/s3/s3_body.h"
#include "base/sys.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

constexpr std::size_t kMaxXml = 2UL << 20;
constexpr std::size_t kPiece = 256UL * 1024;
// A slow client may take long, but not for ever without a byte.
constexpr auto kIdle = std::chrono::seconds(60);

// Kept with the object and sent again.
std::map<std::string, std::string> kept_headers(const AwsCall& call) {
  std::map<std::string, std::string> kept;
  for (const wire::HeaderField& field : call.exchange.request().headers) {
    const std::string_view name = field.name;
    if (name.starts_with("x-amz-meta-") || name == "content-type" || name == "cache-control" ||
        name == "content-disposition" || name == "content-language" || name == "expires")
      kept[field.name] = field.value;
  }
  // aws-chunked is how it came, not what it is.
  std::string encoding;
  for (std::string_view part : split(call.header("content-encoding"), ',')) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty() || part == "aws-chunked") continue;
    encoding += (encoding.empty() ? "" : ", ") + std::string(part);
  }
  if (!encoding.empty()) kept["content-encoding"] = encoding;
  kept.emplace("content-type", "binary/octet-stream");
  return kept;
}

struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool partial = false;
};

// One range, as "bytes=0-9", "bytes=5-" or "bytes=-3"; what cannot be read is ignored, as RFC 9110
// says. nullopt: nothing of it is in the object.
std::optional<Range> parse_range(std::string_view header, std::uint64_t size) {
  const Range whole{0, size, false};
  constexpr std::string_view kBytes = "bytes=";
  if (!header.starts_with(kBytes) || header.contains(',')) return whole;
  header.remove_prefix(kBytes.size());
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view from = header.substr(0, dash);
  const std::string_view to = header.substr(dash + 1);
  const auto first = parse_u64(from);
  const auto last = parse_u64(to);
  if (from.empty()) {
    if (!last) return whole;
    if (*last == 0 || size == 0) return std::nullopt;
    const std::uint64_t count = std::min(*last, size);
    return Range{size - count, count, true};
  }
  if (!first || (!to.empty() && (!last || *last < *first))) return whole;
  if (*first >= size) return std::nullopt;
  const std::uint64_t end = last ? std::min(*last, size - 1) : size - 1;
  return Range{*first, end - *first + 1, true};
}

bool same_etag(std::string_view header, const std::string& etag) {
  return header == "*" || header == etag || header == "\"" + etag + "\"";
}

std::unexpected<AwsError> precondition_failed() {
  return refuse("PreconditionFailed", 412,
                "At least one of the pre-conditions you specified did not hold");
}

wire::Headers object_headers(const AwsCall& call, const object::ObjectInfo& info, bool whole) {
  wire::Headers headers = aws_headers(call.request_id);
  for (const auto& [name, value] : info.headers) {
    // A reader may ask for other words than the writer's.
    if (call.target.has_query("response-" + name)) continue;
    // A checksum is of the whole object, and only told to those who ask.
    const bool checksum = name.starts_with("x-amz-checksum-");
    if (!checksum || (whole && call.header("x-amz-checksum-mode") == "ENABLED"))
      headers.push_back({name, value});
  }
  for (const char* name : {"content-type", "content-disposition", "content-encoding",
                           "content-language", "cache-control", "expires"}) {
    const std::string asked = "response-" + std::string(name);
    if (call.target.has_query(asked))
      headers.push_back({name, std::string(call.target.query_value(asked))});
  }
  headers.push_back({"etag", "\"" + info.etag + "\""});
  headers.push_back({"last-modified", http_date(info.modified)});
  headers.push_back({"accept-ranges", "bytes"});
  return headers;
}

}  // namespace

net::Task<AwsResult<std::string>> S3Api::read_small(AwsCall& call) {
  AwsResult<S3Body> body = S3Body::from(call);
  if (!body && body.error().name == "MissingContentLength") co_return std::string();
  if (!body) co_return std::unexpected(body.error());
  if (body->size() > kMaxXml)
    co_return refuse("MaxMessageLengthExceeded", 400, "Your request was too large.");
  std::string out;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await call.exchange.read(Deadline::in(kIdle)));
    if (bytes.empty()) break;
    FB_CO_TRY(body->feed(bytes, out));
  }
  FB_CO_TRY(body->finish());
  co_return out;
}

net::Task<AwsResult<S3Api::Received>> S3Api::receive(AwsCall& call, std::string bucket) {
  FB_CO_TRY_ASSIGN(S3Body body, S3Body::from(call));
  // Before a byte is read: what is too large is refused while the client still waits.
  if (body.size() > objects_.limits().object_bytes)
    co_return refuse("EntityTooLarge", 400,
                     "Your proposed upload exceeds the maximum allowed object size.");
  const core::TenantId& tenant = call.tenant();
  auto begun = co_await blocking([&] { return objects_.begin(tenant, bucket, body.size()); });
  if (!begun) co_return std::unexpected(begun.error());
  Received received{.draft = *std::move(begun), .etag = {}, .checksums = {}};
  std::string waiting;
  const auto take = [&]() -> AwsResult<> {
    std::string out;
    if (auto fed = body.feed(waiting, out); !fed) return fed;
    if (auto written = received.draft->write(out); !written)
      return std::unexpected(written.error());
    waiting.clear();
    return {};
  };
  for (bool more = true; more;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await call.exchange.read(Deadline::in(kIdle)));
    more = !bytes.empty();
    waiting += bytes;
    if (waiting.size() >= kPiece || !more) FB_CO_TRY(co_await blocking(take));
  }
  FB_CO_TRY(body.finish());
  received.etag = body.etag();
  received.checksums = body.checksums();
  co_return received;
}

S3Api::Done S3Api::put_object(AwsCall& call, S3Path place) {
  const std::string_view none_match = call.header("if-none-match");
  if (!call.header("if-match").empty() || (!none_match.empty() && none_match != "*"))
    co_return refuse("NotImplemented", 501,
                     "Of the conditions for writing only If-None-Match: * "
                     "is implemented");
  const bool must_be_new = !none_match.empty();
  if (must_be_new && objects_.find(call.tenant(), place.bucket, place.key))
    co_return precondition_failed();
  FB_CO_TRY_ASSIGN(Received received, co_await receive(call, place.bucket));
  object::ObjectInfo info{.key = place.key, .etag = received.etag, .headers = kept_headers(call)};
  for (const auto& [name, value] : received.checksums) info.headers[name] = value;
  auto publish = [&] {
    return objects_.publish(std::move(received.draft), place.bucket, std::move(info), must_be_new);
  };
  auto published = co_await blocking(publish);
  if (!published && published.error().code == Code::conflict) co_return precondition_failed();
  if (!published) co_return std::unexpected(published.error());
  wire::Headers headers = aws_headers(call.request_id);
  headers.push_back({"etag", "\"" + received.etag + "\""});
  for (const auto& [name, value] : received.checksums) headers.push_back({name, value});
  FB_CO_TRY(co_await call.exchange.reply(200, std::move(headers), "", Deadline::in(kIdle)));
  co_return AwsResult<>();
}

S3Api::Done S3Api::get_object(AwsCall& call, S3Path place, bool head) {
  const auto found = objects_.find(call.tenant(), place.bucket, place.key);
  // Who may not list does not learn what is not there.
  if (!found && objects_.bucket(call.tenant(), place.bucket))
    FB_CO_TRY(call.allow("s3:ListBucket", "arn:aws:s3:::" + place.bucket));
  if (!found) co_return std::unexpected(found.error());
  const object::ObjectInfo& info = *found;
  if (const auto match = call.header("if-match"); !match.empty() && !same_etag(match, info.etag))
    co_return precondition_failed();
  if (const auto none = call.header("if-none-match"); !none.empty() && same_etag(none, info.etag)) {
    FB_CO_TRY(co_await call.exchange.reply(304, object_headers(call, info, true), "",
                                           Deadline::in(kIdle)));
    co_return AwsResult<>();
  }
  // A range of another object than the one that was begun is not wanted.
  const std::string_view same = call.header("if-range");
  const bool whole = !same.empty() && !same_etag(same, info.etag);
  const auto range = parse_range(whole ? std::string_view() : call.header("range"), info.size);
  if (!range) co_return refuse("InvalidRange", 416, "The requested range is not satisfiable");
  wire::Headers headers = object_headers(call, info, !range->partial);
  headers.push_back({"content-length", std::to_string(range->count)});
  if (range->partial)
    headers.push_back({"content-range", "bytes " + std::to_string(range->first) + "-" +
                                            std::to_string(range->first + range->count - 1) + "/" +
                                            std::to_string(info.size)});
  const int status = range->partial ? 206 : 200;
  const core::TenantId& tenant = call.tenant();
  UniqueFd file;
  if (!head) {
    auto opened = co_await blocking([&] { return objects_.open(tenant, place.bucket, info); });
    if (!opened) co_return std::unexpected(opened.error());
    file = *std::move(opened);
  }
  FB_CO_TRY(co_await call.exchange.start(status, std::move(headers), Deadline::in(kIdle)));
  for (std::uint64_t done = 0; !head && done < range->count;) {
    std::string piece(std::min<std::uint64_t>(kPiece, range->count - done), '\0');
    auto read = [&] {
      return sys::pread_all(file.get(), std::as_writable_bytes(std::span(piece)),
                            range->first + done);
    };
    FB_CO_TRY(co_await blocking(read));
    FB_CO_TRY(co_await call.exchange.write(piece, Deadline::in(kIdle)));
    done += piece.size();
  }
  FB_CO_TRY(co_await call.exchange.finish(Deadline::in(kIdle)));
  co_return AwsResult<>();
}

S3Api::Done S3Api::delete_object(AwsCall& call, S3Path place) {
  const core::TenantId& tenant = call.tenant();
  FB_CO_TRY(co_await blocking([&] { return objects_.remove(tenant, place.bucket, place.key); }));
  FB_CO_TRY(co_await aws_reply(call, 204, {}, {}));
  co_return AwsResult<>();
}

}  // namespace firebreak::api
