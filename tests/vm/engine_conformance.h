// The suite that every engine passes: tests are written against Engine and Machine alone and run
// once per engine of engines_test.cpp. What an engine does not offer is skipped, and must be
// refused. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/engine.h"
#include "support/expect.h"
#include "vm/probe.h"

namespace firebreak::testing_support {

struct EngineUnderTest {
  std::string name;
  // The program's one, on a data directory of its own.
  std::function<Engine&()> engine;
  // One more on the same data directory: what a restarted daemon has.
  std::function<std::unique_ptr<Engine>()> restarted;
  // Holds Debian with Python.
  std::function<machine::DiskContent()> disk;
  // A file that a layer can be cut to.
  std::function<std::string(const std::string& name)> layer_path;
  // Files of a snapshot, without which it is none.
  std::vector<std::string> snapshot_parts;
  // Runs the loop of the engine until the task is done.
  std::function<void(const std::function<Task<void>()>&)> run;
};

class EngineConformance : public testing::TestWithParam<EngineUnderTest> {
 protected:
  // Nothing of a machine may be left on the host after a test.
  void TearDown() override;

  static Engine& engine() { return GetParam().engine(); }
  static bool offers(machine::Feature feature) { return engine().features().contains(feature); }
  static void run(const std::function<Task<void>()>& body) { GetParam().run(body); }
  static std::string next_id();
  static machine::BootSpec boot_spec();

  // A snapshot with a sampling probe in it, made once per program, loaded.
  static Task<Result<ProbedSnapshot>> sampler();
  static std::string sampler_directory() { return engine().snapshot_directory("sampler"); }
  // A clone of it, woken.
  static Task<Result<std::unique_ptr<Machine>>> launch();
  static Task<Result<std::unique_ptr<Machine>>> resume(std::string id, std::uint64_t generation);
  // Nothing, when the engine has nothing of that name.
  static std::optional<machine::FoundMachine> found(const std::string& id);
};

}  // namespace firebreak::testing_support
