#include "audit/stream.h"

#include "audit/signing.h"
#include "base/json.h"
#include "wire/crypto.h"

namespace firebreak::audit {
namespace {

constexpr std::string_view kSignature = R"({"signature":")";
constexpr std::string_view kCheckpoint = R"({"checkpoint":)";
constexpr std::string_view kManifest = R"({"manifest":)";

std::string text_of(const Checkpoint& it) {
  const json::object object{
      {"tenant", it.tenant.str()}, {"n", it.n}, {"hash", it.hash}, {"at", core::to_unix_ms(it.at)}};
  return json::serialize(object);
}

std::string text_of(const Manifest& it) {
  const json::object object{
      {"tenant", it.tenant.str()},    {"first", it.first}, {"last", it.last},
      {"previous", it.previous},      {"hash", it.hash},   {"anchored", it.anchored},
      {"at", core::to_unix_ms(it.at)}};
  return std::string(kManifest) + json::serialize(object) + "}";
}

std::string signature_of(std::string_view bytes) {
  return std::string(kSignature) + wire::base64(bytes) + "\"}";
}

std::optional<std::string> signature_in(std::string_view line) {
  if (!line.starts_with(kSignature) || !line.ends_with("\"}")) return std::nullopt;
  line.remove_prefix(kSignature.size());
  line.remove_suffix(2);
  return wire::from_base64(line);
}

}  // namespace

Result<std::string> checkpoint_line(const Checkpoint& checkpoint, std::string_view private_key) {
  const std::string text = text_of(checkpoint);
  // The name is signed as well, so that no text of one kind passes for another.
  FB_TRY_ASSIGN(const std::string signature, sign(private_key, std::string(kCheckpoint) + text));
  return std::string(kCheckpoint) + text + R"(,"signature":")" + wire::base64(signature) + "\"}";
}

Result<std::string> manifest_lines(const Manifest& manifest, std::string_view private_key) {
  const std::string text = text_of(manifest);
  FB_TRY_ASSIGN(const std::string signature, sign(private_key, text));
  return text + "\n" + signature_of(signature);
}

std::optional<SignedCheckpoint> read_checkpoint(std::string_view line,
                                                std::string_view public_key) {
  if (!line.starts_with(kCheckpoint)) return std::nullopt;
  const auto object = parse_json_object(line);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  const json::object* inner = reader.object("checkpoint", true);
  const auto signature = wire::from_base64(reader.string("signature"));
  if (inner == nullptr || !signature || !reader.result()) return std::nullopt;
  JsonReader fields(*inner);
  SignedCheckpoint out;
  out.checkpoint = {.tenant = core::TenantId(fields.string("tenant")),
                    .n = fields.u64("n"),
                    .hash = fields.string("hash"),
                    .at = core::from_unix_ms(fields.i64("at"))};
  if (!fields.result()) return std::nullopt;
  out.genuine =
      signed_by(public_key, std::string(kCheckpoint) + text_of(out.checkpoint), *signature);
  return out;
}

std::optional<Manifest> read_manifest(std::string_view line) {
  if (!line.starts_with(kManifest)) return std::nullopt;
  const auto object = parse_json_object(line);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  const json::object* inner = reader.object("manifest", true);
  if (inner == nullptr) return std::nullopt;
  JsonReader fields(*inner);
  const Manifest out{.tenant = core::TenantId(fields.string("tenant")),
                     .first = fields.u64("first"),
                     .last = fields.u64("last"),
                     .previous = fields.string("previous"),
                     .hash = fields.string("hash"),
                     .anchored = fields.u64("anchored"),
                     .at = core::from_unix_ms(fields.i64("at"))};
  if (!fields.result()) return std::nullopt;
  return out;
}

bool manifest_is_signed(std::string_view manifest, std::string_view signature_line,
                        std::string_view public_key) {
  const auto signature = signature_in(signature_line);
  return signature && signed_by(public_key, manifest, *signature);
}

}  // namespace firebreak::audit
