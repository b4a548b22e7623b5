// Walks over everything a tenant has, page by page. Blocking, as the store is.
#pragma once

#include <utility>

#include "store/store.h"

namespace firebreak::store {

// Calls `visit(core::Image&) -> Result<>` for each of the tenant's own images; the system's are not
// among them. The first error ends the walk.
template <class Visit>
Result<> for_each_image(const Store& store, const core::TenantId& tenant, Visit visit) {
  PageRequest page{.size = 1000, .token = {}};
  do {
    FB_TRY_ASSIGN(auto found, store.list_images(tenant, "", page));
    for (core::Image& image : found.items)
      if (image.tenant == tenant) FB_TRY(visit(image));
    page.token = found.next;
  } while (!page.token.empty());
  return {};
}

// The same for each version of each of them: `visit(const core::Image&, core::ImageVersion&)`.
template <class Visit>
Result<> for_each_version(const Store& store, const core::TenantId& tenant, Visit visit) {
  return for_each_image(store, tenant, [&](const core::Image& image) -> Result<> {
    FB_TRY_ASSIGN(auto versions, store.list_versions(image.id));
    for (core::ImageVersion& version : versions) FB_TRY(visit(image, version));
    return {};
  });
}

}  // namespace firebreak::store
