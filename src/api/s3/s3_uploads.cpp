// Uploads in parts: create, upload, complete, abort, list.
#include "api/s3/s3_api.h"
#include "api/s3/s3_body.h"
#include "base/text.h"
#include "wire/xml.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kXml = "application/xml";
constexpr std::string_view kHead = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
constexpr std::string_view kXmlns = " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
constexpr std::uint64_t kSmallestPart = 5UL << 20;  // except the last

std::string unquoted(std::string etag) {
  std::erase(etag, '"');
  return etag;
}

// The parts that a client names, as they are kept, and the ETag of the whole.
struct Assembled {
  std::vector<object::PartInfo> parts;
  std::string etag;
};

AwsResult<Assembled> assemble(const object::Upload& upload, const wire::XmlElement& root) {
  Assembled out;
  wire::Checksum whole(wire::Checksum::Kind::md5);
  std::uint64_t last = 0;
  for (const wire::XmlElement& each : root.children) {
    if (each.name != "Part") continue;
    const auto number = parse_u64(each.child_text("PartNumber"));
    if (!number || *number <= last)
      return refuse("InvalidPartOrder", 400, "The list of parts was not in ascending order.");
    last = *number;
    const auto part = upload.parts.find(static_cast<std::uint32_t>(*number));
    if (part == upload.parts.end() || part->second.etag != unquoted(each.child_text("ETag")))
      return refuse("InvalidPart", 400,
                    "One or more of the specified parts could not be found. The part may not have "
                    "been uploaded, or the specified entity tag may not match the part's entity "
                    "tag.");
    if (!out.parts.empty() && out.parts.back().size < kSmallestPart)
      return refuse("EntityTooSmall", 400,
                    "Your proposed upload is smaller than the minimum allowed size");
    out.parts.push_back(part->second);
    const auto digest = from_hex(part->second.etag);
    if (digest) whole.update({reinterpret_cast<const char*>(digest->data()), digest->size()});
  }
  if (out.parts.empty()) return refuse("MalformedXML", 400, "You must specify at least one part");
  const std::string digest = whole.finish();
  out.etag = to_hex(std::as_bytes(std::span(digest))) + "-" + std::to_string(out.parts.size());
  return out;
}

}  // namespace

S3Api::Done S3Api::create_upload(AwsCall& call, S3Path place) {
  FB_CO_TRY(co_await read_small(call));
  std::map<std::string, std::string> headers;
  for (const wire::HeaderField& field : call.exchange.request().headers) {
    if (field.name.starts_with("x-amz-meta-") || field.name == "content-type" ||
        field.name == "cache-control" || field.name == "content-disposition" ||
        field.name == "content-encoding")
      headers[field.name] = field.value;
  }
  headers.emplace("content-type", "binary/octet-stream");
  const core::TenantId& tenant = call.tenant();
  auto create = [&] {
    return objects_.create_upload(tenant, place.bucket, place.key, std::move(headers));
  };
  FB_CO_TRY_ASSIGN(const object::Upload upload, co_await blocking(create));
  FB_CO_TRY(co_await aws_reply(call, 200, kXml,
                               std::string(kHead) + "<InitiateMultipartUploadResult" +
                                   std::string(kXmlns) + "<Bucket>" + place.bucket +
                                   "</Bucket><Key>" + xml_escape(place.key) + "</Key><UploadId>" +
                                   upload.id + "</UploadId></InitiateMultipartUploadResult>"));
  co_return AwsResult<>();
}

