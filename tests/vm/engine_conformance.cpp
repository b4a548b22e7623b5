#include "vm/engine_conformance.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace firebreak::testing_support {

void EngineConformance::TearDown() {
  const auto left = engine().inventory();
  ASSERT_TRUE(left) << left.error().text();
  EXPECT_TRUE(left->cgroups.empty() && left->uids.empty() && left->processes.empty() &&
              left->mounts.empty() && left->leftovers.empty());
  for (const machine::FoundMachine& machine : left->machines) {
    ADD_FAILURE() << "machine " << machine.id << " is left";
    // A failed test must not fail the ones after it, nor leave guests running.
    run([&]() -> Task<void> { (void)co_await engine().discard(machine.id, in_seconds(10)); });
  }
}

std::string EngineConformance::next_id() {
  static int count = 0;
  return "machine-" + std::to_string(++count);
}

machine::BootSpec EngineConformance::boot_spec() {
  return {.id = next_id(), .size = {.vcpus = 1, .memory_mib = 256}, .disk = GetParam().disk()};
}

Task<Result<ProbedSnapshot>> EngineConformance::sampler() {
  static std::map<std::string, Probe> made;  // by engine
  auto known = made.find(GetParam().name);
  if (known == made.end()) {
    FB_CO_TRY_ASSIGN(auto machine, co_await engine().boot(boot_spec(), in_seconds(300)));
    FB_CO_TRY_ASSIGN(Probe probe, co_await start_sampler(*machine));
    FB_CO_TRY(co_await machine->snapshot(sampler_directory(), in_seconds(300)));
    known = made.emplace(GetParam().name, probe).first;
  }
  FB_CO_TRY_ASSIGN(auto loaded, co_await engine().load(sampler_directory(), in_seconds(120)));
  co_return ProbedSnapshot{std::move(loaded), known->second};
}

Task<Result<std::unique_ptr<Machine>>> EngineConformance::launch() {
  FB_CO_TRY_ASSIGN(const ProbedSnapshot base, co_await sampler());
  const std::string id = next_id();
  FB_CO_TRY_ASSIGN(auto machine,
                   co_await engine().restore(base.snapshot, {.id = id}, in_seconds(120)));
  FB_CO_TRY(co_await machine->wake(machine::fresh_identity(id, 1), in_seconds(60)));
  co_return std::move(machine);
}

Task<Result<std::unique_ptr<Machine>>> EngineConformance::resume(std::string id,
                                                                 std::uint64_t generation) {
  FB_CO_TRY_ASSIGN(auto machine, co_await engine().resume(id, in_seconds(60)));
  FB_CO_TRY(co_await machine->wake(machine::fresh_identity(id, generation), in_seconds(60)));
  co_return std::move(machine);
}

std::optional<machine::FoundMachine> EngineConformance::found(const std::string& id) {
  const auto all = engine().list();
  if (!all) throw std::runtime_error(all.error().text());
  const auto at = std::ranges::find(*all, id, &machine::FoundMachine::id);
  if (at == all->end()) return std::nullopt;
  return *at;
}

}  // namespace firebreak::testing_support
