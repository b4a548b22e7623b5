#include "api/s3/s3_api.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/xml.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kXml = "application/xml";
constexpr std::string_view kNamespace = "http://s3.amazonaws.com/doc/2006-03-01/";
constexpr std::string_view kHost = ".localhost";

AwsErrorName auth_name(AuthFailure failure) {
  switch (failure) {
    case AuthFailure::missing:
    case AuthFailure::expired:
      return {"AccessDenied", 403};
    case AuthFailure::malformed:
      return {"AuthorizationHeaderMalformed", 400};
    case AuthFailure::skewed:
      return {"RequestTimeTooSkewed", 403};
    case AuthFailure::mismatch:
      return {"SignatureDoesNotMatch", 403};
    case AuthFailure::unknown_key:
      return {"InvalidAccessKeyId", 403};
    case AuthFailure::ended_session:
      return {"ExpiredToken", 400};
  }
  return {"AccessDenied", 403};
}

AwsErrorName name_of(const AwsError& error) {
  if (!error.name.empty()) return {error.name, error.status};
  if (error.auth) return auth_name(*error.auth);
  switch (error.error.code) {
    case Code::invalid:
      return {"InvalidRequest", 400};
    case Code::unauthenticated:
    case Code::denied:
      return {"AccessDenied", 403};
    case Code::not_found:
      if (error.error.reason == "bucket_not_found") return {"NoSuchBucket", 404};
      if (error.error.reason == "upload_not_found") return {"NoSuchUpload", 404};
      return {"NoSuchKey", 404};
    case Code::conflict:
      return {"OperationAborted", 409};
    case Code::exhausted:
      return {"QuotaExceeded", 403};
    case Code::unavailable:
    case Code::timeout:
      return {"SlowDown", 503};
    case Code::corrupt:
    case Code::guest:
    case Code::internal:
      return {"InternalError", 500};
  }
  return {"InternalError", 500};
}

std::string join_key(const std::vector<std::string>& segments, std::size_t from) {
  std::string key;
  for (std::size_t i = from; i < segments.size(); ++i) {
    if (i > from) key += '/';
    key += segments[i];
  }
  return key;
}

// The answer of ListObjectsV2 (`second`) or of its elder.
std::string listing_xml(const std::string& bucket, const object::ObjectStore::Query& query,
                        const object::ObjectStore::Listing& found, bool second, bool url) {
  const auto shown = [url](const std::string& key) {
    return url ? percent_encode(key) : xml_escape(key);
  };
  std::string body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"" +
                     std::string(kNamespace) + "\"><Name>" + bucket + "</Name><Prefix>" +
                     shown(query.prefix) + "</Prefix>";
  if (!query.delimiter.empty()) body += "<Delimiter>" + shown(query.delimiter) + "</Delimiter>";
  if (url) body += "<EncodingType>url</EncodingType>";
  body += "<MaxKeys>" + std::to_string(query.most) + "</MaxKeys><IsTruncated>" +
          (found.next.empty() ? "false" : "true") + "</IsTruncated>";
  if (second) {
    body +=
        "<KeyCount>" + std::to_string(found.objects.size() + found.prefixes.size()) + "</KeyCount>";
    if (!found.next.empty())
      body += "<NextContinuationToken>" + wire::base64(found.next) + "</NextContinuationToken>";
  } else {
    body += "<Marker>" + shown(query.after) + "</Marker>";
    if (!found.next.empty()) body += "<NextMarker>" + shown(found.next) + "</NextMarker>";
  }
  for (const object::ObjectInfo& info : found.objects)
    body += "<Contents><Key>" + shown(info.key) + "</Key><LastModified>" + iso_date(info.modified) +
            "</LastModified><ETag>&quot;" + info.etag + "&quot;</ETag><Size>" +
            std::to_string(info.size) + "</Size><StorageClass>STANDARD</StorageClass></Contents>";
  for (const std::string& prefix : found.prefixes)
    body += "<CommonPrefixes><Prefix>" + shown(prefix) + "</Prefix></CommonPrefixes>";
  return body + "</ListBucketResult>";
}

std::string bucket_arn(const std::string& bucket) {
  return "arn:aws:s3:::" + bucket;
}

std::string object_arn(const std::string& bucket, const std::string& key) {
  return bucket_arn(bucket) + "/" + key;
}

