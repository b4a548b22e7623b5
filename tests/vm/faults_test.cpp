// QEMU is killed at every step of every operation. Each time: the operation ends soon, with a typed
// error or, where the process is no longer needed, with success; what should survive survives; and
// nothing is left behind.
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "machine/process.h"
#include "machine/qemu/snapshot.h"
#include "vm/vm_test.h"

namespace firebreak::testing_support {
namespace {

using machine::fresh_identity;
using machine::QemuEngine;

// What a kill at a step does to the operation.
enum class Effect {
  none,   // no process yet, or none needed any more
  fails,  // typed error, the machine is lost
  races,  // as fails, unless the guest's answer was there already
  keeps,  // typed error, the suspended machine is as before
};

struct Step {
  std::string point;
  Effect effect;
};

struct Scene {
  std::string id;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<QemuEngine> other;  // for attach: the daemon after a restart
  std::string directory;              // for snapshot
  std::vector<std::string> children;
};

using Act = Task<Result<>> (*)(Scene&);

struct Operation {
  std::string name;
  std::vector<Step> steps;  // every point it reaches, in order
  Act prepare;
  Act act;
  Act after_success = nullptr;  // what must hold although the process was killed
};

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << operation.name;
}

// Listens to the engine's steps and kills the machine's process at one of them.
class Saboteur {
 public:
  explicit Saboteur(QemuEngine& engine) : host_(engine.host()) {
    host_.faults().set([this](std::string_view point) { reached(point); });
  }
  ~Saboteur() { host_.faults().set(nullptr); }
  Saboteur(const Saboteur&) = delete;
  Saboteur& operator=(const Saboteur&) = delete;

  void arm(std::string id, std::string point) {
    const std::lock_guard lock(mutex_);
    reached_.clear();
    id_ = std::move(id);
    point_ = std::move(point);
    killed_ = false;
  }
  std::vector<std::string> reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  bool killed() {
    const std::lock_guard lock(mutex_);
    return killed_;
  }

