// What RUN --mount brings into a step: trees in memory, bound into the machine for its time.
#include "image/builder.h"

namespace firebreak::image {

net::Task<Result<>> Builder::prepare_mount(BuildMachine& machine, const RunMount& run_mount,
                                           const CopySelection* selected, std::size_t number,
                                           machine::ExecSpec& spec,
                                           std::vector<BuildMachine::StepMount>& mounts,
                                           Deadline deadline) {
  using Type = wire::Mount::Type;
  const wire::Mount& mount = run_mount.mount;
  const std::string name = "mount-" + std::to_string(number);
  StagedTree tree;
  switch (mount.type) {
    case Type::secret: {
      const auto secret = order_.secrets.find(mount.id);
      if (secret == order_.secrets.end()) {
        if (mount.required)
          co_return fail(Code::invalid, "the secret " + mount.id + " was not given",
                         Repair{"give it with --secret id=" + mount.id + ",src=FILE"});
        co_return Result<>();
      }
      if (mount.env) spec.env[mount.env->empty() ? mount.id : *mount.env] = secret->second;
      if (mount.target.empty()) co_return Result<>();
      FB_CO_TRY_ASSIGN(tree,
                       co_await stage_secret(machine, mount, secret->second, number, deadline));
      break;
    }
    case Type::tmpfs:
      FB_CO_TRY(co_await machine.stage(name, mount.size, deadline));
      FB_CO_TRY(co_await put_entry(machine.agent(), name, top_of(mount, 01777), "", deadline));
      tree = {.staging = name, .path = "top"};
      break;
    case Type::cache: {
      FB_CO_TRY_ASSIGN(tree, co_await stage_cache(machine, run_mount, deadline));
      break;
    }
    case Type::bind: {
      FB_CO_TRY(co_await machine.stage(name, 0, deadline));
      FB_CO_TRY_ASSIGN(tree, co_await stage_bind(machine, run_mount, selected, name, deadline));
      break;
    }
  }
  mounts.push_back({.tree = tree, .target = mount.target, .readonly = mount.read_only});
  co_return Result<>();
}

net::Task<Result<StagedTree>> Builder::stage_secret(BuildMachine& machine, const wire::Mount& mount,
                                                    const std::string& value, std::size_t number,
                                                    Deadline deadline) {
  const std::string name = "mount-" + std::to_string(number);
  FB_CO_TRY(co_await machine.stage(name, 0, deadline));
  wire::TarEntry file = top_of(mount, 0400);
  file.path = "secret";
  file.type = wire::TarType::file;
  file.size = value.size();
  FB_CO_TRY(co_await put_entry(machine.agent(), name, file, value, deadline));
  co_return StagedTree{.staging = name, .path = "secret"};
}

net::Task<Result<StagedTree>> Builder::stage_bind(BuildMachine& machine, const RunMount& mount,
                                                  const CopySelection* selected, std::string name,
                                                  Deadline deadline) {
  const CopyPlace place{.directory = ".", .staging = name, .user = {}};
  if (mount.source.kind == FileSource::Kind::context) {
    if (selected == nullptr) co_return StagedTree{.staging = name, .path = "."};
    FB_CO_TRY(co_await copy_context(machine.agent(), *order_.context, *selected, place, "",
                                    {.mode = std::nullopt, .mtime_ns = order_.mtime_ns}, deadline));
    const bool file = selected->items.size() == 1 && selected->items.front().named;
    co_return StagedTree{.staging = name, .path = file ? selected->items.front().to : "."};
  }
  FB_CO_TRY_ASSIGN(BuildMachine * source, co_await source_on(mount.source, deadline));
  FB_CO_TRY_ASSIGN(const auto found, co_await find_guest_sources(
                                         source->agent(), {"/" + mount.mount.source}, deadline));
  const GuestSource& from = found.front();
  FB_CO_TRY(co_await copy_guest(source->agent(), from, machine.agent(), place,
                                from.directory ? "" : "file", std::nullopt, {}, deadline));
  co_return StagedTree{.staging = name, .path = from.directory ? "." : "file"};
}

}  // namespace firebreak::image
