// Files into a build machine, with the rules of COPY and ADD: from the context, from the Dockerfile
// itself, or from another build machine. What a guest packs is hostile: it is read by our tar
// reader and written anew. One executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/build_context.h"
#include "image/build_plan.h"
#include "image/copy_sources.h"
#include "image/file_mode.h"
#include "machine/agent_client.h"
#include "net/task.h"
#include "wire/tar.h"

namespace firebreak::image {

// Where the files go: a directory of the tenant, or of a staging (docs/agent-protocol.md).
struct CopyPlace {
  std::string directory;
  std::string staging;
  std::string user;  // of everything; empty: as packed
};

// A tar archive on its way into a guest.
class GuestArchive {
 public:
  static Result<GuestArchive> open(machine::AgentClient& agent, const CopyPlace& place);
  // Onto the tenant's root, with the rules of an image's layer.
  static Result<GuestArchive> open_layer(machine::AgentClient& agent);

  net::Task<Result<>> begin(const wire::TarEntry& entry, Deadline deadline);
  // Content of the entry; or, without entries, an archive that is packed already.
  net::Task<Result<>> write(std::string_view bytes, Deadline deadline);
  net::Task<Result<>> end(Deadline deadline);
  // Code::guest and what the agent said if it did not take everything.
  net::Task<Result<>> finish(Deadline deadline);
  // The same for an archive that ends by itself.
  net::Task<Result<>> finish_packed(Deadline deadline);

 private:
  explicit GuestArchive(std::unique_ptr<net::ChannelStream> stream) : stream_(std::move(stream)) {}
  net::Task<Result<>> flush(Deadline deadline);

  std::unique_ptr<net::ChannelStream> stream_;
  wire::TarWriter writer_;
  std::string out_;
};

// The directory "top" of a staging, with the owner and mode of a mount's options.
wire::TarEntry top_of(const wire::Mount& mount, std::uint32_t mode);
// One entry of a staging.
net::Task<Result<>> put_entry(machine::AgentClient& agent, std::string staging,
                              wire::TarEntry entry, std::string content, Deadline deadline);

struct ModeAndTime {
  std::optional<FileMode> mode;  // --chmod
  std::int64_t mtime_ns = 0;     // of what comes from the context
};

// The chosen files of the context. `rename`: the name of the only one; empty: as chosen.
net::Task<Result<>> copy_context(machine::AgentClient& agent, const BuildContext& context,
                                 const CopySelection& selection, CopyPlace place,
                                 std::string rename, ModeAndTime as, Deadline deadline);
net::Task<Result<>> copy_inline(machine::AgentClient& agent, const std::vector<InlineFile>& files,
                                CopyPlace place, std::string rename, ModeAndTime as,
                                Deadline deadline);
// Whether a file of the context begins as an archive does. The guest looks: nothing is decompressed
// on the host.
net::Task<Result<bool>> is_archive(machine::AgentClient& agent, const BuildContext& context,
                                   const ContextEntry& file, Deadline deadline);
// An archive of the context as it is; the guest unpacks it.
net::Task<Result<>> unpack_archive(machine::AgentClient& agent, const BuildContext& context,
                                   const ContextEntry& file, CopyPlace place, Deadline deadline);

// A path in a guest that a COPY --from names.
struct GuestSource {
  std::string path;
  bool directory = false;
};
// Patterns are looked up; not_found names the source.
net::Task<Result<std::vector<GuestSource>>> find_guest_sources(machine::AgentClient& agent,
                                                               std::vector<std::string> sources,
                                                               Deadline deadline);
// A file, or what is in a directory, from one guest to another.
net::Task<Result<>> copy_guest(machine::AgentClient& from, GuestSource source,
                               machine::AgentClient& to, CopyPlace place, std::string rename,
                               std::optional<FileMode> mode, std::vector<std::string> excludes,
                               Deadline deadline);

// What a path is in the tenant, links followed: "dir", "file", ...; empty: nothing.
net::Task<Result<std::string>> type_of(machine::AgentClient& agent, std::string path,
                                       Deadline deadline);
// Where a path ends once links in its last part are followed; what it names need not exist.
net::Task<Result<std::string>> link_end(machine::AgentClient& agent, std::string path,
                                        Deadline deadline);

}  // namespace firebreak::image