 private:
  // On the executor or on a thread of the pool.
  void reached(std::string_view point) {
    const std::lock_guard lock(mutex_);
    reached_.emplace_back(point);
    if (point != point_) return;
    auto record = host_.read_record(id_);
    if (!record || record->pid == 0) return;
    auto process = machine::adopt(machine::process_of(*record));
    if (!process) return;
    EXPECT_TRUE(process->kill());
    // Gone before the operation goes on, but not reaped: that is the engine's business.
    pollfd ended{process->pidfd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 10'000), 1);
    killed_ = true;
  }

  machine::MachineHost& host_;
  std::mutex mutex_;
  std::string id_;
  std::string point_;
  std::vector<std::string> reached_;
  bool killed_ = false;
};

// ------------------------------------------------------------------------------------- operations

Task<Result<>> nothing(Scene& scene) {
  scene.id = world().next_id();
  FB_CO_TRY(co_await world().default_snapshot());
  co_return Result<>();
}

Task<Result<>> restore(Scene& scene) {
  FB_CO_TRY_ASSIGN(auto snapshot, co_await world().default_snapshot());
  FB_CO_TRY_ASSIGN(scene.machine,
                   co_await world().engine().restore(snapshot, {.id = scene.id}, in_seconds(60)));
  co_return Result<>();
}

Task<Result<>> restored(Scene& scene) {
  scene.id = world().next_id();
  co_return co_await restore(scene);
}

Task<Result<>> wake(Scene& scene) {
  co_return co_await scene.machine->wake(fresh_identity(scene.id, 1), in_seconds(60));
}

Task<Result<>> running(Scene& scene) {
  FB_CO_TRY(co_await restored(scene));
  FB_CO_TRY(co_await wake(scene));
  FB_CO_TRY(co_await shell(*scene.machine, "echo disk > /root/f; echo memory > /dev/shm/m"));
  co_return Result<>();
}

Task<Result<>> rehearse(Scene& scene) {
  return scene.machine->rehearse(in_seconds(60));
}

Task<Result<>> park(Scene& scene) {
  return scene.machine->park(in_seconds(60));
}

Task<Result<>> parked(Scene& scene) {
  FB_CO_TRY(co_await restored(scene));
  co_return co_await park(scene);
}

Task<Result<>> unpark(Scene& scene) {
  co_return co_await scene.machine->unpark(fresh_identity(scene.id, 1), in_seconds(60));
}

Task<Result<>> suspend(Scene& scene) {
  return scene.machine->suspend(in_seconds(60));
}

Task<Result<>> suspended(Scene& scene) {
  FB_CO_TRY(co_await running(scene));
  FB_CO_TRY(co_await suspend(scene));
  scene.machine.reset();
  co_return Result<>();
}

Task<Result<>> resume(Scene& scene) {
  scene.machine.reset();
  FB_CO_TRY_ASSIGN(scene.machine, co_await world().engine().resume(scene.id, in_seconds(60)));
  co_return Result<>();
}

// What was suspended is all there.
Task<Result<>> resumes_whole(Scene& scene) {
  FB_CO_TRY(co_await resume(scene));
  FB_CO_TRY(co_await scene.machine->wake(fresh_identity(scene.id, 2), in_seconds(60)));
  FB_CO_TRY_ASSIGN(const std::string out, co_await shell(*scene.machine, "cat /root/f /dev/shm/m"));
  EXPECT_EQ(out, "disk\nmemory\n");
  co_return Result<>();
}

Task<Result<>> fork(Scene& scene) {
  scene.children = {scene.id + "-a", scene.id + "-b"};
  return scene.machine->fork(scene.children, in_seconds(60));
}

Task<Result<>> forked_often(Scene& scene) {
  FB_CO_TRY(co_await running(scene));
  for (int i = 0; i < 8; ++i) FB_CO_TRY(co_await scene.machine->fork({}, in_seconds(60)));
  co_return Result<>();
}

Task<Result<>> fork_many(Scene& scene) {
  for (const char* const name : {"-a", "-b", "-c", "-d", "-e"})
    scene.children.push_back(scene.id + name);
  return scene.machine->fork(scene.children, in_seconds(60));
}

Task<Result<>> changed_much(Scene& scene) {
  FB_CO_TRY(co_await running(scene));
  FB_CO_TRY(co_await shell(*scene.machine, "head -c 50M /dev/zero | tr '\\0' x > /dev/shm/much"));
  co_return Result<>();
}

Task<Result<>> children_resume_whole(Scene& scene) {
  for (const std::string& id : scene.children) {
    Scene child{.id = id};
    FB_CO_TRY(co_await resumes_whole(child));
    FB_CO_TRY(co_await child.machine->terminate(in_seconds(20)));
  }
  co_return Result<>();
}

Task<Result<>> booted(Scene& scene) {
  scene.id = world().next_id("boot");
  scene.directory = world().data_dir() + "/snapshots/" + scene.id;
  machine::BootSpec spec{.id = scene.id,
                         .size = {.vcpus = 1, .memory_mib = 128},
                         .disk = {.base = world().base_disk(), .layers = {}}};
  FB_CO_TRY_ASSIGN(scene.machine, co_await world().engine().boot(spec, in_seconds(120)));
  co_return Result<>();
}

Task<Result<>> snapshot(Scene& scene) {
  return scene.machine->snapshot(scene.directory, in_seconds(120));
}

Task<Result<>> snapshot_is_whole(Scene& scene) {
  FB_CO_TRY_ASSIGN(auto loaded, co_await world().engine().load(scene.directory, in_seconds(60)));
  const std::string id = world().next_id();
  FB_CO_TRY_ASSIGN(auto clone,
                   co_await world().engine().restore(loaded, {.id = id}, in_seconds(60)));
  FB_CO_TRY(co_await clone->wake(fresh_identity(id, 1), in_seconds(60)));
  FB_CO_TRY(co_await shell(*clone, "true"));
  co_return co_await clone->terminate(in_seconds(20));
}

Task<Result<>> abandoned(Scene& scene) {
  FB_CO_TRY(co_await running(scene));
  scene.machine.reset();
  scene.other = world().another_engine();
  co_return Result<>();
}

Task<Result<>> attach(Scene& scene) {
  FB_CO_TRY_ASSIGN(scene.machine, co_await scene.other->attach(scene.id, in_seconds(60)));
  co_return Result<>();
}

Task<Result<>> terminate(Scene& scene) {
  return scene.machine->terminate(in_seconds(20));
}

std::vector<Operation> operations() {
  using enum Effect;
  return {
      {"restore",
       {{"prepared", none}, {"start.cgroup", none}, {"start.spawned", fails}, {"connected", races}},
       nothing,
       restore},
      {"wake", {{"wake", fails}, {"woken", none}}, restored, wake},
      {"rehearse", {{"rehearse", fails}, {"rehearsed", none}}, restored, rehearse},
      {"park", {{"park", fails}, {"parked", none}}, restored, park},
      {"unpark", {{"unpark", fails}, {"wake", fails}, {"woken", none}}, parked, unpark},
      {"suspend",
       {{"frozen", fails}, {"stopped", fails}, {"state", fails}, {"saved", none}, {"synced", none}},
       running,
       suspend,
       resumes_whole},
      {"resume",
       {{"start.cgroup", none},
        {"start.spawned", keeps},
        {"applied", keeps},
        {"loaded", keeps},
        {"spent", fails},
        {"resumed", races}},
       suspended,
       resume},
      {"fork",
       {{"frozen", fails},
        {"stopped", fails},
        {"state", fails},
        {"saved", fails},
        {"forked", none},
        {"fork.synced", none}},
       running,
       fork,
       children_resume_whole},
      {"fork_of_many",
       {{"flattening", fails},
        {"flattened", fails},
        {"frozen", fails},
        {"stopped", fails},
        {"state", fails},
        {"saved", fails},
        {"forked", none},
        {"fork.synced", none}},
       forked_often,
       fork,
       children_resume_whole},
      {"fork_with_a_base",
       {{"frozen", fails},
        {"stopped", fails},
        {"state", fails},
        {"saved", fails},
        {"forked", none},
        {"fork.synced", none},
        {"fork.base", none}},
       changed_much,
       fork_many,
       children_resume_whole},
      {"snapshot",
       {{"rehearse", fails},
        {"rehearsed", fails},
        {"frozen", fails},
        {"stopped", fails},
        {"state", none},
        {"ended", none}},
       booted,
       snapshot,
       snapshot_is_whole},
      {"attach", {{"attach.connected", fails}, {"attach.running", races}}, abandoned, attach},
      {"terminate", {{"terminate", none}}, running, terminate},
  };
}

// -------------------------------------------------------------------------------------- the table

class KilledAtEveryStep : public VmTest, public testing::WithParamInterface<Operation> {
 protected:
  static Task<void> clean_up(Scene& scene) {
    if (scene.machine) {
      const auto ended = co_await scene.machine->terminate(in_seconds(20));
      EXPECT_TRUE(ended) << ended.error().text();
      scene.machine.reset();
    }
    scene.children.push_back(scene.id);
    for (const std::string& id : scene.children) {
      const auto gone = co_await world().engine().discard(id, in_seconds(20));
      EXPECT_TRUE(gone) << gone.error().text();
    }
    if (!scene.directory.empty())
      EXPECT_TRUE(machine::remove_snapshot(scene.directory, in_seconds(10)));
    const Leftovers left = world().leftovers();
    EXPECT_TRUE(left.empty()) << left.text();
  }

