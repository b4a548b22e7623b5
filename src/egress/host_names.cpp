#include "egress/host_names.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <ares.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <netinet/in.h>
#include <sys/time.h>

namespace firebreak::egress {
namespace {

using boost::system::error_code;
using net::asio::posix::stream_descriptor;

constexpr int kEdnsSize = 1232;
constexpr std::chrono::seconds kMaxTtl{86'400};

std::optional<core::IpAddress> address_of(const sockaddr& address) {
  core::IpAddress out{.v6 = address.sa_family == AF_INET6};
  if (out.v6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    std::memcpy(out.bytes.data(), &v6.sin6_addr, 16);
  } else if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    std::memcpy(out.bytes.data(), &v4.sin_addr, 4);
  } else {
    return std::nullopt;
  }
  return out;
}

Result<Resolved> to_result(int status, const ares_addrinfo* found, Family family) {
  Resolved out;
  if (status == ARES_ENOTFOUND) out.status = Resolved::Status::no_name;
  if (status == ARES_ENODATA) out.status = Resolved::Status::no_data;
  if (status == ARES_ENOTFOUND || status == ARES_ENODATA) return out;
  if (status != ARES_SUCCESS || found == nullptr) {
    Error silent = fail(status == ARES_ETIMEOUT ? Code::timeout : Code::unavailable,
                        "the host's resolvers gave no answer", Repair{"see its /etc/resolv.conf"})
                       .error();
    silent.detail = ares_strerror(status);
    return std::unexpected(std::move(silent));
  }
  out.ttl = kMaxTtl;
  const auto shorten = [&out](int ttl) {
    out.ttl = std::min(out.ttl, std::chrono::seconds(std::max(ttl, 0)));
  };
  for (const auto* alias = found->cnames; alias != nullptr; alias = alias->next)
    shorten(alias->ttl);
  for (const auto* node = found->nodes; node != nullptr; node = node->ai_next) {
    const auto address = address_of(*node->ai_addr);
    if (!address || address->v6 != (family == Family::v6)) continue;
    out.addresses.push_back(*address);
    shorten(node->ai_ttl);
  }
  if (out.addresses.empty()) out.status = Resolved::Status::no_data;
  return out;
}

// One question to the servers. c-ares calls back from inside our calls to it only. Lives on in the
// handlers of its waits, which find it closed.
class Lookup : public std::enable_shared_from_this<Lookup> {
 public:
  Lookup(net::asio::any_io_executor executor, Family family)
      : executor_(std::move(executor)), family_(family), changed_(executor_) {}
  ~Lookup() { close(); }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  Result<> open(const HostNamesOptions& options);
  net::Task<Result<Resolved>> run(std::string name, Deadline deadline);
  void close();

 private:
  struct Watch {
    explicit Watch(const net::asio::any_io_executor& executor) : descriptor(executor) {}
    stream_descriptor descriptor;  // borrowed from c-ares, which closes it
    bool want_read = false;
    bool want_write = false;
    bool reading = false;
    bool writing = false;
  };
  using WatchPtr = std::shared_ptr<Watch>;

  static void on_socket(void* self, ares_socket_t fd, int readable, int writable);
  static void on_done(void* self, int status, int timeouts, ares_addrinfo* found);
  void watch(ares_socket_t fd, bool readable, bool writable);
  void wait(ares_socket_t fd, const WatchPtr& watch);
  void ready(ares_socket_t fd, const WatchPtr& watch, bool to_write);
  Deadline next_try() const;

