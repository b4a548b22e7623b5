// Any Dockerfile that parses, planned with every base there is: refused with a place, or a plan
// whose sources come before their users, within the limits of memory.
#include <cstdlib>
#include <string>

#include "image/build_plan.h"

namespace {

using namespace firebreak;
using namespace firebreak::image;

void check(bool good) {
  if (!good) std::abort();
}

void check_source(const FileSource& source, std::size_t stage) {
  check(source.kind != FileSource::Kind::stage || source.stage < stage);
  check(source.kind != FileSource::Kind::image || !source.image.empty());
}

void check_plan(const BuildPlan& plan) {
  check(!plan.stages.empty());
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    check_source(stage.base, i);
    for (const BuildStep& step : stage.steps) {
      (void)step_inputs(step);
      if (const auto* copy = std::get_if<CopyStep>(&step.action)) {
        check_source(copy->from, i);
        check(copy->destination.starts_with('/'));
      }
      if (const auto* run = std::get_if<RunStep>(&step.action)) {
        check(run->argv.empty() != run->script.empty() && run->workdir.starts_with('/'));
        for (const RunMount& mount : run->mounts) check_source(mount.source, i);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = wire::parse_dockerfile({reinterpret_cast<const char*>(data), size});
  if (!file) return 0;
  const PlanOptions options{.args = {{"A", "x y"}, {"HTTP_PROXY", "p"}}};
  BaseImages bases;
  for (int round = 0; round < 4; ++round) {
    const auto plan = plan_build(*file, options, bases);
    if (!plan) return 0;
    check_plan(*plan);
    if (plan->missing.empty()) return 0;
    for (const std::string& name : plan->missing) {
      BaseImage& base = bases[name];
      base.config.env = {{"E", name}};
      // Some of them come as layers.
      if (name.size() % 2 == 0) base.layers.emplace(name.size() % 5);
      if (round == 0) base.config.onbuild = {"RUN a", "COPY --from=tools /a /b"};
    }
  }
  std::abort();  // triggers need bases, bases have triggers; but that ends
}