  static Saboteur& saboteur_of(Scene& scene, std::optional<Saboteur>& place) {
    return place.emplace(scene.other ? *scene.other : world().engine());
  }

  static Task<void> undisturbed(const Operation& operation) {
    Scene scene;
    CO_OK(co_await operation.prepare(scene));
    std::vector<std::string> reached;
    {
      std::optional<Saboteur> place;
      Saboteur& saboteur = saboteur_of(scene, place);
      saboteur.arm(scene.id, "");
      CO_OK(co_await operation.act(scene));
      reached = saboteur.reached();
    }
    std::vector<std::string> expected;
    for (const Step& step : operation.steps) expected.push_back(step.point);
    EXPECT_EQ(reached, expected) << "a step without a test, or a test without its step";
    co_await clean_up(scene);
  }

  static Task<void> killed_at(const Operation& operation, const Step& step) {
    SCOPED_TRACE(operation.name + " killed at " + step.point);
    Scene scene;
    CO_OK(co_await operation.prepare(scene));
    const auto began = std::chrono::steady_clock::now();
    Result<> result;
    bool killed = false;
    {
      std::optional<Saboteur> place;
      Saboteur& saboteur = saboteur_of(scene, place);
      saboteur.arm(scene.id, step.point);
      result = co_await operation.act(scene);
      killed = saboteur.killed();
      EXPECT_THAT(saboteur.reached(), testing::Contains(step.point));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
    if (killed && scene.machine) EXPECT_TRUE(co_await scene.machine->wait_exit(in_seconds(5)));
    if (step.effect == Effect::none) {
      EXPECT_TRUE(result) << result.error().text();
      if (result && operation.after_success != nullptr) {
        const auto after = co_await operation.after_success(scene);
        EXPECT_TRUE(after) << after.error().text();
      }
    } else {
      EXPECT_TRUE(killed);
      EXPECT_TRUE(!result || step.effect == Effect::races);
      if (!result)
        EXPECT_THAT(to_string(result.error().code), testing::AnyOf("guest", "unavailable"))
            << result.error().text();
    }
    if (step.effect == Effect::keeps) {
      const auto again = co_await resumes_whole(scene);
      EXPECT_TRUE(again) << again.error().text();
    }
    co_await clean_up(scene);
  }
};

TEST_P(KilledAtEveryStep, EndsSoonAndLeavesNothing) {
  const Operation& operation = GetParam();
  run([&]() -> Task<void> {
    co_await undisturbed(operation);
    for (const Step& step : operation.steps) co_await killed_at(operation, step);
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, KilledAtEveryStep, testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace firebreak::testing_support
