// What callers call a microVM by: its id, its name, or the beginning of its id. The one place where
// such a word becomes an id; a foreign microVM is absent. One executor.
#pragma once

#include <string>

#include "core/ids.h"
#include "core/model.h"
#include "net/task.h"
#include "store/database.h"

namespace firebreak::control {

// A whole id is passed on as it is: whoever uses it asks for the tenant. not_found: nothing is
// called so; conflict: several ids begin so.
net::Task<Result<core::MicrovmId>> resolve_microvm(store::Database& db, core::TenantId tenant,
                                                   std::string word);

// Whose microVM it is; the administrator's own tenant when there is no such microVM. For
// administrators only.
net::Task<Result<core::TenantId>> owner_of_microvm(store::Database& db, core::TenantId own,
                                                   core::MicrovmId id);

}  // namespace firebreak::control
