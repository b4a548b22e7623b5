#include "egress/decision_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <map>
#include <optional>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "egress/decision_file.h"
#include "egress/ruleset.h"
#include "net/task_group.h"

namespace firebreak::egress {

using net::Task;
using net::asio::posix::stream_descriptor;
using Kind = Decision::Kind;

namespace {

constexpr std::size_t kDatagram = 64UL * 1024;
constexpr std::size_t kMostAtTheEnd = 10'000;  // datagrams that unwatch() reads
constexpr std::chrono::seconds kMergeFor{1};
constexpr std::chrono::hours kIdle{1};

}  // namespace

// What the tasks share; lives on in them when the log is gone.
class DecisionLog::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(const net::asio::any_io_executor& executor, const core::Clock& clock,
          DecisionLogOptions options, const DecisionLogLimits& limits)
      : executor_(executor),
        clock_(clock),
        options_(std::move(options)),
        limits_(limits),
        file_(options_.directory),
        pending_changed_(executor),
        writer_(executor, options_.exceptions) {}

  Result<> start();
  void close();
  void named(const NameEvent& event);
  void asked(const TlsEvent& event);
  Result<> watch(NetfilterSockets sockets);
  void unwatch();
  void add(const NetfilterEvent& event);
  Result<> flush();
  const DecisionSummary& summary() const { return summary_; }
  std::string name_of(const core::IpAddress& address) const;

 private:
  using DescriptorPtr = std::shared_ptr<stream_descriptor>;
  struct Named {
    std::string name;
    std::list<core::IpAddress>::iterator order;
  };
  struct Open {
    std::string rule;
    std::string name;
    bool allowed = true;
  };

  static Task<void> read_events(std::shared_ptr<Service> self, DescriptorPtr from);
  static Task<void> write_records(std::shared_ptr<Service> self);
  // How many it has read.
  std::size_t drain(int fd, std::size_t most);
  void add(const LoggedPacket& packet);
  void add(const EndedConnection& connection);
  void add(Decision decision);
  void opened(const PacketHead& head, Open connection);
  void remember(const std::string& name, const std::vector<core::IpAddress>& addresses);
  Result<> keep();

  net::asio::any_io_executor executor_;
  const core::Clock& clock_;
  DecisionLogOptions options_;
  DecisionLogLimits limits_;
  DecisionFile file_;
  DecisionSummary summary_;
  std::uint64_t next_number_ = 1;
  std::optional<Deadline> keep_at_;  // nothing: nothing new to keep

  std::vector<Decision> pending_;
  std::map<std::string, std::size_t> by_key_;   // into pending_
  std::array<std::size_t, 2> pending_count_{};  // by verdict
  std::uint64_t suppressed_ = 0;
  net::Event pending_changed_;

  std::map<core::IpAddress, Named> names_;
  std::list<core::IpAddress> name_order_;  // oldest first
  std::map<PacketHead, Open> open_;

  std::vector<char> buffer_ = std::vector<char>(kDatagram);
  std::vector<DescriptorPtr> watched_;
  std::unique_ptr<net::TaskGroup> readers_;
  net::TaskGroup writer_;
};

// ---------------------------------------------------------------------------------------- events

void DecisionLog::Service::named(const NameEvent& event) {
  if (event.allowed) remember(event.name, event.addresses);
  add(Decision{.time = clock_.now(),
               .kind = Kind::name,
               .allowed = event.allowed,
               .rule = to_string(event.label),
               .name = event.name,
               .addresses = event.addresses,
               .reason = event.reason});
}

void DecisionLog::Service::add(const NetfilterEvent& event) {
  std::visit([this](const auto& one) { add(one); }, event);
}

void DecisionLog::Service::add(const LoggedPacket& packet) {
  const auto label = parse_log(packet.prefix, packet.mark);
  if (!label) return;
  const PacketHead& head = packet.head;
  Decision decision{.time = clock_.now(),
                    .kind = Kind::connect,
                    .allowed = label->allowed,
                    .rule = to_string(label->label),
                    .protocol = head.protocol,
                    .address = head.destination,
                    .port = head.port,
                    .name = name_of(head.destination)};
  if (!label->allowed) decision.reason = explain(label->label);
  if (label->allowed) opened(head, {decision.rule, decision.name});
  add(std::move(decision));
}

