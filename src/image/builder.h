// Carries out a build plan: stage by stage, step by step, each step a disk layer. Layers that are
// there already are taken; a machine is started only for the first that is not. One object a build;
// one executor.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "image/build_machine.h"
#include "image/cache_mounts.h"
#include "image/layer_cache.h"
#include "image/oci_layer.h"
#include "image/oci_source.h"

namespace firebreak::image {

struct FoundBase {
  BaseImage image;
  DiskChain disk;                     // if it has one already
  std::shared_ptr<LayerBlobs> blobs;  // if it has layers
  core::SnapshotRef snapshot = {};    // that the disk belongs to; whoever builds on it holds it
};

struct BuildOrder {
  std::string owner;  // of the layers
  std::shared_ptr<const BuildContext> context;
  wire::IgnoreRules ignore;
  BuildPlan plan;
  std::map<std::string, FoundBase> bases;  // by the name in the Dockerfile
  std::string scratch;                     // an empty disk
  std::map<std::string, std::string> secrets;
  EnvList run_env;                      // the operator's, for commands: in no image and no key
  std::shared_ptr<const GuestCa> ca;    // nullptr: none
  bool use_cache = true;                // of layers
  std::uint64_t cache_mount_bytes = 0;  // the most that one may keep; 0: none is kept
  std::int64_t mtime_ns = 0;            // of files from the context
  std::string name;                     // machines of this build are NAME, NAME-1, ...
  BuildMachineSpec machine;
  BuildOutput log;
};

struct StepReport {
  std::string text;
  bool cached = false;
  std::uint64_t took_ms = 0;
  std::uint64_t bytes = 0;
};

struct BuiltDisk {
  DiskChain disk;
  std::string key;  // the same whenever the same is built on the same base
  ImageConfig config;
  CaMark ca;  // in it
  std::vector<StepReport> steps;
};

class Builder {
 public:
  // `pool` does what blocks; `choosing` what takes as long as the context makes it.
  Builder(machine::Engine& engine, LayerCache& cache, CacheMounts& mounts,
          net::asio::thread_pool& pool, net::asio::thread_pool& choosing, BuildOrder order)
      : engine_(engine),
        cache_(cache),
        mounts_(mounts),
        pool_(pool),
        choosing_(choosing),
        hold_(cache),
        order_(std::move(order)) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() = default;

  // Code::guest for an instruction that fails, with its place in the Dockerfile. No machine is
  // left, whatever happens. The disk stays usable as long as this object lives.
  net::Task<Result<BuiltDisk>> run(Deadline deadline);

 private:
  // For choosing files of the context, in all steps.
  static constexpr std::chrono::seconds kChoosing{120};

  struct Stage {
    DiskChain disk;
    std::string key;
  };
  // Reads a step's other inputs: what it copies or mounts.
  struct StepInput {
    std::string content;                  // for the key
    std::vector<CopySelection> selected;  // from the context, one a copy or mount
    CheckedLayer layer;
  };

  net::Task<Result<BuiltDisk>> run_stages(Deadline deadline);
  net::Task<Result<Stage>> run_stage(std::size_t index, Deadline deadline);
  net::Task<Result<>> run_step(const BuildStep& step, Stage& stage, Deadline deadline);
  net::Task<Result<StepInput>> input_of(const BuildStep& step, Deadline deadline);
  // Which files of the context it takes.
  net::Task<Result<>> choose(CopyQuery query, StepInput& input, Deadline deadline);
  Result<std::string> key_of(const FileSource& source) const;

