// One build microVM: a stage's disk with its tenant, in which instructions are carried out. The
// caller that started it must call end(). One executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "image/build_context.h"
#include "image/build_plan.h"
#include "image/copy_sources.h"
#include "image/disk_chain.h"
#include "image/guest_copy.h"
#include "machine/engine.h"

namespace firebreak::image {

using BuildOutput = std::function<void(std::string_view text)>;

struct BuildMachineSpec {
  machine::Size size;
  machine::HostLimits limits;
  bool network = false;
  std::vector<std::string> hidden = {};  // in the output of commands
  // Called before the machine exists; when it runs, so that its network policy may be loaded (an
  // error ends the build); when nothing of it is left.
  std::function<void(std::string id)> starting = [](const std::string&) {};
  std::function<net::Task<Result<>>(std::string id)> started;
  std::function<net::Task<void>(std::string id)> ended;
};

// A part of another tree for one RUN.
struct StagedTree {
  std::string staging;
  std::string path = ".";
};

class BuildMachine {
 public:
  static net::Task<Result<std::unique_ptr<BuildMachine>>> start(machine::Engine& engine,
                                                                const BuildMachineSpec& spec,
                                                                std::string id, DiskChain disk,
                                                                Deadline deadline);
  BuildMachine(const BuildMachine&) = delete;
  BuildMachine& operator=(const BuildMachine&) = delete;
  ~BuildMachine() = default;

  machine::AgentClient& agent() { return machine_->agent(); }
  const DiskChain& disk() const { return disk_; }

  // Where files go, with the rules of COPY: into the destination if that is, or is to be, a
  // directory, else to its name.
  struct Target {
    CopyPlace place;
    std::string rename;
  };
  net::Task<Result<Target>> target_of(const CopyStep& copy, bool one_file, Deadline deadline);
  net::Task<Result<>> make_directory(std::string path, std::string user, Deadline deadline);

  // Makes an empty tree in memory; replaces an earlier one of the name.
  net::Task<Result<>> stage(std::string name, std::uint64_t bytes, Deadline deadline);
  struct StepMount {
    StagedTree tree;
    std::string target;
    bool readonly = false;
  };
  // Code::guest if the command fails, with its exit status. What it leaves running is killed.
  net::Task<Result<>> run(machine::ExecSpec spec, std::vector<StepMount> mounts, BuildOutput output,
                          Deadline deadline);

  // What was written since the last one becomes the layer on top of `with`.
  net::Task<Result<>> cut(DiskChain with, Deadline deadline);
  net::Task<void> end();

 private:
  BuildMachine(std::unique_ptr<machine::Machine> machine, DiskChain disk,
               std::vector<std::string> hidden, std::function<net::Task<void>(std::string)> ended)
      : machine_(std::move(machine)),
        disk_(std::move(disk)),
        hidden_(std::move(hidden)),
        ended_(std::move(ended)) {}
  net::Task<Result<>> execute(machine::ExecSpec spec, BuildOutput output, Deadline deadline);

  std::unique_ptr<machine::Machine> machine_;
  DiskChain disk_;
  std::vector<std::string> hidden_;
  std::function<net::Task<void>(std::string)> ended_;
};

}  // namespace firebreak::image