// The kernel let the guest through to the gate, and said nothing of it.
void DecisionLog::Service::asked(const TlsEvent& event) {
  const PacketHead& head = event.head;
  Decision decision{.time = clock_.now(),
                    .kind = Kind::connect,
                    .allowed = event.allowed,
                    .rule = to_string(event.label),
                    .protocol = head.protocol,
                    .address = head.destination,
                    .port = head.port,
                    .name = event.name,
                    .reason = event.reason};
  // One that was allowed before another policy came has bytes to tell of when it ends.
  if (event.allowed || !open_.contains(head))
    opened(head, {decision.rule, decision.name, event.allowed});
  add(std::move(decision));
}

void DecisionLog::Service::opened(const PacketHead& head, Open connection) {
  if (open_.size() >= limits_.connections) open_.erase(open_.begin());
  open_[head] = std::move(connection);
}

void DecisionLog::Service::add(const EndedConnection& connection) {
  const PacketHead& head = connection.head;
  const auto among = [](const std::vector<core::IpAddress>& all, const core::IpAddress& one) {
    return std::ranges::find(all, one) != all.end();
  };
  if (!among(options_.guest_addresses, head.source) ||
      among(options_.own_addresses, head.destination))
    return;
  Decision decision{.time = clock_.now(),
                    .kind = Kind::end,
                    .allowed = true,
                    .protocol = head.protocol,
                    .address = head.destination,
                    .port = head.port,
                    .bytes_out = connection.bytes_out,
                    .bytes_in = connection.bytes_in};
  if (const auto at = open_.find(head); at != open_.end()) {
    if (!at->second.allowed) {  // ended in the gate, and was told of then
      open_.erase(at);
      return;
    }
    decision.rule = std::move(at->second.rule);
    decision.name = std::move(at->second.name);
    open_.erase(at);
  } else {  // it began before the log did
    decision.name = name_of(head.destination);
  }
  add(std::move(decision));
}

// Into the summary at once; to disk with others of its kind.
void DecisionLog::Service::add(Decision decision) {
  summary_.add(decision);
  if (!decision.allowed && options_.denied) options_.denied();
  std::string key = merge_key(decision);
  if (const auto at = by_key_.find(key); at != by_key_.end()) {
    Decision& known = pending_[at->second];
    known.count += decision.count;
    known.bytes_out += decision.bytes_out;
    known.bytes_in += decision.bytes_in;
    for (const core::IpAddress& address : decision.addresses)
      if (std::ranges::find(known.addresses, address) == known.addresses.end())
        known.addresses.push_back(address);
    return;
  }
  std::size_t& count = pending_count_[decision.allowed ? 1 : 0];
  if (count >= limits_.records_per_second) {
    ++suppressed_;
    return;
  }
  ++count;
  by_key_.emplace(std::move(key), pending_.size());
  pending_.push_back(std::move(decision));
  if (pending_.size() == 1) pending_changed_.notify();
}

void DecisionLog::Service::remember(const std::string& name,
                                    const std::vector<core::IpAddress>& addresses) {
  for (const core::IpAddress& address : addresses) {
    if (const auto at = names_.find(address); at != names_.end()) {
      name_order_.erase(at->second.order);
      names_.erase(at);
    }
    name_order_.push_back(address);
    names_[address] = {name, std::prev(name_order_.end())};
    if (names_.size() <= limits_.names) continue;
    names_.erase(name_order_.front());
    name_order_.pop_front();
  }
}

std::string DecisionLog::Service::name_of(const core::IpAddress& address) const {
  const auto at = names_.find(address);
  return at == names_.end() ? std::string() : at->second.name;
}

// ---------------------------------------------------------------------------------------- reading

Result<> DecisionLog::Service::watch(NetfilterSockets sockets) {
  unwatch();
  for (UniqueFd* fd : {&sockets.packets, &sockets.connections}) {
    auto descriptor = std::make_shared<stream_descriptor>(executor_);
    boost::system::error_code ec;
    descriptor->assign(fd->get(), ec);
    if (ec) return fail(Code::internal, "cannot read the log of the network", ec.message());
    (void)fd->release();
    watched_.push_back(std::move(descriptor));
  }
  readers_ = std::make_unique<net::TaskGroup>(executor_, options_.exceptions);
  for (const DescriptorPtr& from : watched_)
    readers_->spawn("egress_log", read_events(shared_from_this(), from));
  return {};
}

void DecisionLog::Service::unwatch() {
  readers_.reset();
  for (const DescriptorPtr& from : watched_) {
    (void)drain(from->native_handle(), kMostAtTheEnd);
    boost::system::error_code ignored;
    from->close(ignored);
  }
  watched_.clear();
  open_.clear();
}

