#include "egress/resolver.h"

#include <algorithm>
#include <array>
#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>

#include "core/limits.h"
#include "egress/serving.h"
#include "net/task_group.h"
#include "net/tcp_stream.h"
#include "wire/dns.h"

namespace firebreak::egress {

using boost::system::error_code;
using net::Task;
using net::asio::ip::tcp;
using net::asio::ip::udp;
using wire::DnsAnswer;
using wire::DnsErrorCode;
using wire::DnsExtendedError;
using wire::DnsQuery;
using wire::DnsRcode;

namespace {

constexpr int kReceiveBuffer = 128 * 1024;  // of a datagram socket: a burst, not a flood

std::string raw(const core::IpAddress& address) {
  return {reinterpret_cast<const char*>(address.bytes.data()), address.v6 ? 16UL : 4UL};
}

// Are there rules with a domain among these, and does one of them name exactly one?
struct DomainRules {
  bool any = false;
  bool exact = false;
};
DomainRules domain_rules(const core::EgressPolicy& policy,
                         const std::vector<std::uint32_t>& numbers) {
  DomainRules out;
  for (const std::uint32_t number : numbers) {
    if (number == 0 || number > policy.rules.size()) continue;
    const auto* domain = std::get_if<core::DomainPattern>(&policy.rules[number - 1].target);
    if (domain == nullptr) continue;
    out.any = true;
    out.exact = out.exact || !domain->below;
  }
  return out;
}

DnsAnswer refused(DnsErrorCode code, std::string why) {
  return {.rcode = DnsRcode::refused, .error = DnsExtendedError{code, std::move(why)}};
}

DnsAnswer failed(DnsErrorCode code, std::string why) {
  return {.rcode = DnsRcode::server_failure, .error = DnsExtendedError{code, std::move(why)}};
}

}  // namespace

NameVerdict judge_name(const core::EgressStack& stack, std::string_view name) {
  NameVerdict out{.decision = core::decide_name(stack, name)};
  const DomainRules maximum = domain_rules(stack.maximum, out.decision.maximum_rules);
  const DomainRules policy = domain_rules(stack.policy, out.decision.policy_rules);
  out.wildcard = (maximum.any || policy.any) && !maximum.exact && !policy.exact;
  return out;
}

// What the tasks share; lives on in them when the resolver is gone.
class Resolver::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(const net::asio::any_io_executor& executor, Upstream& upstream, ResolverHooks hooks,
          ResolverOptions options)
      : executor_(executor),
        upstream_(upstream),
        hooks_(std::move(hooks)),
        options_(options),
        rate_(options.limits.queries_per_second),
        names_(options.limits.names),
        slot_(executor),
        tasks_(executor, hooks_.exceptions) {}

  Result<> add_udp(UniqueFd fd);
  Result<> add_tcp(UniqueFd fd);
  void start();
  void cancel();
  Task<void> close(Deadline deadline);
  void policy_changed() { names_.clear(); }

 private:
  using UdpPtr = std::shared_ptr<udp::socket>;
  using AcceptorPtr = std::shared_ptr<tcp::acceptor>;

  static Task<void> serve_udp(std::shared_ptr<Service> self, UdpPtr socket);
  static Task<void> accept(std::shared_ptr<Service> self, AcceptorPtr acceptor);
  static Task<void> serve_tcp(std::shared_ptr<Service> self, tcp::socket socket);
  static Task<void> answer_udp(std::shared_ptr<Service> self, UdpPtr socket, udp::endpoint to,
                               DnsQuery query);
  Task<DnsAnswer> answer(const DnsQuery& query);
  std::optional<DnsAnswer> refuse_form(const DnsQuery& query);
  Task<DnsAnswer> look_up(const DnsQuery& query, core::EgressLabel label);
  Task<DnsAnswer> give(const DnsQuery& query, Resolved found, Deadline deadline);
  DnsAnswer deny(const DnsQuery& query, core::EgressLabel label, DnsErrorCode code,
                 std::string why);
  void report(const DnsQuery& query, core::EgressLabel label,
              std::vector<core::IpAddress> addresses);

