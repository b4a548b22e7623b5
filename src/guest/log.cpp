#include "guest/log.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/reboot.h>
#include <unistd.h>

namespace firebreak::guest {
namespace {
int g_kernel_log = -1;
}

void log_to_kernel() {
  g_kernel_log = ::open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
}

void log(std::string_view line) {
  // One write per line: /dev/kmsg takes each write as one record.
  std::string text = "firebreak-agent: ";
  text.append(line).push_back('\n');
  const int fd = g_kernel_log >= 0 ? g_kernel_log : STDERR_FILENO;
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

void fatal(std::string_view line) {
  log(line);
  if (::getpid() != 1) std::abort();
  for (;;) {
    ::reboot(RB_POWER_OFF);
    ::sleep(1);
  }
}

}  // namespace firebreak::guest
