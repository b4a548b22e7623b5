#include "guest/metadata.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/sys.h"

namespace firebreak::guest {
namespace {
constexpr std::size_t kTokenBytes = 28;
constexpr std::size_t kMaxCredentials = 16UL * 1024;
}  // namespace

Result<Metadata::Values> Metadata::parse(const json::object& body) {
  JsonReader reader(body, "metadata.");
  Values values;
  values.instance_id = reader.string("instance_id");
  values.region = reader.string_or("region", "");
  values.account = reader.string_or("account", "");
  values.role = reader.string_or("role", "");
  values.credentials = reader.string_or("credentials", "");
  if (values.role.empty() != values.credentials.empty())
    reader.reject("credentials", "and role belong together");
  if (values.credentials.size() > kMaxCredentials) reader.reject("credentials", "are too long");
  FB_TRY(reader.result());
  return values;
}

void Metadata::wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

void Metadata::wipe_credentials() {
  wipe(values_.credentials);
  values_.role.clear();
}

void Metadata::set(Values values) {
  const std::scoped_lock lock(mutex_);
  if (values.instance_id != values_.instance_id) tokens_.clear();
  wipe_credentials();
  values_ = std::move(values);
}

void Metadata::hold() {
  const std::scoped_lock lock(mutex_);
  wipe_credentials();
  held_ = true;
}

void Metadata::release() {
  {
    const std::scoped_lock lock(mutex_);
    held_ = false;
  }
  released_.notify_all();
}

Metadata::Values Metadata::values() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return !held_; });
  return values_;
}

std::string Metadata::issue_token(std::chrono::seconds life, Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(tokens_, [now](const auto& entry) { return entry.second <= now; });
  if (tokens_.size() >= kMaxTokens)
    tokens_.erase(std::ranges::min_element(tokens_, {}, [](const auto& e) { return e.second; }));
  std::string token = sys::random_hex(kTokenBytes);
  tokens_[token] = now + std::min(life, kLongestToken);
  return token;
}

bool Metadata::accepts(std::string_view token, Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  const auto at = tokens_.find(token);
  return at != tokens_.end() && now < at->second;
}

}  // namespace firebreak::guest
