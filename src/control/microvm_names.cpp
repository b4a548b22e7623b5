#include "control/microvm_names.h"

#include <vector>

namespace firebreak::control {

net::Task<Result<core::MicrovmId>> resolve_microvm(store::Database& db, core::TenantId tenant,
                                                   std::string word) {
  if (core::is_microvm_id(word)) co_return core::MicrovmId(word);
  const auto prefix = core::microvm_id_prefix(word);
  const bool is_name = core::check_microvm_name(word).has_value();
  if (!is_name && !prefix)
    co_return fail(Code::not_found, Reason{"microvm_not_found"}, "there is no microVM " + word);
  std::vector<core::MicrovmId> found;
  FB_CO_TRY(co_await db.run([&](const store::Store& store) -> Result<> {
    if (is_name) {
      FB_TRY_ASSIGN(const auto named, store.find_microvm_by_name(tenant, word));
      if (named) found.push_back(*named);
    }
    if (found.empty() && prefix) {
      FB_TRY_ASSIGN(found, store.microvm_ids_beginning(tenant, *prefix));
    }
    return {};
  }));
  if (found.empty())
    co_return fail(Code::not_found, Reason{"microvm_not_found"}, "there is no microVM " + word);
  if (found.size() > 1)
    co_return fail(Code::conflict, Reason{"ambiguous_id"},
                   std::to_string(found.size()) + " microVMs have ids that begin with " + word,
                   Repair{"give more of the id, or a name"});
  co_return found.front();
}

net::Task<Result<core::TenantId>> owner_of_microvm(store::Database& db, core::TenantId own,
                                                   core::MicrovmId id) {
  FB_CO_TRY_ASSIGN(const auto found, co_await db.run([&](const store::Store& store) {
    return store.find_any_microvm(id);
  }));
  co_return found ? found->tenant : own;
}

}  // namespace firebreak::control
