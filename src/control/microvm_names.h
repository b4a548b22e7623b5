// Turns a caller's word for a microVM (its id, its name, or the beginning of its id) into its id,
// in this one place. It does not find names and beginnings of another tenant's microVMs. One
// executor.
#pragma once

#include <string>

#include "core/ids.h"
#include "core/model.h"
#include "net/task.h"
#include "store/database.h"

namespace firebreak::control {

// A whole id is returned as it is, unchecked: its user must look it up together with the tenant.
// not_found: no microVM has the name or beginning; conflict: several ids begin so.
net::Task<Result<core::MicrovmId>> resolve_microvm(store::Database& db, core::TenantId tenant,
                                                   std::string word);

// Whose microVM it is; the administrator's own tenant when there is no such microVM. For
// administrators only.
net::Task<Result<core::TenantId>> owner_of_microvm(store::Database& db, core::TenantId own,
                                                   core::MicrovmId id);

}  // namespace firebreak::control