  net::Task<Result<>> act(BuildMachine& machine, const RunStep& run, const StepInput& input,
                          Deadline deadline);
  net::Task<Result<>> act(BuildMachine& machine, const CopyStep& copy, const StepInput& input,
                          Deadline deadline);
  net::Task<Result<>> act(BuildMachine& machine, const WorkdirStep& workdir, const StepInput& input,
                          Deadline deadline);
  net::Task<Result<>> act(BuildMachine& machine, const LayerStep& layer, const StepInput& input,
                          Deadline deadline);
  net::Task<Result<>> act(BuildMachine& machine, const ConfigStep& config, const StepInput& input,
                          Deadline deadline);
  // What is known to be wrong with a layer costs no machine.
  net::Task<Result<CheckedLayer>> check(const LayerStep& step, Deadline deadline);
  net::Task<Result<>> copy_from_context(BuildMachine& machine, const CopyStep& copy,
                                        const CopySelection& selection, ModeAndTime as,
                                        Deadline deadline);
  // `alone`: the only one, which may become the destination itself.
  net::Task<Result<>> copy_files(BuildMachine& machine, const CopyStep& copy, CopySelection files,
                                 bool alone, ModeAndTime as, Deadline deadline);
  net::Task<Result<>> copy_from_guest(BuildMachine& machine, const CopyStep& copy, ModeAndTime as,
                                      Deadline deadline);
  // Begins the step's environment, and adds to its mounts.
  net::Task<Result<>> trust(BuildMachine& machine, const RunStep& run, machine::ExecSpec& spec,
                            std::vector<BuildMachine::StepMount>& mounts, Deadline deadline);
  // Adds what the mount needs to the step's mounts or environment.
  net::Task<Result<>> prepare_mount(BuildMachine& machine, const RunMount& mount,
                                    const CopySelection* selected, std::size_t number,
                                    machine::ExecSpec& spec,
                                    std::vector<BuildMachine::StepMount>& mounts,
                                    Deadline deadline);
  net::Task<Result<StagedTree>> stage_secret(BuildMachine& machine, const wire::Mount& mount,
                                             const std::string& value, std::size_t number,
                                             Deadline deadline);
  // What the machine has already, or an earlier build left, or a new one.
  net::Task<Result<StagedTree>> stage_cache(BuildMachine& machine, const RunMount& mount,
                                            Deadline deadline);
  net::Task<bool> restore_cache(BuildMachine& machine, const RunMount& mount, std::string key,
                                Deadline deadline);
  net::Task<Result<>> fill_cache(BuildMachine& machine, const FileSpan& kept,
                                 const wire::Mount& mount, std::string staging, Deadline deadline);
  // Those that the stage may have changed, for later builds.
  net::Task<void> keep_caches(BuildMachine& machine, Deadline deadline);
  net::Task<Result<>> keep_cache(BuildMachine& machine, std::string key, Deadline deadline);
  net::Task<Result<StagedTree>> stage_bind(BuildMachine& machine, const RunMount& mount,
                                           const CopySelection* selected, std::string name,
                                           Deadline deadline);

  net::Task<Result<BuildMachine*>> machine_on(const DiskChain& disk, Deadline deadline);
  // A machine with the files of another stage or image; kept for later steps that need the same.
  net::Task<Result<BuildMachine*>> source_on(const FileSource& source, Deadline deadline);
  std::string next_machine();
  void say(const std::string& text) const { order_.log(text + "\n"); }

  machine::Engine& engine_;
  LayerCache& cache_;
  CacheMounts& mounts_;
  net::asio::thread_pool& pool_;
  net::asio::thread_pool& choosing_;
  std::chrono::nanoseconds choosing_left_ = kChoosing;
  LayerCache::Hold hold_;
  BuildOrder order_;
  std::vector<Stage> done_;  // as the plan's stages
  std::vector<StepReport> reports_;
  std::unique_ptr<BuildMachine> machine_;  // of the stage
  std::map<std::string, bool> caches_;     // that are in it, by key: may a step have written there
  std::unique_ptr<BuildMachine> source_;   // that files are taken from
  bool source_unused_ = false;  // nothing but layers came into it: a stage may go on in it
  std::size_t steps_ = 0;       // of all stages
  std::size_t step_ = 0;
  std::size_t machines_ = 0;
};

}  // namespace firebreak::image
