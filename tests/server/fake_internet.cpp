#include "server/fake_internet.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/links.h"
#include "base/sys.h"

extern char** environ;  // NOLINT

namespace firebreak::testing_support {
namespace {

// Everything but the first two is reached only through the host.
const std::vector<InterfaceAddress> kWorld{
    {"198.51.100.1", 24},    {"2001:db8:1::1", 64},   {"203.0.113.10", 32}, {"203.0.113.20", 32},
    {"203.0.113.30", 32},    {"203.0.113.53", 32},    {"203.0.113.40", 32}, {"10.5.5.5", 32},
    {"172.20.1.1", 32},      {"192.168.7.7", 32},     {"100.64.9.9", 32},   {"169.254.169.254", 32},
    {"2001:db8:2::10", 128}, {"2001:db8:2::20", 128}, {"fd00:5::5", 128},   {"fd00:ec2::254", 128}};

bool done(const Result<>& result) {
  if (!result) std::cerr << "fake internet: " << result.error().text() << "\n";
  return result.has_value();
}

Result<UniqueFd> new_namespace() {
  UniqueFd fd;
  Result<> made;
  std::thread thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      made = fail_errno("unshare");
      return;
    }
    auto opened = sys::open("/proc/thread-self/ns/net", O_RDONLY);
    if (opened) fd = *std::move(opened);
  });
  thread.join();
  if (!made) return std::unexpected(made.error());
  return fd;
}

Result<> wire_host(int world) {
  FB_TRY_ASSIGN(const Links links, Links::open());
  FB_TRY(links.set_up("lo"));
  FB_TRY(links.add_veth("internet", "", world, "host"));
  FB_TRY(links.add_address("internet", {"198.51.100.2", 24}));
  FB_TRY(links.add_address("internet", {"2001:db8:1::2", 64}));
  FB_TRY(links.set_up("internet"));
  FB_TRY(links.add_default_route("198.51.100.1", "internet"));
  return links.add_default_route("2001:db8:1::1", "internet");
}

Result<> wire_world() {
  FB_TRY_ASSIGN(const Links links, Links::open());
  FB_TRY(links.set_up("lo"));
  FB_TRY(links.set_up("host"));
  for (const InterfaceAddress& address : kWorld) FB_TRY(links.add_address("host", address));
  return {};
}

}  // namespace

std::unique_ptr<FakeInternet> FakeInternet::enter() {
  std::unique_ptr<FakeInternet> internet(new FakeInternet());
  auto world = new_namespace();
  auto host = new_namespace();
  if (!world || !host) return nullptr;
  internet->world_ = *std::move(world);
  if (::setns(host->get(), CLONE_NEWNET) != 0) return nullptr;
  if (!done(wire_host(internet->world_.get()))) return nullptr;
  bool wired = false;
  std::thread thread([&] {
    wired = ::setns(internet->world_.get(), CLONE_NEWNET) == 0 && done(wire_world()) &&
            internet->start(FIREBREAK_INTERNET);
  });
  thread.join();
  return wired ? std::move(internet) : nullptr;
}

bool FakeInternet::start(const std::string& script) {
  log_ = std::filesystem::temp_directory_path() / ("firebreak-internet-" + sys::random_hex(4));
  auto pipe = sys::pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->second.get(), STDOUT_FILENO);
  std::string program = "/usr/bin/python3";
  std::string file = script;
  std::string log = log_;
  char* argv[] = {program.data(), file.data(), log.data(), nullptr};
  const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  pipe->second.reset();
  pollfd wait{.fd = pipe->first.get(), .events = POLLIN, .revents = 0};
  char buffer[16];
  return ::poll(&wait, 1, 30'000) > 0 && ::read(pipe->first.get(), buffer, sizeof buffer) > 0;
}

FakeInternet::~FakeInternet() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::unlink(log_.c_str());
  ::unlink(ca_file().c_str());
}

std::vector<std::string> FakeInternet::arrived() const {
  std::ifstream file(log_);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::size_t FakeInternet::count_arrived(const std::string& beginning) const {
  const auto begins = [&](const std::string& line) { return line.starts_with(beginning); };
  return static_cast<std::size_t>(std::ranges::count_if(arrived(), begins));
}

bool FakeInternet::wait_arrived(const std::string& beginning) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!has_arrived(beginning)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace firebreak::testing_support
