#include "ingress/token_keys.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/sys.h"
#include "ingress/endpoint_tokens.h"
#include "wire/jwe.h"

namespace firebreak::ingress {
namespace {

std::unexpected<Error> damaged(const std::string& path) {
  return fail(Code::corrupt, "the key file " + path + " is damaged",
              Repair{"restore it from a backup, or remove it: all tokens "
                     "of endpoints end then"});
}

std::optional<TokenKey> read_key(const json::value& value) {
  if (!value.is_object()) return std::nullopt;
  JsonReader reader(value.as_object());
  TokenKey key;
  key.id = reader.string("id");
  const auto bytes = wire::from_base64url(reader.string("key"));
  key.created = core::from_unix_ms(reader.i64("created"));
  if (!reader.result() || key.id.empty() || !bytes || bytes->size() != key.key.size())
    return std::nullopt;
  std::memcpy(key.key.data(), bytes->data(), key.key.size());
  return key;
}

}  // namespace

Result<TokenKeys> TokenKeys::load(const std::string& path, core::Time now) {
  TokenKeys keys(path);
  if (!sys::exists(path)) return keys.renew(now);
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  const auto object = parse_json_object(text);
  if (!object) return damaged(path);
  JsonReader reader(*object);
  const json::array* list = reader.array("keys", true);
  if (!reader.result() || list->empty()) return damaged(path);
  for (const json::value& value : *list) {
    auto key = read_key(value);
    if (!key) return damaged(path);
    keys.keys_.push_back(*std::move(key));
  }
  if (keys.due(now)) return keys.renew(now);
  return keys;
}

Result<TokenKeys> TokenKeys::renew(core::Time now) const {
  TokenKeys next = *this;
  // A key is the newest for kRenewAfter at most (longer only while nothing was issued), and what it
  // sealed last lives for kMaxTokenLife.
  std::erase_if(next.keys_, [&](const TokenKey& key) {
    return now - key.created > 2 * kRenewAfter + kMaxTokenLife;
  });
  TokenKey key{.id = wire::random_base64url(9), .key = {}, .created = now};
  sys::random_bytes(key.key);
  next.keys_.push_back(std::move(key));
  FB_TRY(next.save());
  return next;
}

const wire::SealingKey* TokenKeys::find(std::string_view id) const {
  const auto it = std::ranges::find(keys_, id, &TokenKey::id);
  return it == keys_.end() ? nullptr : &it->key;
}

Result<> TokenKeys::save() const {
  json::array list;
  for (const TokenKey& key : keys_) {
    const std::string bytes(reinterpret_cast<const char*>(key.key.data()), key.key.size());
    list.push_back(json::object{{"id", key.id},
                                {"key", wire::base64url(bytes)},
                                {"created", core::to_unix_ms(key.created)}});
  }
  const json::object object{{"keys", std::move(list)}};
  return sys::replace_file(path_, json::serialize(object) + "\n", 0600);
}

}  // namespace firebreak::ingress
