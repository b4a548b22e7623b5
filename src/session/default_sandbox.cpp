#include "session/default_sandbox.h"

#include "control/microvm_names.h"
#include "wire/crypto.h"

namespace firebreak::session {
namespace {

// Tells whose default sandbox a microVM is.
constexpr const char* kOwnerTag = "firebreak-default-of";
constexpr auto kSweepEvery = std::chrono::seconds(30);
constexpr auto kEnding = std::chrono::seconds(60);
constexpr std::uint32_t kPage = 100;

// The session itself stays secret: a tag is shown to everybody of the tenant.
std::string mark_of(const SandboxOwner& owner) {
  if (owner.session.empty()) return owner.key.str();
  return owner.key.str() + "/" + wire::sha256_hex(owner.session).substr(0, 32);
}

bool is_over(const core::Microvm& microvm) {
  return microvm.state == core::MicrovmState::terminated ||
         microvm.state == core::MicrovmState::terminating;
}

// Forks have the tags of their parent, and are no default sandboxes.
std::string owner_mark(const core::Microvm& microvm) {
  const auto tag = microvm.tags.find(kOwnerTag);
  return tag == microvm.tags.end() ? "" : tag->second;
}

bool may_use(const SandboxOwner& owner, const core::Microvm& microvm) {
  const std::string mark = owner_mark(microvm);
  return mark.empty() || mark == mark_of(owner);
}

}  // namespace

DefaultSandboxes::DefaultSandboxes(control::Supervisor& supervisor, DefaultSandboxOptions options)
    : supervisor_(supervisor),
      options_(std::move(options)),
      tasks_(supervisor.services().executor, supervisor.services().exceptions()) {}

bool DefaultSandboxes::is_default(const SandboxOwner& owner, const core::Microvm& microvm) {
  return microvm.parent.empty() && owner_mark(microvm) == mark_of(owner);
}

DefaultSandboxes::PlacePtr DefaultSandboxes::place_of(const SandboxOwner& owner) {
  PlacePtr& place = places_[owner.tenant.id.str() + "/" + mark_of(owner)];
  if (!place) {
    place = std::make_shared<Place>(supervisor_.services().executor);
    place->tenant = owner.tenant.id;
    place->of_session = !owner.session.empty();
  }
  place->used = supervisor_.services().clock.now();
  return place;
}

void DefaultSandboxes::touch(const SandboxOwner& owner) {
  (void)place_of(owner);
}

// The one that is remembered, else the one that an earlier server made.
net::Task<Result<std::optional<core::Microvm>>> DefaultSandboxes::look(SandboxOwner owner,
                                                                       PlacePtr place) {
  if (!place->id.empty()) {
    auto known = co_await supervisor_.get(owner.tenant.id, place->id);
    if (known && !is_over(*known)) co_return *std::move(known);
    place->id = {};
  }
  const store::MicrovmFilter filter{.image = {},
                                    .version = {},
                                    .state = {},
                                    .tag = std::pair(std::string(kOwnerTag), mark_of(owner))};
  const core::TenantId tenant = owner.tenant.id;
  FB_CO_TRY_ASSIGN(auto page,
                   co_await supervisor_.services().db.run([&](const store::Store& store) {
                     return store.list_microvms(tenant, filter, {.size = 1000, .token = {}});
                   }));
  for (core::Microvm& microvm : page.items) {
    if (is_over(microvm) || !is_default(owner, microvm)) continue;
    place->id = microvm.id;
    co_return std::move(microvm);
  }
  co_return std::optional<core::Microvm>();
}

core::IdlePolicy DefaultSandboxes::idle() const {
  return {.max_idle = options_.idle,
          .suspended = options_.suspended,
          .auto_resume = true,
          .rule = core::IdleRule::work};
}

net::Task<Result<core::Microvm>> DefaultSandboxes::create(SandboxOwner owner,
                                                          control::LaunchRequest request,
                                                          Deadline deadline) {
  // Or the next server would take it for somebody's default sandbox.
  if (request.tags.contains(kOwnerTag))
    co_return fail(Code::invalid, std::string("the tag ") + kOwnerTag + " is the server's own");
  if (request.image.empty()) request.image = options_.image;
  request.idle = idle();
  FB_CO_TRY_ASSIGN(const core::Microvm made,
                   co_await supervisor_.launch(owner.tenant, std::move(request), deadline));
  FB_CO_TRY_ASSIGN(core::Microvm now,
                   co_await supervisor_.wait_started(owner.tenant.id, made.id, deadline));
  if (is_over(now)) co_return fail(Code::guest, "the sandbox did not start: " + now.state_reason);
  co_return now;
}

net::Task<Result<core::MicrovmId>> DefaultSandboxes::make(SandboxOwner owner, Deadline deadline) {
  control::LaunchRequest request;
  request.image = options_.image;
  request.idle = idle();
  request.tags = {{kOwnerTag, mark_of(owner)}};
  FB_CO_TRY_ASSIGN(const core::Microvm made,
                   co_await supervisor_.launch(owner.tenant, std::move(request), deadline));
  co_return made.id;
}

net::Task<Result<core::MicrovmId>> DefaultSandboxes::take(SandboxOwner owner, Deadline deadline) {
  const PlacePtr place = place_of(owner);
  const core::TenantId tenant = owner.tenant.id;
  core::MicrovmId id;
  {
    FB_CO_TRY_ASSIGN(const auto turn, co_await place->turn.lock(deadline));
    FB_CO_TRY_ASSIGN(auto known, co_await look(owner, place));
    if (known) {
      id = known->id;
    } else {
      FB_CO_TRY_ASSIGN(id, co_await make(std::move(owner), deadline));
    }
    place->id = id;
  }
  FB_CO_TRY_ASSIGN(const core::Microvm now,
                   co_await supervisor_.wait_started(tenant, id, deadline));
  if (now.state == core::MicrovmState::pending)
    co_return fail(Code::unavailable, "the sandbox is still starting", Repair{"try again shortly"});
  if (is_over(now))
    co_return fail(Code::guest, "the sandbox did not start: " + now.state_reason,
                   Repair{"try again; the next call makes another one"});
  co_return id;
}

net::Task<Result<core::MicrovmId>> DefaultSandboxes::find(SandboxOwner owner) {
  const PlacePtr place = place_of(owner);
  FB_CO_TRY_ASSIGN(auto known, co_await look(std::move(owner), place));
  if (!known)
    co_return fail(Code::not_found, "there is no default sandbox yet",
                   Repair{"it is made by the first call that runs something"});
  co_return known->id;
}

net::Task<Result<core::Microvm>> DefaultSandboxes::resolve(SandboxOwner owner, std::string word) {
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await control::resolve_microvm(
                                                 supervisor_.services().db, owner.tenant.id, word));
  FB_CO_TRY_ASSIGN(core::Microvm microvm, co_await supervisor_.get(owner.tenant.id, id));
  if (!may_use(owner, microvm)) co_return fail(Code::not_found, "there is no microVM " + word);
  co_return microvm;
}

