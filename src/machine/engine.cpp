#include "machine/engine.h"

#include "base/sys.h"

namespace firebreak::machine {

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::cut_layers:
      return "cut_layers";
    case Feature::fork:
      return "fork";
    case Feature::network:
      return "network";
    case Feature::park:
      return "park";
    case Feature::suspend:
      return "suspend";
  }
  return "";
}

namespace {

// What cannot be done, and what to do instead.
struct Refusal {
  std::string what;
  std::string repair;
};

Refusal refusal_of(Feature feature) {
  switch (feature) {
    case Feature::cut_layers:
      return {"cannot build images in steps", "build the image with another engine"};
    case Feature::fork:
      return {"cannot fork microVMs", "launch new ones from the image instead"};
    case Feature::network:
      return {"has no networks for microVMs on this host",
              "firebreak doctor says why, and how to repair it. Without a network: --egress "
              "NO_EGRESS"};
    case Feature::park:
      return {"cannot keep microVMs ready", "launch them when they are needed"};
    case Feature::suspend:
      return {"cannot suspend microVMs",
              "terminate the microVM instead, and run it without an idle policy"};
  }
  return {};
}

}  // namespace

Result<> require(const Engine& engine, Feature feature) {
  if (engine.features().contains(feature)) return {};
  Refusal refusal = refusal_of(feature);
  return fail(Code::unavailable, Reason{"engine_lacks_feature"},
              "the engine " + engine.name() + " " + refusal.what,
              Repair{std::move(refusal.repair)});
}

Identity fresh_identity(const std::string& machine_id, std::uint64_t generation) {
  return {.hostname = machine_id,
          .machine_id = sys::random_hex(16),
          .generation = generation,
          .network = std::nullopt,
          .metadata = {{"instance_id", machine_id}}};
}

}  // namespace firebreak::machine
