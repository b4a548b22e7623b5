#include "object/remote_config.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"
#include "object/object_store.h"

namespace firebreak::object {
namespace {

constexpr std::string_view kAccount = "{account}";
constexpr std::size_t kMaxFolder = 512;

std::string filled(std::string text, const core::TenantId& tenant) {
  for (auto at = text.find(kAccount); at != std::string::npos; at = text.find(kAccount))
    text.replace(at, kAccount.size(), tenant.str());
  return text;
}

bool is_plain(std::string_view key) {
  return std::ranges::none_of(split(key, '/'), [](std::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Result<RemoteGrant> parse_grant(std::string_view text) {
  const auto bad = [text](const std::string& why, Repair repair = {}) {
    return fail(Code::invalid, "'" + std::string(text) + "' " + why, std::move(repair));
  };
  const auto pair = split_pair(text);
  if (!pair) return bad("must be ACCOUNT=BUCKET or ACCOUNT=BUCKET/FOLDER");
  RemoteGrant grant;
  grant.account = pair->name;
  const std::string_view place = pair->value;
  const auto slash = place.find('/');
  grant.bucket = place.substr(0, slash);
  if (slash != std::string_view::npos) grant.folder = place.substr(slash + 1);
  while (grant.folder.ends_with('/')) grant.folder.pop_back();

  const bool all = grant.account == "*";
  if (!all && (grant.account.size() != 12 || !parse_u64(grant.account)))
    return bad("must begin with an account id of 12 digits, or with '*'");
  if (all && !place.contains(kAccount))
    return bad("would give one folder to all tenants",
               Repair{"put {account} into it, or name an account"});
  if (auto named = check_bucket_name(filled(grant.bucket, core::TenantId("000000000000"))); !named)
    return bad("names no bucket: " + named.error().message);
  if (grant.folder.size() > kMaxFolder || (!grant.folder.empty() && !is_plain(grant.folder)))
    return bad("names a folder with empty parts or dots");
  if (!grant.folder.empty()) grant.folder += '/';
  return grant;
}

}  // namespace

bool RemoteGrant::covers(const core::TenantId& tenant, std::string_view bucket_name) const {
  return (account == "*" || account == tenant.str()) && filled(bucket, tenant) == bucket_name;
}

bool RemoteGrant::covers(const core::TenantId& tenant, std::string_view bucket_name,
                         std::string_view key) const {
  return covers(tenant, bucket_name) && is_plain(key) && key.starts_with(filled(folder, tenant));
}

Result<std::vector<RemoteGrant>> parse_remote_grants(std::string_view text) {
  std::vector<RemoteGrant> grants;
  for (const std::string_view part : split(text, ',')) {
    if (part.empty()) continue;
    FB_TRY_ASSIGN(RemoteGrant grant, parse_grant(part));
    grants.push_back(std::move(grant));
  }
  return grants;
}

Result<wire::SigV4Key> parse_credentials(std::string_view text) {
  wire::SigV4Key key;
  bool ours = false;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      ours = line == "[default]";
      continue;
    }
    const auto equals = line.find('=');
    if (!ours || equals == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, equals));
    const std::string value(trim(line.substr(equals + 1)));
    if (name == "aws_access_key_id") key.access_key_id = value;
    if (name == "aws_secret_access_key") key.secret = value;
    if (name == "aws_session_token") key.session_token = value;
  }
  if (key.access_key_id.empty() || key.secret.empty())
    return fail(Code::invalid, "no aws_access_key_id and aws_secret_access_key below [default]",
                Repair{"write them as in "
                       "~/.aws/credentials"});
  return key;
}

Result<> check_remote_endpoint(std::string_view url) {
  const auto begin = url.find("://");
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  const std::string_view authority = known ? url.substr(begin + 3) : "";
  if (authority.empty() || authority.find_first_of("/?#@ ") != std::string_view::npos)
    return fail(Code::invalid, "'" + std::string(url) +
                                   "' must be http://HOST, https://HOST or one with :PORT, and "
                                   "nothing behind it");
  return {};
}

}  // namespace firebreak::object
