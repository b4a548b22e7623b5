#include "guest/cgroups.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include <poll.h>
#include <sys/sysinfo.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/log.h"

namespace firebreak::guest {
namespace {

constexpr std::string_view kControllers = "+cpu +memory +pids";
constexpr std::uint64_t kReserve = 8ULL << 20;

// A "key value" line of a small kernel file.
std::optional<std::uint64_t> read_key(int fd, std::string_view key) {
  char buffer[512];
  const ssize_t n = ::pread(fd, buffer, sizeof buffer, 0);
  if (n <= 0) return std::nullopt;
  for (const std::string_view line : split({buffer, static_cast<std::size_t>(n)}, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return parse_u64(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

Result<> write_in(int dir, const std::string& file, std::string_view text) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::openat(dir, file, O_WRONLY));
  return sys::write_all(fd.get(), text);
}

}  // namespace

Result<std::unique_ptr<Cgroup>> Cgroup::make(int parent, const std::string& name) {
  if (::mkdirat(parent, name.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno("cgroup " + name);
  FB_TRY_ASSIGN(UniqueFd dir, sys::openat(parent, name, O_RDONLY | O_DIRECTORY));
  std::unique_ptr<Cgroup> cgroup(new Cgroup(std::move(dir), name));
  FB_TRY_ASSIGN(cgroup->events_, sys::openat(cgroup->fd(), "cgroup.events", O_RDONLY));
  return cgroup;
}

void Cgroup::kill() {
  killed_ = true;
  if (auto done = write_in(fd(), "cgroup.kill", "1"); !done) log(done.error().text());
}

bool Cgroup::populated() const {
  return read_key(events_.get(), "populated").value_or(1) != 0;
}

bool Cgroup::take_oom() {
  // Opened late: the file exists only once the parent has the controller.
  if (!memory_events_) {
    auto file = sys::openat(fd(), "memory.events", O_RDONLY);
    if (!file) return false;
    memory_events_ = *std::move(file);
  }
  const std::uint64_t kills = read_key(memory_events_.get(), "oom_kill").value_or(oom_kills_);
  return std::exchange(oom_kills_, kills) != kills;
}

Result<std::uint64_t> Cgroup::number(const std::string& file) const {
  FB_TRY_ASSIGN(UniqueFd opened, sys::openat(fd(), file, O_RDONLY));
  char buffer[64];
  const ssize_t n = ::read(opened.get(), buffer, sizeof buffer);
  if (n <= 0) return fail_errno("read " + file);
  const auto value = parse_u64(split({buffer, static_cast<std::size_t>(n)}, '\n').front());
  if (!value) return fail(Code::internal, file + " is not a number");
  return *value;
}

Result<std::uint64_t> Cgroup::key(const std::string& file, std::string_view name) const {
  FB_TRY_ASSIGN(UniqueFd opened, sys::openat(fd(), file, O_RDONLY));
  const auto value = read_key(opened.get(), name);
  if (!value) return fail(Code::internal, file + " has no " + std::string(name));
  return *value;
}

Result<std::unique_ptr<CgroupPool>> CgroupPool::make(int parent, std::size_t ready) {
  FB_TRY_ASSIGN(UniqueFd own, sys::dup(parent));
  std::unique_ptr<CgroupPool> pool(new CgroupPool(std::move(own)));
  for (std::size_t i = 0; i < ready; ++i) {
    FB_TRY_ASSIGN(auto cgroup, pool->add());
    cgroup->take_oom();  // opens the file now rather than at the first exit
    pool->ready_.push_back(std::move(cgroup));
  }
  return pool;
}

Result<std::unique_ptr<Cgroup>> CgroupPool::add() {
  return Cgroup::make(parent_.get(), "x" + std::to_string(made_++));
}

Result<std::unique_ptr<Cgroup>> CgroupPool::take() {
  if (ready_.empty()) collect();
  if (ready_.empty()) return add();
  auto cgroup = std::move(ready_.back());
  ready_.pop_back();
  return cgroup;
}

void CgroupPool::give(std::unique_ptr<Cgroup> cgroup) {
  if (cgroup->populated()) {
    populated_.push_back(std::move(cgroup));
    if (ready_.empty()) collect();
  } else {
    reuse(std::move(cgroup));
  }
}

// Takes back what background processes have left meanwhile.
void CgroupPool::collect() {
  const auto empty = std::partition(populated_.begin(), populated_.end(),
                                    [](const auto& cgroup) { return cgroup->populated(); });
  std::vector<std::unique_ptr<Cgroup>> left(std::make_move_iterator(empty),
                                            std::make_move_iterator(populated_.end()));
  populated_.erase(empty, populated_.end());
  for (auto& cgroup : left) reuse(std::move(cgroup));
}

void CgroupPool::reuse(std::unique_ptr<Cgroup> cgroup) {
  if (cgroup->was_killed()) {
    ::unlinkat(parent_.get(), cgroup->name().c_str(), AT_REMOVEDIR);
    auto fresh = add();
    if (!fresh) return;
    cgroup = *std::move(fresh);
  }
  cgroup->take_oom();  // what happened until now is not the next one's
  ready_.push_back(std::move(cgroup));
}

Result<Freezer> Freezer::open(int cgroup) {
  FB_TRY_ASSIGN(UniqueFd control, sys::openat(cgroup, "cgroup.freeze", O_WRONLY));
  FB_TRY_ASSIGN(UniqueFd events, sys::openat(cgroup, "cgroup.events", O_RDONLY));
  return Freezer(std::move(control), std::move(events));
}

Result<> Freezer::freeze(Deadline deadline) {
  if (::pwrite(control_.get(), "1", 1, 0) != 1) return fail_errno("freeze");
  for (;;) {
    if (read_key(events_.get(), "frozen") == 1) return {};
    if (deadline.passed()) {
      FB_TRY(thaw());
      return fail(Code::timeout, "some processes of the tenant did not freeze in time");
    }
    pollfd waiting{events_.get(), POLLPRI, 0};
    ::poll(&waiting, 1, static_cast<int>(deadline.left().count()) + 1);
  }
}

Result<> Freezer::thaw() {
  if (::pwrite(control_.get(), "0", 1, 0) != 1) return fail_errno("thaw");
  return {};
}

Result<CgroupTree> make_cgroup_tree(const std::string& mount) {
  FB_TRY_ASSIGN(UniqueFd root, sys::open(mount, O_RDONLY | O_DIRECTORY));
  FB_TRY_ASSIGN(auto agent, Cgroup::make(root.get(), "agent"));
  FB_TRY(write_in(agent->fd(), "cgroup.procs", std::to_string(::getpid())));
  FB_TRY(write_in(root.get(), "cgroup.subtree_control", kControllers));

  CgroupTree tree;
  FB_TRY_ASSIGN(tree.tenant, Cgroup::make(root.get(), "tenant"));
  FB_TRY_ASSIGN(tree.rehearsal, Cgroup::make(root.get(), "rehearsal"));
  FB_TRY(write_in(tree.rehearsal->fd(), "cgroup.subtree_control", kControllers));
  FB_TRY_ASSIGN(tree.shadow, Cgroup::make(root.get(), "shadow"));
  FB_TRY_ASSIGN(tree.shadow_member, Cgroup::make(tree.shadow->fd(), "member"));
  FB_TRY_ASSIGN(tree.init, Cgroup::make(tree.tenant->fd(), "init"));
  FB_TRY_ASSIGN(tree.app, Cgroup::make(tree.tenant->fd(), "app"));
  FB_TRY_ASSIGN(tree.tenant_subtree_control,
                sys::openat(tree.tenant->fd(), "cgroup.subtree_control", O_WRONLY));

  // A tenant that eats all memory or all process ids must meet its own limit before the kernel
  // meets its.
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return fail_errno("sysinfo");
  // Free memory before there is a tenant: the kernel and the agent have what they need already.
  const std::uint64_t unit = info.mem_unit;
  const std::uint64_t reserve = std::max(kReserve, info.totalram * unit / 64);
  const std::uint64_t free = (info.freeram + info.bufferram) * unit;
  FB_TRY(write_in(tree.tenant->fd(), "memory.max",
                  std::to_string(free - std::min(reserve, free / 2))));
  FB_TRY_ASSIGN(const std::string threads, sys::read_file("/proc/sys/kernel/threads-max"));
  FB_TRY_ASSIGN(const std::string pids, sys::read_file("/proc/sys/kernel/pid_max"));
  const auto limit = std::min(parse_u64(split(threads, '\n').front()).value_or(4096),
                              parse_u64(split(pids, '\n').front()).value_or(4096));
  FB_TRY(write_in(tree.tenant->fd(), "pids.max", std::to_string(limit / 4 * 3)));
  return tree;
}

}  // namespace firebreak::guest
