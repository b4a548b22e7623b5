// The engines that pass the suite. A new engine: a line here.
#include <filesystem>

#include "support/world.h"
#include "vm/engine_conformance.h"

namespace firebreak::testing_support {
namespace {

std::string layer_path(const std::string& name) {
  const std::string directory = world().data_dir() + "/layers";
  std::filesystem::create_directories(directory);
  return directory + "/" + name;
}

const EngineUnderTest kQemu{
    .name = machine::kQemuEngine,
    .engine = []() -> Engine& { return world().engine(); },
    .restarted = []() -> std::unique_ptr<Engine> { return world().another_engine(); },
    .disk = [] { return machine::DiskContent{.base = world().base_disk(), .layers = {}}; },
    .layer_path = layer_path,
    .snapshot_parts = {"snapshot.json", "state", "ram", "disk.qcow2"},
    .run = [](const std::function<Task<void>()>& body) { world().run(body); }};

INSTANTIATE_TEST_SUITE_P(Engine, EngineConformance, testing::Values(kQemu),
                         [](const testing::TestParamInfo<EngineUnderTest>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace firebreak::testing_support