// What is asked for beyond what is served must not look as if it were done.
AwsResult<> check_headers(const AwsCall& call) {
  for (const wire::HeaderField& field : call.exchange.request().headers) {
    const std::string_view name = field.name;
    const std::string_view value = field.value;
    if (!name.starts_with("x-amz-") || name.starts_with("x-amz-meta-") ||
        name.starts_with("x-amz-checksum-"))
      continue;
    constexpr std::array<std::string_view, 10> kKnown{
        "x-amz-date",       "x-amz-content-sha256",         "x-amz-security-token",
        "x-amz-trailer",    "x-amz-decoded-content-length", "x-amz-sdk-checksum-algorithm",
        "x-amz-user-agent", "x-amz-request-payer",          "x-amz-mp-object-size",
        "x-amz-te"};
    if (std::ranges::find(kKnown, name) != kKnown.end()) continue;
    if (name == "x-amz-expected-bucket-owner") {
      if (value != call.tenant().str()) return refuse("AccessDenied", 403, "Access Denied");
      continue;
    }
    if (name == "x-amz-acl" && (value == "private" || value == "bucket-owner-full-control"))
      continue;
    if (name == "x-amz-storage-class" && value == "STANDARD") continue;
    return refuse(
        "NotImplemented", 501,
        "A header you provided implies functionality that is not implemented: " + field.name);
  }
  return {};
}

}  // namespace

AwsReply S3Api::render(const AwsError& error, const std::string& request_id) const {
  const AwsErrorName told = name_of(error);
  std::string body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + told.name +
                     "</Code><Message>" + xml_escape(error.error.message) + "</Message>";
  for (const auto& member : error.members)
    body += "<" + std::string(member.key()) + ">" +
            xml_escape(std::string_view(member.value().as_string())) + "</" +
            std::string(member.key()) + ">";
  body += "<RequestId>" + request_id + "</RequestId></Error>";
  return {told.status, aws_headers(request_id, kXml), std::move(body)};
}

net::Task<AwsResult<>> S3Api::handle(AwsCall& call) {
  FB_CO_TRY(check_headers(call));
  std::vector<std::string> segments = call.target.segments;
  if (!segments.empty() && segments[0] == "s3") segments.erase(segments.begin());
  std::string_view host = call.exchange.request().authority;
  host = host.substr(0, host.rfind(':'));
  S3Path place;
  std::size_t from = 1;
  if (host.ends_with(kHost)) {
    place.bucket = host.substr(0, host.size() - kHost.size());
    from = 0;
  } else if (!segments.empty()) {
    place.bucket = segments[0];
  }
  place.key = join_key(segments, from);
  if (place.bucket.empty()) {
    if (call.exchange.request().method == "GET") co_return co_await list_buckets(call);
    co_return refuse("MethodNotAllowed", 405,
                     "The specified method is not allowed against this resource.");
  }
  if (place.key.empty()) co_return co_await on_bucket(call, std::move(place));
  co_return co_await on_object(call, std::move(place));
}

AwsResult<> S3Api::allow_on_bucket(const AwsCall& call, const std::string& bucket) {
  const std::string& method = call.exchange.request().method;
  const std::string arn = bucket_arn(bucket);
  if (method == "PUT") return call.allow("s3:CreateBucket", arn);
  if (method == "DELETE") return call.allow("s3:DeleteBucket", arn);
  if (method == "HEAD") return call.allow("s3:ListBucket", arn);
  if (call.target.has_query("location")) return call.allow("s3:GetBucketLocation", arn);
  return call.allow("s3:ListBucket", arn, call.target.query_value("prefix"));
}

// Parts of an object are written by whoever may write the object.
AwsResult<> S3Api::allow_on_object(const AwsCall& call, const S3Path& place) {
  const std::string& method = call.exchange.request().method;
  const bool upload = call.target.has_query("uploadId");
  const std::string arn = object_arn(place.bucket, place.key);
  if (method == "GET" && upload) return call.allow("s3:ListMultipartUploadParts", arn);
  if (method == "GET" || method == "HEAD") return call.allow("s3:GetObject", arn);
  if (method == "DELETE" && upload) return call.allow("s3:AbortMultipartUpload", arn);
  if (method == "DELETE") return call.allow("s3:DeleteObject", arn);
  return call.allow("s3:PutObject", arn);
}

