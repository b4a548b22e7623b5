#include "guest/context_reseed.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::guest {
namespace {
void send(int pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}
}  // namespace

Result<> ReseedList::add(const void* key, int pidfd, int signal) {
  Entry entry;
  FB_TRY_ASSIGN(entry.pidfd, sys::dup(pidfd));
  entry.signal = signal;
  const std::scoped_lock lock(mutex_);
  entries_.insert_or_assign(key, std::move(entry));
  return {};
}

void ReseedList::used(const void* key) {
  const std::scoped_lock lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  at->second.used = true;
  if (std::exchange(at->second.missed, false)) send(at->second.pidfd.get(), at->second.signal);
}

void ReseedList::remove(const void* key) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(key);
}

void ReseedList::signal_all() {
  const std::scoped_lock lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.used)
      send(entry.pidfd.get(), entry.signal);
    else
      entry.missed = true;
  }
}

}  // namespace firebreak::guest
