// The secrets that tenants have registered, as what leaves their guests is compared with them. A
// change is stored first and holds for every stream that begins after it. Values are sealed in the
// store and never given back. Owned by the server; one executor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "redact/matcher.h"
#include "store/database.h"
#include "wire/crypto.h"

namespace firebreak::control {

class SecretBook {
 public:
  SecretBook(store::Database& db, const core::Clock& clock, wire::SealingKey master);

  net::Task<Result<>> load();

  // Makes or replaces it. Code::invalid for a value that would be found in ordinary text.
  net::Task<Result<>> set(core::TenantId tenant, std::string name, std::string value);
  net::Task<Result<>> remove(core::TenantId tenant, std::string name);
  // Names and times, by name.
  struct Listed {
    std::string name;
    core::Time set{};
  };
  std::vector<Listed> list(const core::TenantId& tenant) const;
  // For a tenant that was removed.
  void forget(const core::TenantId& tenant) { tenants_.erase(tenant); }

  // What to look for in what this tenant's guests send; private keys always.
  std::shared_ptr<const redact::Matcher> matcher(const core::TenantId& tenant) const;

 private:
  struct Known {
    std::string value;
    core::Time set{};
  };
  struct Tenant {
    std::map<std::string, Known> secrets;
    std::shared_ptr<const redact::Matcher> matcher;
  };
  static Result<std::shared_ptr<const redact::Matcher>> compile(
      const std::map<std::string, Known>& secrets);

  store::Database& db_;
  const core::Clock& clock_;
  wire::SealingKey master_;
  std::map<core::TenantId, Tenant> tenants_;
  std::shared_ptr<const redact::Matcher> no_secrets_;
};

}  // namespace firebreak::control