S3Api::Done S3Api::upload_part(AwsCall& call, S3Path place) {
  const auto number = parse_u64(call.target.query_value("partNumber"));
  if (!number || *number == 0 || *number > 10'000)
    co_return refuse("InvalidArgument", 400,
                     "Part number must be an integer between 1 and 10000, inclusive");
  const std::string id(call.target.query_value("uploadId"));
  auto upload = objects_.find_upload(call.tenant(), place.bucket, place.key, id);
  if (!upload) co_return std::unexpected(upload.error());
  FB_CO_TRY_ASSIGN(Received received, co_await receive(call, place.bucket));
  object::PartInfo part{.number = static_cast<std::uint32_t>(*number), .etag = received.etag};
  auto publish = [&] {
    return objects_.publish_part(std::move(received.draft), *upload, std::move(part));
  };
  auto published = co_await blocking(publish);
  if (!published) co_return std::unexpected(published.error());
  wire::Headers headers = aws_headers(call.request_id);
  headers.push_back({"etag", "\"" + received.etag + "\""});
  for (const auto& [name, value] : received.checksums) headers.push_back({name, value});
  FB_CO_TRY(co_await call.exchange.reply(200, std::move(headers), "", call.deadline));
  co_return AwsResult<>();
}

S3Api::Done S3Api::complete_upload(AwsCall& call, S3Path place) {
  FB_CO_TRY_ASSIGN(const std::string text, co_await read_small(call));
  const std::string id(call.target.query_value("uploadId"));
  auto upload = objects_.find_upload(call.tenant(), place.bucket, place.key, id);
  if (!upload) co_return std::unexpected(upload.error());
  auto root = wire::parse_xml(text);
  if (!root || root->name != "CompleteMultipartUpload")
    co_return refuse("MalformedXML", 400,
                     "The XML you provided was not well-formed or did not validate against our "
                     "published schema");
  FB_CO_TRY_ASSIGN(const Assembled assembled, assemble(*upload, *root));
  const core::TenantId& tenant = call.tenant();
  auto complete = [&] {
    return objects_.complete(tenant, *upload, assembled.parts, assembled.etag);
  };
  auto made = co_await blocking(complete);
  if (!made) co_return std::unexpected(made.error());
  FB_CO_TRY(co_await aws_reply(call, 200, kXml,
                               std::string(kHead) + "<CompleteMultipartUploadResult" +
                                   std::string(kXmlns) + "<Location>/" + place.bucket + "/" +
                                   xml_escape(place.key) + "</Location><Bucket>" + place.bucket +
                                   "</Bucket><Key>" + xml_escape(place.key) + "</Key><ETag>&quot;" +
                                   made->etag + "&quot;</ETag></CompleteMultipartUploadResult>"));
  co_return AwsResult<>();
}

S3Api::Done S3Api::abort_upload(AwsCall& call, S3Path place) {
  const std::string id(call.target.query_value("uploadId"));
  auto upload = objects_.find_upload(call.tenant(), place.bucket, place.key, id);
  if (!upload) co_return std::unexpected(upload.error());
  const core::TenantId& tenant = call.tenant();
  auto gone = co_await blocking([&] { return objects_.abort(tenant, *upload); });
  if (!gone) co_return std::unexpected(gone.error());
  FB_CO_TRY(co_await aws_reply(call, 204, {}, {}));
  co_return AwsResult<>();
}

S3Api::Done S3Api::list_parts(AwsCall& call, S3Path place) {
  const std::string id(call.target.query_value("uploadId"));
  auto upload = objects_.find_upload(call.tenant(), place.bucket, place.key, id);
  if (!upload) co_return std::unexpected(upload.error());
  const auto after = parse_u64(call.target.query_value("part-number-marker")).value_or(0);
  const auto most =
      std::min<std::uint64_t>(parse_u64(call.target.query_value("max-parts")).value_or(1000), 1000);
  std::string rows;
  std::uint64_t count = 0;
  std::uint64_t last = 0;
  bool truncated = false;
  for (const auto& [number, part] : upload->parts) {
    if (number <= after) continue;
    if (count == most) {
      truncated = true;
      break;
    }
    ++count;
    last = number;
    rows += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><LastModified>" +
            iso_date(part.modified) + "</LastModified><ETag>&quot;" + part.etag +
            "&quot;</ETag><Size>" + std::to_string(part.size) + "</Size></Part>";
  }
  FB_CO_TRY(co_await aws_reply(
      call, 200, kXml,
      std::string(kHead) + "<ListPartsResult" + std::string(kXmlns) + "<Bucket>" + place.bucket +
          "</Bucket><Key>" + xml_escape(place.key) + "</Key><UploadId>" + id +
          "</UploadId><MaxParts>" + std::to_string(most) + "</MaxParts><IsTruncated>" +
          (truncated ? "true" : "false") + "</IsTruncated>" +
          (truncated ? "<NextPartNumberMarker>" + std::to_string(last) + "</NextPartNumberMarker>"
                     : "") +
          rows + "</ListPartsResult>"));
  co_return AwsResult<>();
}

}  // namespace firebreak::api
