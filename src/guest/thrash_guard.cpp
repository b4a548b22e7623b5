#include "guest/thrash_guard.h"

#include <chrono>
#include <string>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "guest/log.h"

namespace firebreak::guest {
namespace {

constexpr auto kLook = std::chrono::seconds(1);
constexpr int kPatience = 3;                      // looks in a row
constexpr std::uint64_t kRefaults = 300;          // pages between two looks
constexpr std::uint64_t kFileBytes = 8ULL << 20;  // less than any program needs to get on

std::string contents(int fd) {
  std::string text(16384, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

std::uint64_t value_of(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const auto space = line.find(' ');
    if (space != std::string_view::npos && line.substr(0, space) == name)
      return parse_u64(line.substr(space + 1)).value_or(0);
  }
  return 0;
}

}  // namespace

bool ThrashGuard::thrashes(const Sample& before, const Sample& after) {
  return after.limit_hits > before.limit_hits && after.kills == before.kills &&
         after.file_bytes < kFileBytes && after.refaults - before.refaults >= kRefaults;
}

Result<std::unique_ptr<ThrashGuard>> ThrashGuard::start(Reactor& reactor, int cgroup) {
  FB_TRY_ASSIGN(UniqueFd events, sys::openat(cgroup, "memory.events", O_RDONLY));
  FB_TRY_ASSIGN(UniqueFd stat, sys::openat(cgroup, "memory.stat", O_RDONLY));
  std::unique_ptr<ThrashGuard> guard(new ThrashGuard(reactor, std::move(events), std::move(stat)));
  (void)contents(guard->events_.get());  // what follows is news
  FB_TRY(reactor.watch(guard->events_.get(), EPOLLPRI | EPOLLET, *guard));
  return guard;
}

ThrashGuard::~ThrashGuard() {
  reactor_.cancel(timer_);
  reactor_.close(events_, *this);
}

ThrashGuard::Sample ThrashGuard::sample() const {
  const std::string events = contents(events_.get());
  const std::string stat = contents(stat_.get());
  return {.limit_hits = value_of(events, "max"),
          .kills = value_of(events, "oom_kill"),
          .file_bytes = value_of(stat, "file"),
          .refaults = value_of(stat, "workingset_refault_file")};
}

void ThrashGuard::on_events(std::uint32_t) {
  if (timer_) {
    (void)contents(events_.get());
    return;
  }
  last_ = sample();
  strikes_ = 0;
  timer_ = reactor_.after(kLook, [this] { look(); });
}

void ThrashGuard::look() {
  timer_ = {};
  const Sample now = sample();
  const bool quiet = now.limit_hits == last_.limit_hits;
  strikes_ = thrashes(last_, now) ? strikes_ + 1 : 0;
  last_ = now;
  if (strikes_ >= kPatience) {
    strikes_ = 0;
    log("the tenant only reads its programs again and again: out of memory");
    if (auto trigger = sys::open("/proc/sysrq-trigger", O_WRONLY))
      (void)sys::write_all(trigger->get(), "f");
  }
  // The next event begins anew.
  if (!quiet) timer_ = reactor_.after(kLook, [this] { look(); });
}

}  // namespace firebreak::guest
