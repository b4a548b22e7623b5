#include "control/skopeo.h"

#include <cstdlib>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <fcntl.h>

#include "base/sys.h"
#include "machine/unprivileged.h"

namespace firebreak::control {
namespace {

constexpr const char* kProgram = "/usr/bin/skopeo";
constexpr const char* kSignatureRules = "/etc/containers/policy.json";
constexpr std::size_t kMaxOutput = std::size_t{2} << 20;
constexpr std::size_t kMaxSaid = std::size_t{8} << 10;
constexpr auto kReapTime = std::chrono::seconds(10);

std::vector<std::string> environment() {
  const std::string here = machine::kUnprivilegedDir;
  std::vector<std::string> out{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + here,
                               "XDG_RUNTIME_DIR=" + here};
  // How the operator leads the server's own requests to the outside.
  for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
                           "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"})
    if (const char* value = std::getenv(name)) out.push_back(std::string(name) + "=" + value);
  return out;
}

Result<std::string> tail_of(int fd, std::size_t most) {
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(fd));
  std::string out(static_cast<std::size_t>(std::min<std::uint64_t>(size, most)), '\0');
  FB_TRY(sys::pread_all(fd, std::as_writable_bytes(std::span(out)), size - out.size()));
  return out;
}

// What its last line says, without when and how bad.
std::string last_words(std::string_view said) {
  while (said.ends_with('\n')) said.remove_suffix(1);
  said = said.substr(said.rfind('\n') + 1);
  constexpr std::string_view kMessage = "msg=\"";
  if (const auto at = said.find(kMessage); at != std::string_view::npos) {
    said = said.substr(at + kMessage.size());
    if (said.ends_with('"')) said.remove_suffix(1);
  }
  std::string out;
  for (const char c : said.substr(0, 400))
    if (c != '\\') out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  return out;
}

}  // namespace

void BuildTools::stop() {
  stopped_ = true;
  for (const machine::JailedProcess* process : running_) (void)process->kill();
}

bool Skopeo::installed() {
  return sys::exists(kProgram);
}

net::Task<bool> Skopeo::ended(const machine::JailedProcess& process, Deadline deadline) {
  using net::asio::posix::stream_descriptor;
  auto copy = sys::dup(process.pidfd());
  if (!copy) co_return !process.running();
  auto watch = std::make_shared<stream_descriptor>(executor_, copy->release());
  net::asio::steady_timer alarm(executor_, deadline.at());
  alarm.async_wait([watch](boost::system::error_code ec) {
    boost::system::error_code ignored;
    if (!ec) watch->cancel(ignored);
  });
  auto [ec] = co_await watch->async_wait(stream_descriptor::wait_read, net::kNoThrow);
  co_return !ec;
}

net::Task<Result<std::string>> Skopeo::run(Call call, Deadline deadline) {
  if (call.tools->stopped()) co_return fail(Code::conflict, "the build was cancelled");
  FB_CO_TRY_ASSIGN(const UniqueFd out, sys::open(settings_.directory, O_TMPFILE | O_RDWR, 0600));
  FB_CO_TRY_ASSIGN(const UniqueFd err, sys::open(settings_.directory, O_TMPFILE | O_RDWR, 0600));
  machine::UnprivilegedSpec spec{.argv = {kProgram, "--tmpdir", machine::kUnprivilegedDir},
                                 .environment = environment(),
                                 .directory = call.directory,
                                 .uid = settings_.uid,
                                 .stdout_fd = out.get(),
                                 .stderr_fd = err.get(),
                                 .file_bytes = call.file_bytes};
  // An operator's rules about signatures hold; without a file of them it would not even begin.
  if (!sys::exists(kSignatureRules)) spec.argv.emplace_back("--insecure-policy");
  spec.argv.insert(spec.argv.end(), call.arguments.begin(), call.arguments.end());
  auto spawn = [&spec] { return machine::spawn_unprivileged(spec); };
  FB_CO_TRY_ASSIGN(const machine::JailedProcess process, co_await net::run_blocking(pool_, spawn));
  call.tools->running_.insert(&process);
  // It may have been stopped while this one was starting.
  if (call.tools->stopped()) (void)process.kill();
  const bool in_time = co_await ended(process, deadline);
  call.tools->running_.erase(&process);
  auto reap = [&process] { return process.kill_and_wait(Deadline::in(kReapTime)); };
  FB_CO_TRY_ASSIGN(const machine::ProcessExit exit, co_await net::run_blocking(pool_, reap));
  if (call.tools->stopped()) co_return fail(Code::conflict, "the build was cancelled");
  if (!in_time) co_return fail(Code::timeout, "skopeo has not ended in time");
  FB_CO_TRY_ASSIGN(const std::string said, tail_of(err.get(), kMaxSaid));
  if (exit.code != 0) co_return fail(Code::unavailable, last_words(said), said);
  FB_CO_TRY_ASSIGN(const std::uint64_t size, sys::file_size(out.get()));
  if (size > kMaxOutput) co_return fail(Code::exhausted, "skopeo printed too much");
  co_return tail_of(out.get(), kMaxOutput);
}

}  // namespace firebreak::control