  net::asio::any_io_executor executor_;
  Family family_;
  net::Event changed_;
  ares_channel channel_ = nullptr;
  std::map<ares_socket_t, WatchPtr> watches_;
  std::optional<Result<Resolved>> result_;
};

Result<> Lookup::open(const HostNamesOptions& options) {
  ares_options wanted{};
  // No search domains (`domains` stays empty) and no aliases of our environment: the name is the
  // one that was decided on.
  wanted.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
  wanted.timeout = static_cast<int>(options.try_timeout.count());
  wanted.tries = options.tries;
  wanted.ednspsz = kEdnsSize;
  std::string lookups = options.use_hosts_file ? "fb" : "b";
  wanted.lookups = lookups.data();
  wanted.sock_state_cb = on_socket;
  wanted.sock_state_cb_data = this;
  const int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
                   ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_SOCK_STATE_CB;
  int status = ares_init_options(&channel_, &wanted, mask);
  if (status != ARES_SUCCESS) channel_ = nullptr;
  if (status == ARES_SUCCESS && !options.servers.empty())
    status = ares_set_servers_ports_csv(channel_, options.servers.c_str());
  if (status != ARES_SUCCESS)
    return fail(Code::unavailable, "cannot set up name resolution", ares_strerror(status));
  return {};
}

net::Task<Result<Resolved>> Lookup::run(std::string name, Deadline deadline) {
  ares_addrinfo_hints hints{};
  hints.ai_family = family_ == Family::v4 ? AF_INET : AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = ARES_AI_NOSORT;  // sorting opens sockets to the addresses
  ares_getaddrinfo(channel_, name.c_str(), nullptr, &hints, on_done, this);
  while (!result_) {
    (void)co_await changed_.wait(deadline.earlier(next_try()));
    if (result_) break;
    if (deadline.passed()) co_return fail(Code::timeout, "the host's resolvers did not answer");
    ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // time has passed
  }
  co_return *std::move(result_);
}

void Lookup::close() {
  if (ares_channel open = std::exchange(channel_, nullptr)) ares_destroy(open);
}

// When c-ares wants to try the next server.
Deadline Lookup::next_try() const {
  timeval most{3600, 0};
  timeval time{};
  ares_timeout(channel_, &most, &time);
  return Deadline::in(std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec));
}

void Lookup::on_done(void* self, int status, int /*timeouts*/, ares_addrinfo* found) {
  auto& lookup = *static_cast<Lookup*>(self);
  lookup.result_ = to_result(status, found, lookup.family_);
  if (found != nullptr) ares_freeaddrinfo(found);
  lookup.changed_.notify();
}

void Lookup::on_socket(void* self, ares_socket_t fd, int readable, int writable) {
  static_cast<Lookup*>(self)->watch(fd, readable != 0, writable != 0);
}

void Lookup::watch(ares_socket_t fd, bool readable, bool writable) {
  auto at = watches_.find(fd);
  if (!readable && !writable) {
    if (at == watches_.end()) return;
    at->second->descriptor.release();  // ends its waits; c-ares closes it next
    watches_.erase(at);
    return;
  }
  if (at == watches_.end()) {
    auto made = std::make_shared<Watch>(executor_);
    error_code ec;
    made->descriptor.assign(fd, ec);
    if (ec) return;  // not watched: the try ends by its timeout
    at = watches_.emplace(fd, std::move(made)).first;
  }
  at->second->want_read = readable;
  at->second->want_write = writable;
  const WatchPtr kept = at->second;
  wait(fd, kept);
}

void Lookup::wait(ares_socket_t fd, const WatchPtr& watch) {
  if (watch->want_read && !watch->reading) {
    watch->reading = true;
    watch->descriptor.async_wait(stream_descriptor::wait_read,
                                 [self = shared_from_this(), fd, watch](error_code ec) {
                                   watch->reading = false;
                                   if (!ec) self->ready(fd, watch, false);
                                 });
  }
  if (watch->want_write && !watch->writing) {
    watch->writing = true;
    watch->descriptor.async_wait(stream_descriptor::wait_write,
                                 [self = shared_from_this(), fd, watch](error_code ec) {
                                   watch->writing = false;
                                   if (!ec) self->ready(fd, watch, true);
                                 });
  }
}

void Lookup::ready(ares_socket_t fd, const WatchPtr& watch, bool to_write) {
  // The number may belong to another socket by now.
  const auto current = [&] {
    const auto at = watches_.find(fd);
    return channel_ != nullptr && at != watches_.end() && at->second == watch;
  };
  if (!current() || !(to_write ? watch->want_write : watch->want_read)) return;
  ares_process_fd(channel_, to_write ? ARES_SOCKET_BAD : fd, to_write ? fd : ARES_SOCKET_BAD);
  if (current()) wait(fd, watch);
  changed_.notify();  // the next timeout may be another
}

}  // namespace

HostNames::HostNames(net::asio::any_io_executor executor, HostNamesOptions options)
    : executor_(std::move(executor)), options_(std::move(options)) {}

Result<std::unique_ptr<HostNames>> HostNames::create(net::asio::any_io_executor executor,
                                                     HostNamesOptions options) {
  if (const int status = ares_library_init(ARES_LIB_INIT_ALL); status != ARES_SUCCESS)
    return fail(Code::unavailable, "cannot set up name resolution", ares_strerror(status));
  const auto trial = std::make_shared<Lookup>(executor, Family::v4);
  FB_TRY(trial->open(options));
  return std::unique_ptr<HostNames>(new HostNames(std::move(executor), std::move(options)));
}

net::Task<Result<Resolved>> HostNames::resolve(std::string name, Family family, Deadline deadline) {
  // Closes when the task ends, however: the handlers alone may still hold the lookup.
  struct Closer {
    explicit Closer(std::shared_ptr<Lookup> made) : lookup(std::move(made)) {}
    ~Closer() { lookup->close(); }
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;
    std::shared_ptr<Lookup> lookup;
  };
  const Closer open(std::make_shared<Lookup>(executor_, family));
  FB_CO_TRY(open.lookup->open(options_));
  co_return co_await open.lookup->run(std::move(name), deadline);
}

}  // namespace firebreak::egress
