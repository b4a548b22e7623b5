// Where the zip of an image comes from: a bucket of this server, or one elsewhere that the operator
// has given to the tenant. Owned by the program; one executor.
#pragma once

#include <string>

#include "control/builds.h"
#include "control/roles.h"
#include "object/object_store.h"
#include "object/remote_objects.h"

namespace firebreak::api {

// The zip of an image, and as whom it is read.
struct ArtifactPlace {
  std::string bucket;
  std::string key;
  std::string role;  // name of the tenant's or the operator's; empty: one made elsewhere
};

class Artifacts {
 public:
  // `remote` may be nullptr. `directory`: on the file system that holds contexts.
  Artifacts(const object::ObjectStore& own, const object::RemoteObjects* remote,
            const control::Roles& roles, net::asio::thread_pool& pool, std::string directory)
      : own_(own), remote_(remote), roles_(roles), pool_(pool), directory_(std::move(directory)) {}

  // Failures begin with the codes that AWS documents.
  net::Task<Result<control::BuildRequest::Context>> fetch(core::TenantId tenant,
                                                          ArtifactPlace place,
                                                          Deadline deadline) const;

 private:
  using Context = control::BuildRequest::Context;

  Result<> allow(const core::TenantId& tenant, const ArtifactPlace& place) const;
  Result<Context> read_own(const core::TenantId& tenant, const ArtifactPlace& place) const;
  net::Task<Result<Context>> read_remote(core::TenantId tenant, ArtifactPlace place,
                                         Deadline deadline) const;

  const object::ObjectStore& own_;
  const object::RemoteObjects* remote_;
  const control::Roles& roles_;
  net::asio::thread_pool& pool_;
  std::string directory_;
};

}  // namespace firebreak::api