S3Api::Done S3Api::on_bucket(AwsCall& call, S3Path place) {
  const std::string& method = call.exchange.request().method;
  const net::Target& target = call.target;
  // What is asked of a bucket beyond its objects is not served, and must not look as if.
  for (const auto& [name, value] : target.query) {
    for (const char* other :
         {"acl", "cors", "encryption", "lifecycle", "notification", "object-lock", "policy",
          "publicAccessBlock", "replication", "requestPayment", "tagging", "uploads", "versioning",
          "versions", "website", "logging", "ownershipControls"}) {
      if (name == other)
        co_return refuse("NotImplemented", 501,
                         "A header or query you provided implies functionality that is not "
                         "implemented: " +
                             name);
    }
  }
  // Decided for each object.
  if (method == "POST" && target.has_query("delete"))
    co_return co_await delete_objects(call, std::move(place));
  FB_CO_TRY(allow_on_bucket(call, place.bucket));
  if (method == "PUT") co_return co_await create_bucket(call, std::move(place));
  if (method == "DELETE") co_return co_await delete_bucket(call, std::move(place));
  if (!objects_.bucket(call.tenant(), place.bucket))
    co_return refuse("NoSuchBucket", 404, "The specified bucket does not exist");
  if (method == "HEAD") {
    wire::Headers headers = aws_headers(call.request_id);
    headers.push_back({"x-amz-bucket-region", call.region()});
    FB_CO_TRY(co_await call.exchange.reply(200, std::move(headers), "", call.deadline));
    co_return AwsResult<>();
  }
  if (method == "GET" && target.has_query("location")) {
    FB_CO_TRY(co_await aws_reply(call, 200, kXml,
                                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint "
                                 "xmlns=\"" +
                                     std::string(kNamespace) + "\">" + xml_escape(call.region()) +
                                     "</LocationConstraint>"));
    co_return AwsResult<>();
  }
  if (method == "GET") co_return co_await list_objects(call, std::move(place));
  co_return refuse("MethodNotAllowed", 405,
                   "The specified method is not allowed against this resource.");
}

S3Api::Done S3Api::on_object(AwsCall& call, S3Path place) {
  const std::string& method = call.exchange.request().method;
  const bool upload = call.target.has_query("uploadId");
  for (const char* other : {"acl", "tagging", "retention", "legal-hold", "torrent", "attributes",
                            "select", "restore", "versionId"}) {
    if (call.target.has_query(other))
      co_return refuse("NotImplemented", 501,
                       "A header or query you provided implies functionality that is not "
                       "implemented: " +
                           std::string(other));
  }
  if (auto good = object::check_key(place.key); !good)
    co_return refuse("KeyTooLongError", 400, good.error().message);
  FB_CO_TRY(allow_on_object(call, place));
  if (method == "GET" && upload) co_return co_await list_parts(call, std::move(place));
  if (method == "GET" || method == "HEAD")
    co_return co_await get_object(call, std::move(place), method == "HEAD");
  if (method == "PUT" && upload) co_return co_await upload_part(call, std::move(place));
  if (method == "PUT") co_return co_await put_object(call, std::move(place));
  if (method == "DELETE" && upload) co_return co_await abort_upload(call, std::move(place));
  if (method == "DELETE") co_return co_await delete_object(call, std::move(place));
  if (method == "POST" && upload) co_return co_await complete_upload(call, std::move(place));
  if (method == "POST" && call.target.has_query("uploads"))
    co_return co_await create_upload(call, std::move(place));
  co_return refuse("MethodNotAllowed", 405,
                   "The specified method is not allowed against this resource.");
}

// ----------------------------------------------------------------------------------------- buckets

S3Api::Done S3Api::list_buckets(AwsCall& call) {
  FB_CO_TRY(call.allow("s3:ListAllMyBuckets", bucket_arn("*")));
  std::string body =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListAllMyBucketsResult xmlns=\"" +
      std::string(kNamespace) + "\"><Owner><ID>" + call.tenant().str() + "</ID></Owner><Buckets>";
  for (const object::BucketInfo& bucket : objects_.buckets(call.tenant()))
    body += "<Bucket><Name>" + bucket.name + "</Name><CreationDate>" + iso_date(bucket.created) +
            "</CreationDate></Bucket>";
  FB_CO_TRY(co_await aws_reply(call, 200, kXml, body + "</Buckets></ListAllMyBucketsResult>"));
  co_return AwsResult<>();
}

