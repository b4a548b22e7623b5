#include "control/secret_book.h"

namespace firebreak::control {
namespace {

// A sealed value opens only as what it was sealed for.
std::string seal_context(const core::TenantId& tenant, const std::string& name) {
  return "secret " + tenant.str() + " " + name;
}

}  // namespace

SecretBook::SecretBook(store::Database& db, const core::Clock& clock, wire::SealingKey master)
    : db_(db), clock_(clock), master_(master), no_secrets_(*compile({})) {}

net::Task<Result<>> SecretBook::load() {
  FB_CO_TRY_ASSIGN(const auto all,
                   co_await db_.run([](const store::Store& store) { return store.all_secrets(); }));
  for (const core::Secret& secret : all) {
    FB_CO_TRY_ASSIGN(std::string value, wire::unseal(master_, secret.sealed,
                                                     seal_context(secret.tenant, secret.name)));
    tenants_[secret.tenant].secrets[secret.name] = {std::move(value), secret.set};
  }
  for (auto& [id, tenant] : tenants_) {
    FB_CO_TRY_ASSIGN(tenant.matcher, compile(tenant.secrets));
  }
  co_return Result<>();
}

net::Task<Result<>> SecretBook::set(core::TenantId tenant, std::string name, std::string value) {
  const core::Time now = clock_.now();
  FB_CO_TRY_ASSIGN(std::string sealed, wire::seal(master_, value, seal_context(tenant, name)));
  const auto with_it = [&] {
    const auto known = tenants_.find(tenant);
    auto secrets = known == tenants_.end() ? std::map<std::string, Known>{} : known->second.secrets;
    secrets[name] = {value, now};
    return secrets;
  };
  // Refused before it is stored.
  FB_CO_TRY(compile(with_it()));
  const core::Secret record{tenant, name, std::move(sealed), now};
  FB_CO_TRY(co_await db_.run([&](store::Store& store) { return store.put_secret(record); }));
  // Others may have changed while this one was being stored.
  auto secrets = with_it();
  FB_CO_TRY_ASSIGN(auto matcher, compile(secrets));
  tenants_[tenant] = {std::move(secrets), std::move(matcher)};
  co_return Result<>();
}

net::Task<Result<>> SecretBook::remove(core::TenantId tenant, std::string name) {
  FB_CO_TRY(
      co_await db_.run([&](store::Store& store) { return store.remove_secret(tenant, name); }));
  const auto known = tenants_.find(tenant);
  if (known == tenants_.end()) co_return Result<>();
  known->second.secrets.erase(name);
  FB_CO_TRY_ASSIGN(known->second.matcher, compile(known->second.secrets));
  co_return Result<>();
}

std::vector<SecretBook::Listed> SecretBook::list(const core::TenantId& tenant) const {
  std::vector<Listed> all;
  const auto known = tenants_.find(tenant);
  if (known == tenants_.end()) return all;
  for (const auto& [name, secret] : known->second.secrets) all.push_back({name, secret.set});
  return all;
}

std::shared_ptr<const redact::Matcher> SecretBook::matcher(const core::TenantId& tenant) const {
  const auto known = tenants_.find(tenant);
  return known == tenants_.end() ? no_secrets_ : known->second.matcher;
}

Result<std::shared_ptr<const redact::Matcher>> SecretBook::compile(
    const std::map<std::string, Known>& secrets) {
  std::vector<redact::Secret> all;
  all.reserve(secrets.size());
  for (const auto& [name, secret] : secrets) all.push_back({name, secret.value});
  FB_TRY_ASSIGN(redact::PatternSet set, redact::patterns_of(all, true));
  return redact::Matcher::compile(std::move(set));
}

}  // namespace firebreak::control
