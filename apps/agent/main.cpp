// PID 1 of a guest; the reaper of a tenant under another name; or, for tests, the protocol over two
// inherited sockets.
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "guest/log.h"
#include "guest/tenant.h"

using namespace firebreak;

namespace {

int serve_sockets(const char* ctl, const char* data) {
  const auto ctl_fd = parse_u64(ctl);
  const auto data_fd = parse_u64(data);
  if (!ctl_fd || !data_fd) {
    guest::log("--serve-fds needs two descriptor numbers");
    return 2;
  }
  guest::AgentParts parts;
  parts.ctl = UniqueFd(static_cast<int>(*ctl_fd));
  parts.data = UniqueFd(static_cast<int>(*data_fd));
  for (const int fd : {parts.ctl.get(), parts.data.get()}) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  if (auto done = guest::serve(std::move(parts)); !done) {
    guest::log(done.error().text());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 0 && std::strcmp(argv[0], guest::kReaperName) == 0) guest::run_reaper();
  if (argc == 5 && std::string_view(argv[1]) == "--serve-fds" &&
      std::string_view(argv[4]) == "--no-boot")
    return serve_sockets(argv[2], argv[3]);
  if (::getpid() == 1) guest::run_as_init();
  guest::log("runs as PID 1 of a guest, or with --serve-fds CTL DATA --no-boot");
  return 2;
}