  net::asio::any_io_executor executor_;
  Upstream& upstream_;
  ResolverHooks hooks_;
  ResolverOptions options_;
  core::TokenBucket rate_;
  NameBudget names_;
  std::size_t outstanding_ = 0;
  std::size_t connections_ = 0;
  net::Event slot_;  // a connection has ended
  bool closed_ = false;
  std::vector<UdpPtr> udp_;
  std::vector<AcceptorPtr> acceptors_;
  net::TaskGroup tasks_;
};

// --------------------------------------------------------------------------------------- sockets

Result<> Resolver::Service::add_udp(UniqueFd fd) {
  auto socket = std::make_shared<udp::socket>(executor_);
  FB_TRY(take_over<udp>(*socket, std::move(fd)));
  error_code ec;
  socket->set_option(udp::socket::receive_buffer_size(kReceiveBuffer), ec);
  if (ec) return fail(Code::internal, "cannot serve names", ec.message());
  udp_.push_back(std::move(socket));
  return {};
}

Result<> Resolver::Service::add_tcp(UniqueFd fd) {
  auto acceptor = std::make_shared<tcp::acceptor>(executor_);
  FB_TRY(take_over<tcp>(*acceptor, std::move(fd)));
  acceptors_.push_back(std::move(acceptor));
  return {};
}

void Resolver::Service::start() {
  for (const UdpPtr& socket : udp_) tasks_.spawn("resolver", serve_udp(shared_from_this(), socket));
  for (const AcceptorPtr& acceptor : acceptors_)
    tasks_.spawn("resolver", accept(shared_from_this(), acceptor));
}

void Resolver::Service::cancel() {
  closed_ = true;
  error_code ignored;
  for (const UdpPtr& socket : udp_) socket->close(ignored);
  for (const AcceptorPtr& acceptor : acceptors_) acceptor->close(ignored);
  tasks_.cancel();
}

Task<void> Resolver::Service::close(Deadline deadline) {
  const auto self = shared_from_this();
  cancel();
  (void)co_await tasks_.close(deadline);
}

Task<void> Resolver::Service::serve_udp(std::shared_ptr<Service> self, UdpPtr socket) {
  // One byte more than a query may have: what is too long is seen to be.
  std::array<char, wire::kMaxDnsQuery + 1> buffer{};
  while (!self->closed_) {
    co_await take_turn(self->rate_);
    udp::endpoint from;
    auto [ec, size] =
        co_await socket->async_receive_from(net::asio::buffer(buffer), from, net::kNoThrow);
    if (self->closed_) break;
    if (ec) {
      co_await pause_after_failure();
      continue;
    }
    auto query = wire::parse_dns_query({buffer.data(), size});
    if (query) self->tasks_.spawn("resolver", answer_udp(self, socket, from, *std::move(query)));
  }
}

Task<void> Resolver::Service::answer_udp(std::shared_ptr<Service> self, UdpPtr socket,
                                         udp::endpoint to, DnsQuery query) {
  const DnsAnswer answer = co_await self->answer(query);
  if (self->closed_) co_return;
  const std::string message = build_dns_answer(query, answer, query.udp_limit());
  error_code ignored;  // a guest that does not take answers asks again
  socket->send_to(net::asio::buffer(message), to, 0, ignored);
}

Task<void> Resolver::Service::accept(std::shared_ptr<Service> self, AcceptorPtr acceptor) {
  while (!self->closed_) {
    if (self->connections_ >= self->options_.limits.connections) {
      // The others wait in the kernel's backlog.
      (void)co_await self->slot_.wait(Deadline::in(self->options_.limits.connection_idle));
      continue;
    }
    auto [ec, socket] = co_await acceptor->async_accept(net::kNoThrow);
    if (self->closed_) break;
    if (ec) {
      co_await pause_after_failure();
      continue;
    }
    self->tasks_.spawn("resolver", serve_tcp(self, std::move(socket)));
  }
}