net::Task<Result<DefaultSandboxes::Listed>> DefaultSandboxes::list(SandboxOwner owner,
                                                                   std::string page) {
  const core::TenantId tenant = owner.tenant.id;
  const store::PageRequest request{.size = kPage, .token = std::move(page)};
  FB_CO_TRY_ASSIGN(auto found,
                   co_await supervisor_.services().db.run([&](const store::Store& store) {
                     return store.list_microvms(tenant, {}, request);
                   }));
  Listed listed;
  listed.next = std::move(found.next);
  for (core::Microvm& microvm : found.items) {
    if (!is_over(microvm) && may_use(owner, microvm))
      listed.sandboxes.push_back(std::move(microvm));
  }
  co_return listed;
}

net::Task<void> DefaultSandboxes::end(SandboxOwner owner) {
  const PlacePtr place = place_of(owner);
  auto turn = co_await place->turn.lock(Deadline::in(kEnding));
  if (!turn) co_return;
  const core::TenantId tenant = owner.tenant.id;
  const std::string key = tenant.str() + "/" + mark_of(owner);
  auto known = co_await look(std::move(owner), place);
  if (known && *known)
    (void)co_await supervisor_.terminate(tenant, (*known)->id, Deadline::in(kEnding),
                                         "Its session ended.");
  places_.erase(key);
}

net::Task<void> DefaultSandboxes::sweep() {
  const core::Time now = supervisor_.services().clock.now();
  std::vector<std::string> over;
  for (const auto& [key, place] : places_) {
    if (place->of_session && now - place->used > options_.session_life && place->turn.idle())
      over.push_back(key);
  }
  for (const std::string& key : over) {
    const auto at = places_.find(key);
    if (at == places_.end()) continue;
    const PlacePtr place = at->second;
    places_.erase(at);
    if (!place->id.empty())
      (void)co_await supervisor_.terminate(place->tenant, place->id, Deadline::in(kEnding),
                                           "Nobody used its session any more.");
  }
}

net::Task<void> DefaultSandboxes::sweep_always() {
  net::Event never(supervisor_.services().executor);
  for (;;) {
    (void)co_await never.wait(Deadline::in(kSweepEvery));
    co_await sweep();
  }
}

void DefaultSandboxes::start() {
  tasks_.spawn("default_sandboxes", sweep_always());
}

}  // namespace firebreak::session
