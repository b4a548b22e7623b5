// Random lives of many microVMs in simulated time. A small owner does what the real one does: it
// asks next_due, waits, acts. An oracle that replays the raw log says when each action was due.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/model.h"

namespace firebreak::core {
namespace {

using enum MicrovmState;

constexpr Seconds kHorizon{4 * 3600};
constexpr Millis kLongestOperation{3000};

class SimulatedClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void set(Time now) { now_ = now; }

 private:
  Time now_ = from_unix_ms(1'800'000'000'000);
};

enum class Sign { traffic, cpu, work_began, work_ended };

struct Life {
  Microvm microvm;
  Activity activity;
  std::vector<std::pair<Time, Sign>> log;
  bool busy = false;        // an operation is under way
  bool end_asked = false;   // while it was
  Time free_since{};        // when the owner could act again
  std::uint64_t timer = 0;  // older ones are stale
};

// What must happen and when, from the log alone.
struct Expected {
  TimedAction action;
  Time at;
};

Time idle_since(const Life& life, Time now) {
  const Microvm& microvm = life.microvm;
  Time last = std::max(microvm.started, microvm.state_since);
  Time last_work{};
  std::optional<Time> first_work;
  int open = 0;
  for (const auto& [at, sign] : life.log) {
    if (sign == Sign::traffic) {
      last = std::max(last, at);
      first_work = open > 0 ? std::optional(at) : std::nullopt;
      continue;
    }
    if (sign == Sign::work_began) ++open;
    if (sign == Sign::work_ended) --open;
    if (sign != Sign::work_ended && !first_work) first_work = at;
    if (sign != Sign::work_began) last_work = at;
  }
  if (microvm.idle->rule == IdleRule::traffic) return last;
  if (open > 0) last_work = now;
  const Time cap = std::max(first_work.value_or(Time{}), last) + kWorkAwakeCap;
  return std::max(last, std::min(last_work, cap));
}

std::optional<Expected> expected(const Life& life, Time now) {
  const Microvm& microvm = life.microvm;
  std::vector<Expected> all;
  if (microvm.max_duration) {
    all.push_back({TimedAction::terminate_old, microvm.started + *microvm.max_duration});
  }
  if (microvm.idle && microvm.state == running && microvm.idle->max_idle > Seconds(0)) {
    all.push_back({TimedAction::suspend_idle, idle_since(life, now) + microvm.idle->max_idle});
  }
  if (microvm.idle && microvm.state == suspended) {
    all.push_back(
        {TimedAction::terminate_suspended, *microvm.suspended_at + microvm.idle->suspended});
  }
  auto first = std::ranges::min_element(all, {}, &Expected::at);
  return first == all.end() ? std::nullopt : std::optional(*first);
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {}

  void run(int count) {
    for (int i = 0; i < count; ++i) begin_life(i);
    while (!queue_.empty()) {
      auto next = queue_.extract(queue_.begin());
      ASSERT_GE(next.key().first, clock_.now());
      clock_.set(next.key().first);
      next.mapped()();
      if (testing::Test::HasFailure()) return;
    }
    for (const auto& life : lives_) {
      EXPECT_EQ(life->microvm.state, terminated) << life->microvm.id.str() << " is lost";
      EXPECT_FALSE(life->busy);
    }
  }

  std::uint64_t transitions() const { return transitions_; }
  std::uint64_t timed_actions() const { return timed_actions_; }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  void at(Time time, std::function<void()> what) {
    queue_.emplace(std::pair(time, next_++), std::move(what));
  }

  IdlePolicy random_policy() {
    return {.max_idle = Seconds(chance(15) ? 0 : 1 + below(1800)),
            .suspended = Seconds(below(3600)),
            .auto_resume = chance(70),
            .rule = chance(50) ? IdleRule::work : IdleRule::traffic};
  }

  void begin_life(int number) {
    lives_.push_back(std::make_unique<Life>());
    Life& life = *lives_.back();
    life.microvm.id = MicrovmId("microvm-" + std::to_string(number));
    if (chance(80)) life.microvm.idle = random_policy();
    if (chance(50)) life.microvm.max_duration = Seconds(1 + below(3 * 3600));
    const Time born = clock_.now() + Millis(below(600'000));
    at(born, [this, &life] {
      life.microvm.started = life.microvm.state_since = clock_.now();
      operate(life, [this, &life] { move(life, chance(90) ? running : terminating); });
    });
    const auto doings = below(60);
    for (std::uint64_t i = 0; i < doings; ++i) {
      at(born + Millis(below(Millis(kHorizon).count())), [this, &life] { something(life); });
    }
    // Without a clock of its own it lives until it is asked to end.
    at(born + kHorizon + Seconds(1), [this, &life] {
      const Microvm& m = life.microvm;
      if (!m.max_duration && !(m.idle && m.idle->max_idle > Seconds(0))) ask_end(life);
    });
  }

  void something(Life& life) {
    if (life.microvm.state == terminated) return;
    const bool on = life.microvm.state == running;
    const std::uint64_t dice = below(100);
    if (dice < 35) return call(life);
    if (dice < 50 && on) return sign(life, Sign::cpu);
    if (dice < 65 && on) return sign(life, Sign::work_began);
    if (dice < 80 && on && life.activity.open_work > 0) return sign(life, Sign::work_ended);
    if (dice < 86 && on && !life.busy) return suspend(life);
    if (dice < 90 && !life.busy && life.microvm.state == suspended) return resume(life);
    if (dice < 94) {
      life.microvm.idle = random_policy();
      life.free_since = clock_.now();
      return arm(life);
    }
    if (dice < 96) return ask_end(life);
    if (dice < 97 && on && !life.busy) return terminate(life);
  }

  void call(Life& life) {
    if (life.microvm.state == running) return sign(life, Sign::traffic);
    const bool wakes = life.microvm.state == suspended && !life.busy && life.microvm.idle &&
                       life.microvm.idle->auto_resume;
    if (wakes) resume(life);
  }

  void sign(Life& life, Sign sign) {
    const Time now = clock_.now();
    life.log.emplace_back(now, sign);
    if (sign == Sign::traffic) life.activity.saw_traffic(now);
    if (sign == Sign::cpu) life.activity.saw_cpu(now);
    if (sign == Sign::work_began) life.activity.begin_work(now);
    if (sign == Sign::work_ended) life.activity.end_work(now);
    arm(life);
  }

  // Everything that takes time; meanwhile the owner does nothing else to it.
  void operate(Life& life, std::function<void()> finish) {
    ASSERT_FALSE(life.busy);
    life.busy = true;
    ++life.timer;
    at(clock_.now() + Millis(below(kLongestOperation.count())),
       [this, &life, finish = std::move(finish)] {
         life.busy = false;
         life.free_since = clock_.now();
         finish();
         if (life.microvm.state == terminating) return remove(life);
         if (life.end_asked) return terminate(life);
         arm(life);
       });
  }

  void move(Life& life, MicrovmState to) {
    auto moved = enter(life.microvm, to, clock_.now());
    ASSERT_TRUE(moved) << moved.error().text();
    ++transitions_;
  }

  void suspend(Life& life) {
    move(life, suspending);
    operate(life, [this, &life] {
      const std::uint64_t dice = below(100);
      move(life, dice < 85 ? suspended : dice < 93 ? running : terminating);
    });
  }

  void resume(Life& life) {
    operate(life, [this, &life] { move(life, chance(90) ? running : terminating); });
  }

  void terminate(Life& life) {
    move(life, terminating);
    remove(life);
  }

  void remove(Life& life) {
    life.busy = true;
    ++life.timer;
    at(clock_.now() + Millis(below(kLongestOperation.count())), [this, &life] {
      life.busy = false;
      move(life, terminated);
      if (life.microvm.max_duration) {
        EXPECT_LE(clock_.now(),
                  life.microvm.started + *life.microvm.max_duration + 3 * kLongestOperation);
      }
    });
  }

  void ask_end(Life& life) {
    if (life.microvm.state == terminating || life.microvm.state == terminated) return;
    life.end_asked = true;
    if (!life.busy) terminate(life);
  }

  void arm(Life& life) {
    if (life.busy) return;
    const std::uint64_t timer = ++life.timer;
    auto due = next_due(aging_of(life.microvm), life.activity, clock_.now());
    ASSERT_EQ(due.has_value(), expected(life, clock_.now()).has_value());
    if (!due) return;
    at(std::max(due->at, clock_.now()), [this, &life, timer] {
      if (timer == life.timer) fire(life);
    });
  }

  void fire(Life& life) {
    const Time now = clock_.now();
    auto due = next_due(aging_of(life.microvm), life.activity, now);
    ASSERT_TRUE(due);
    if (due->at > now) return arm(life);
    const Expected oracle = *expected(life, now);
    EXPECT_EQ(due->action, oracle.action);
    EXPECT_EQ(due->at, oracle.at);
    // Not early, and not later than the owner could.
    EXPECT_EQ(now, std::max(oracle.at, life.free_since)) << life.microvm.id.str();
    ++timed_actions_;
    if (due->action != TimedAction::suspend_idle) return terminate(life);
    check_asleep(life, now);
    suspend(life);
  }

  // In plain words: under the work rule nothing happened for the idle time, or the cap is over.
  void check_asleep(const Life& life, Time now) {
    const IdlePolicy& idle = *life.microvm.idle;
    Time last_traffic = life.microvm.state_since;
    Time last_sign = last_traffic;
    for (const auto& [at, sign] : life.log) {
      if (sign == Sign::traffic) last_traffic = std::max(last_traffic, at);
      last_sign = std::max(last_sign, at);
    }
    EXPECT_GE(now, last_traffic + idle.max_idle);
    if (idle.rule == IdleRule::traffic || now >= last_traffic + kWorkAwakeCap) return;
    EXPECT_EQ(life.activity.open_work, 0);
    EXPECT_GE(now, last_sign + idle.max_idle);
  }

  std::mt19937_64 random_;
  SimulatedClock clock_;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t next_ = 0;
  std::vector<std::unique_ptr<Life>> lives_;
  std::uint64_t transitions_ = 0;
  std::uint64_t timed_actions_ = 0;
};

TEST(Simulation, RandomLivesKeepTheRules) {
  const char* given = std::getenv("FIREBREAK_SEED");
  const std::uint64_t base = parse_u64(given == nullptr ? "" : given).value_or(20'260'101);
  std::printf("FIREBREAK_SEED=%lu\n", static_cast<unsigned long>(base));
  std::uint64_t transitions = 0;
  std::uint64_t timed_actions = 0;
  for (std::uint64_t seed = base; seed < base + 250; ++seed) {
    SCOPED_TRACE("FIREBREAK_SEED=" + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run(20);
    if (HasFailure()) return;
    transitions += simulation.transitions();
    timed_actions += simulation.timed_actions();
  }
  std::printf("5000 lives, %lu transitions, %lu by the clock\n",
              static_cast<unsigned long>(transitions), static_cast<unsigned long>(timed_actions));
  EXPECT_GT(transitions, 5000U * 3);
  EXPECT_GT(timed_actions, 5000U);
}

}  // namespace
}  // namespace firebreak::core