Task<void> DecisionLog::Service::read_events(std::shared_ptr<Service> self, DescriptorPtr from) {
  for (;;) {
    auto [ec] = co_await from->async_wait(stream_descriptor::wait_read, net::kNoThrow);
    if (ec || !from->is_open()) co_return;
    const std::size_t most = self->limits_.datagrams_per_turn;
    if (self->drain(from->native_handle(), most) < most) continue;
    // A guest that causes events faster than this loses some of them, not the host its time.
    net::Event pause(self->executor_);
    (void)co_await pause.wait(Deadline::in(self->limits_.turn));
  }
}

std::size_t DecisionLog::Service::drain(int fd, std::size_t most) {
  std::size_t count = 0;
  while (count < most) {
    sockaddr_nl sender{};
    socklen_t size = sizeof sender;
    const ssize_t got = ::recvfrom(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&sender), &size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != ENOBUFS) break;
    ++count;
    if (got < 0) {
      summary_.add_lost(1);
      continue;
    }
    if (sender.nl_pid != 0) continue;  // not the kernel
    for (const NetfilterEvent& event :
         parse_netfilter({buffer_.data(), static_cast<std::size_t>(got)}))
      add(event);
  }
  return count;
}

// ---------------------------------------------------------------------------------------- writing

Result<> DecisionLog::Service::start() {
  FB_TRY(file_.open());
  summary_ = file_.read_summary();
  next_number_ = summary_.last_number() + 1;
  for (const Decision& decision : file_.read())
    if (decision.kind == Kind::name && decision.allowed)
      remember(decision.name, decision.addresses);
  writer_.spawn("egress_log", write_records(shared_from_this()));
  return {};
}

void DecisionLog::Service::close() {
  unwatch();
  writer_.cancel();
  (void)keep();
}

Task<void> DecisionLog::Service::write_records(std::shared_ptr<Service> self) {
  for (;;) {
    if (self->pending_.empty()) {
      (void)co_await self->pending_changed_.wait(Deadline::in(kIdle));
      continue;
    }
    net::Event pause(self->executor_);
    (void)co_await pause.wait(Deadline::in(kMergeFor));
    // A full disk costs records; the summary stays.
    if (self->keep_at_ && self->keep_at_->passed()) {
      (void)self->keep();
    } else {
      (void)self->flush();
    }
  }
}

Result<> DecisionLog::Service::flush() {
  if (pending_.empty()) return {};
  if (suppressed_ > 0)
    pending_.push_back({.time = clock_.now(), .kind = Kind::more, .count = suppressed_});
  std::string lines;
  for (Decision& decision : pending_) {
    decision.number = next_number_++;
    lines += to_line(decision) + "\n";
  }
  pending_.clear();
  by_key_.clear();
  pending_count_ = {};
  suppressed_ = 0;
  if (!keep_at_) keep_at_ = Deadline::in(limits_.keep_summary_every);
  FB_TRY_ASSIGN(const bool rotated, file_.append(lines));
  summary_.written(next_number_ - 1);
  if (rotated) return file_.keep(summary_);
  return {};
}

Result<> DecisionLog::Service::keep() {
  FB_TRY(flush());
  keep_at_.reset();
  return file_.keep(summary_);
}

// ------------------------------------------------------------------------------------------- log

Result<std::unique_ptr<DecisionLog>> DecisionLog::open(net::asio::any_io_executor executor,
                                                       const core::Clock& clock,
                                                       DecisionLogOptions options,
                                                       DecisionLogLimits limits) {
  auto service = std::make_shared<Service>(executor, clock, std::move(options), limits);
  if (auto started = service->start(); !started)
    return fail(std::move(started).error(), "opening an egress log");
  return std::unique_ptr<DecisionLog>(new DecisionLog(std::move(service)));
}

DecisionLog::DecisionLog(std::shared_ptr<Service> service) : service_(std::move(service)) {}

DecisionLog::~DecisionLog() {
  service_->close();
}

void DecisionLog::named(const NameEvent& event) {
  service_->named(event);
}

void DecisionLog::asked(const TlsEvent& event) {
  service_->asked(event);
}

Result<> DecisionLog::watch(NetfilterSockets sockets) {
  return service_->watch(std::move(sockets));
}

void DecisionLog::unwatch() {
  service_->unwatch();
}

void DecisionLog::add(const NetfilterEvent& event) {
  service_->add(event);
}

Result<> DecisionLog::flush() {
  return service_->flush();
}

const DecisionSummary& DecisionLog::summary() const {
  return service_->summary();
}

std::string DecisionLog::name_of(const core::IpAddress& address) const {
  return service_->name_of(address);
}

}  // namespace firebreak::egress