S3Api::Done S3Api::create_bucket(AwsCall& call, S3Path place) {
  FB_CO_TRY(co_await read_small(call));  // a location: there is one place
  if (auto good = object::check_bucket_name(place.bucket); !good)
    co_return refuse("InvalidBucketName", 400, good.error().message);
  const core::TenantId& tenant = call.tenant();
  auto made = co_await blocking([&] { return objects_.create_bucket(tenant, place.bucket); });
  if (!made && made.error().code == Code::conflict)
    co_return refuse("BucketAlreadyOwnedByYou", 409,
                     "Your previous request to create the named bucket succeeded and you already "
                     "own it.");
  if (!made && made.error().code == Code::exhausted)
    co_return refuse("TooManyBuckets", 400, made.error().message);
  if (!made) co_return std::unexpected(made.error());
  wire::Headers headers = aws_headers(call.request_id);
  headers.push_back({"location", "/" + place.bucket});
  FB_CO_TRY(co_await call.exchange.reply(200, std::move(headers), "", call.deadline));
  co_return AwsResult<>();
}

S3Api::Done S3Api::delete_bucket(AwsCall& call, S3Path place) {
  const core::TenantId& tenant = call.tenant();
  auto gone = co_await blocking([&] { return objects_.remove_bucket(tenant, place.bucket); });
  if (!gone && gone.error().code == Code::conflict)
    co_return refuse("BucketNotEmpty", 409, gone.error().message);
  if (!gone) co_return std::unexpected(gone.error());
  FB_CO_TRY(co_await aws_reply(call, 204, {}, {}));
  co_return AwsResult<>();
}

S3Api::Done S3Api::list_objects(AwsCall& call, S3Path place) {
  const net::Target& target = call.target;
  const bool second = target.query_value("list-type") == "2";
  object::ObjectStore::Query query;
  query.prefix = target.query_value("prefix");
  query.delimiter = target.query_value("delimiter");
  query.after = target.query_value(second ? "start-after" : "marker");
  if (second && target.has_query("continuation-token")) {
    const auto token = wire::from_base64(target.query_value("continuation-token"));
    if (!token)
      co_return refuse("InvalidArgument", 400, "The continuation token provided is incorrect");
    query.after = *token;
  }
  if (target.has_query("max-keys")) {
    const auto most = parse_u64(target.query_value("max-keys"));
    if (!most) co_return refuse("InvalidArgument", 400, "max-keys must be a number");
    query.most = std::min<std::uint64_t>(*most, 1000);
  }
  FB_CO_TRY_ASSIGN(const auto found, objects_.list(call.tenant(), place.bucket, query));
  const bool url = target.query_value("encoding-type") == "url";
  FB_CO_TRY(
      co_await aws_reply(call, 200, kXml, listing_xml(place.bucket, query, found, second, url)));
  co_return AwsResult<>();
}

S3Api::Done S3Api::delete_objects(AwsCall& call, S3Path place) {
  FB_CO_TRY_ASSIGN(const std::string text, co_await read_small(call));
  auto root = wire::parse_xml(text);
  if (!root || root->name != "Delete" || root->children.size() > 1001)
    co_return refuse("MalformedXML", 400,
                     "The XML you provided was not well-formed or did not validate against our "
                     "published schema");
  if (!objects_.bucket(call.tenant(), place.bucket))
    co_return refuse("NoSuchBucket", 404, "The specified bucket does not exist");
  const bool quiet = root->child_text("Quiet") == "true";
  const core::TenantId& tenant = call.tenant();
  std::string body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DeleteResult xmlns=\"" +
                     std::string(kNamespace) + "\">";
  for (const wire::XmlElement& each : root->children) {
    if (each.name != "Object") continue;
    const std::string key = each.child_text("Key");
    if (auto may = call.allow("s3:DeleteObject", object_arn(place.bucket, key)); !may) {
      body += "<Error><Key>" + xml_escape(key) + "</Key><Code>AccessDenied</Code><Message>" +
              xml_escape(may.error().error.message) + "</Message></Error>";
      continue;
    }
    auto gone = co_await blocking([&] { return objects_.remove(tenant, place.bucket, key); });
    if (!gone) {
      body += "<Error><Key>" + xml_escape(key) + "</Key><Code>InternalError</Code><Message>" +
              xml_escape(gone.error().message) + "</Message></Error>";
    } else if (!quiet) {
      body += "<Deleted><Key>" + xml_escape(key) + "</Key></Deleted>";
    }
  }
  FB_CO_TRY(co_await aws_reply(call, 200, kXml, body + "</DeleteResult>"));
  co_return AwsResult<>();
}

}  // namespace firebreak::api