Task<void> Resolver::Service::serve_tcp(std::shared_ptr<Service> self, tcp::socket socket) {
  struct Counted {
    explicit Counted(Service& owner) : service(owner) { ++service.connections_; }
    ~Counted() {
      --service.connections_;
      service.slot_.notify();
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    Service& service;
  };
  const Counted counted(*self);
  const auto stream = net::make_tcp_stream(std::move(socket));
  const auto idle = self->options_.limits.connection_idle;
  wire::DnsUnframer unframer;
  Deadline message_by = Deadline::in(idle);  // for a whole query, not for each byte of it
  while (!self->closed_ && !unframer.failed()) {
    const auto bytes = co_await stream->read(message_by);
    if (!bytes || bytes->empty()) break;
    std::string_view input = *bytes;
    while (auto message = unframer.next(input)) {
      co_await take_turn(self->rate_);
      const auto query = wire::parse_dns_query(*message);
      if (!query) break;
      const DnsAnswer answer = co_await self->answer(*query);
      const std::string out =
          wire::frame_dns(build_dns_answer(*query, answer, wire::kMaxDnsMessage));
      if (self->closed_ || !co_await stream->write(out, Deadline::in(idle))) co_return;
      message_by = Deadline::in(idle);
    }
    if (!input.empty()) break;  // something that is no query
  }
}

// ------------------------------------------------------------------------------------- questions

Task<DnsAnswer> Resolver::Service::answer(const DnsQuery& query) {
  if (auto form = refuse_form(query)) co_return *std::move(form);
  NameVerdict verdict = hooks_.decide(query.name);
  const core::EgressLabel label = verdict.decision.label;
  if (!verdict.decision.allowed)
    co_return deny(query, label, DnsErrorCode::blocked, std::move(verdict.decision.reason));
  // Other types never go upstream: their data, chosen by a zone's owner, would be a way in, and
  // asking for them one more way out. No host needs them to connect.
  const bool wants_v6 = query.type == wire::kDnsAaaa;
  if ((query.type != wire::kDnsA && !wants_v6) || (wants_v6 && !options_.ipv6)) {
    report(query, label, {});
    co_return DnsAnswer{};
  }
  const std::string rule = to_string(label);
  if (verdict.wildcard && !names_.take(rule, query.name, NameBudget::Clock::now())) {
    co_return deny(query, label, DnsErrorCode::prohibited,
                   "too many different names under the wildcard of rule " + rule +
                       "; allow those that are needed by rules without one");
  }
  co_return co_await look_up(query, label);
}

// What needs no decision about the name.
std::optional<DnsAnswer> Resolver::Service::refuse_form(const DnsQuery& query) {
  if (query.rcode != DnsRcode::ok) return DnsAnswer{.rcode = query.rcode};
  if (query.klass != wire::kDnsClassIn)
    return refused(DnsErrorCode::not_supported, "only class IN is served");
  if (!query.is_host_name) {
    return deny(query, core::label(core::EgressLayer::always, core::EgressWord::bad_name),
                DnsErrorCode::prohibited, "this is not a host name");
  }
  return std::nullopt;
}

Task<DnsAnswer> Resolver::Service::look_up(const DnsQuery& query, core::EgressLabel label) {
  if (outstanding_ >= options_.limits.outstanding)
    co_return failed(DnsErrorCode::other, "too many questions at a time; ask again");
  struct Counted {
    explicit Counted(std::size_t& value) : count(value) { ++count; }
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    std::size_t& count;
  };
  const Counted counted(outstanding_);
  const Deadline deadline = Deadline::in(options_.limits.answer_within);
  const auto family = query.type == wire::kDnsA ? Family::v4 : Family::v6;
  auto found = co_await upstream_.resolve(query.name, family, deadline);
  if (closed_) co_return DnsAnswer{};
  if (found && found->status == Resolved::Status::found)
    co_return co_await give(query, *std::move(found), deadline);
  report(query, label, {});
  if (!found) co_return failed(DnsErrorCode::no_reachable_authority, found.error().message);
  co_return DnsAnswer{.rcode = found->status == Resolved::Status::no_name ? DnsRcode::no_such_name
                                                                          : DnsRcode::ok};
}

// Addresses that may be reached, made reachable, and only then told.
Task<DnsAnswer> Resolver::Service::give(const DnsQuery& query, Resolved found, Deadline deadline) {
  // The policy may have changed meanwhile.
  core::NameDecision decision = hooks_.decide(query.name).decision;
  const core::EgressLabel label = decision.label;
  if (!decision.allowed)
    co_return deny(query, label, DnsErrorCode::blocked, std::move(decision.reason));
  const ResolverLimits& limits = options_.limits;
  std::vector<core::IpAddress> addresses;
  for (const core::IpAddress& address : found.addresses) {
    if (addresses.size() >= limits.addresses) break;
    if (std::ranges::find(addresses, address) == addresses.end() && hooks_.may_pin(address))
      addresses.push_back(address);
  }
  if (addresses.empty()) {
    co_return deny(query, label, DnsErrorCode::blocked,
                   query.name + " has only addresses that a name may not open (" +
                       to_string(found.addresses.front()) + "); allow the address by a CIDR rule");
  }
  const auto ttl = std::clamp(found.ttl, limits.ttl_floor, limits.ttl_ceiling);
  PinRequest request{query.name, addresses, ttl + limits.pin_longer};
  auto pinned = co_await hooks_.pin(std::move(request), deadline);
  if (closed_) co_return DnsAnswer{};
  if (!pinned) co_return failed(DnsErrorCode::other, pinned.error().message);
  DnsAnswer answer{.ttl = static_cast<std::uint32_t>(ttl.count())};
  for (const core::IpAddress& address : addresses) answer.addresses.push_back(raw(address));
  report(query, label, std::move(addresses));
  co_return answer;
}

DnsAnswer Resolver::Service::deny(const DnsQuery& query, core::EgressLabel label, DnsErrorCode code,
                                  std::string why) {
  hooks_.decided({.name = query.name,
                  .type = query.type,
                  .allowed = false,
                  .label = label,
                  .reason = why,
                  .addresses = {}});
  return refused(code, std::move(why));
}

void Resolver::Service::report(const DnsQuery& query, core::EgressLabel label,
                               std::vector<core::IpAddress> addresses) {
  hooks_.decided({.name = query.name,
                  .type = query.type,
                  .allowed = true,
                  .label = label,
                  .reason = {},
                  .addresses = std::move(addresses)});
}

// -------------------------------------------------------------------------------------- resolver

Result<std::unique_ptr<Resolver>> Resolver::start(net::asio::any_io_executor executor,
                                                  ResolverSockets sockets, Upstream& upstream,
                                                  ResolverHooks hooks, ResolverOptions options) {
  auto service = std::make_shared<Service>(executor, upstream, std::move(hooks), options);
  for (UniqueFd& fd : sockets.udp) FB_TRY(service->add_udp(std::move(fd)));
  for (UniqueFd& fd : sockets.tcp) FB_TRY(service->add_tcp(std::move(fd)));
  service->start();
  return std::unique_ptr<Resolver>(new Resolver(std::move(service)));
}

Resolver::Resolver(std::shared_ptr<Service> service) : service_(std::move(service)) {}

Resolver::~Resolver() {
  service_->cancel();
}

void Resolver::policy_changed() {
  service_->policy_changed();
}

Task<void> Resolver::close(Deadline deadline) {
  const auto service = service_;
  co_await service->close(deadline);
}

}  // namespace firebreak::egress
