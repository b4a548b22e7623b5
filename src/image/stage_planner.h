// Reads the instructions of one stage, in order, with the variables and the configuration that they
// change. Used by build_plan.cpp; single thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "image/build_plan.h"

namespace firebreak::image {

// What all stages of a plan share.
struct PlanScope {
  const PlanOptions& options;
  char escape = '\\';
  std::map<std::string, std::string, std::less<>> globals;  // ARGs before FROM, and the platform's
  std::set<std::string, std::less<>> used_args;             // of the options
  std::size_t bytes_left = std::size_t{16} << 20;           // that variables may still make
  std::vector<std::string> notes;

  std::unexpected<Error> fail_at(wire::SourcePosition at, std::string_view what,
                                 Code code = Code::invalid) const;
  std::unexpected<Error> fail_at(wire::SourcePosition at, std::string_view what,
                                 Repair repair) const;
  // What is wrong there, with its own reason and repair.
  std::unexpected<Error> fail_at(wire::SourcePosition at, Error error) const;
  Result<std::string> expand(std::string_view text, const wire::VariableLookup& lookup,
                             wire::SourcePosition at);
  Result<> spend(std::size_t bytes, wire::SourcePosition at);
};

using ArgScope = std::map<std::string, std::string, std::less<>>;

class StagePlanner {
 public:
  // How a --from names what it means; fails if that is not possible here.
  using SourceLookup = std::function<Result<FileSource>(const std::string& name)>;

  // Begins with what the base has. `scope` outlives it.
  StagePlanner(PlanScope& scope, ImageConfig config, ArgScope args, CaMark ca,
               SourceLookup sources);

  Result<> add(const wire::Instruction& instruction, wire::SourcePosition at, bool trigger);

  const ImageConfig& config() const { return config_; }
  const ArgScope& args() const { return args_; }
  std::vector<BuildStep> take_steps() { return std::move(steps_); }

 private:
  using Action = decltype(BuildStep::action);

  Result<Action> act(const wire::ArgInstruction& arg);
  Result<Action> act(const wire::EnvInstruction& env);
  Result<Action> act(const wire::LabelInstruction& label);
  Result<Action> act(const wire::RunInstruction& run);
  Result<Action> act(const wire::CopyInstruction& copy);
  Result<Action> act(const wire::WorkdirInstruction& workdir);
  Result<Action> act(const wire::UserInstruction& user);
  Result<Action> act(const wire::ExposeInstruction& expose);
  Result<Action> act(const wire::CmdInstruction& cmd);
  Result<Action> act(const wire::EntrypointInstruction& entrypoint);
  Result<Action> act(const wire::ShellInstruction& shell);
  Result<Action> act(const wire::StopSignalInstruction& signal);
  Result<Action> act(const wire::HealthcheckInstruction& check);
  Result<Action> act(const wire::VolumeInstruction& volume);
  Result<Action> act(const wire::OnbuildInstruction& onbuild);
  Result<Action> act(const wire::MaintainerInstruction& maintainer);

  std::unexpected<Error> bad(std::string_view what, Repair repair = {}) const {
    return scope_.fail_at(at_, what, std::move(repair));
  }
  std::unexpected<Error> bad(Error error) const {
    error.code = Code::invalid;
    return scope_.fail_at(at_, std::move(error));
  }
  std::optional<std::string> lookup(std::string_view name) const;
  Result<std::string> expand(std::string_view text);
  Result<> set_env(const std::string& name, std::string value);
  Result<> set_arg(const std::string& name, std::string value);
  // Counts what the variables, or the rest of the configuration, hold now.
  Result<> grow(std::size_t& counter, std::size_t more, std::size_t less, std::size_t limit,
                std::string_view what) const;
  Result<> expose(const std::string& word);
  std::shared_ptr<const EnvList> environment();
  std::shared_ptr<const EnvList> proxies() const;
  RunStep::Trust trust() const;
  Result<std::vector<std::string>> with_shell(const wire::CommandLine& command) const;
  std::string absolute(std::string_view path) const;
  Result<RunMount> mount(const std::string& options);
  Result<> check_copy(const wire::CopyInstruction& copy, const CopyStep& step) const;

  PlanScope& scope_;
  ImageConfig config_;
  ArgScope args_;
  CaMark ca_;  // in the base's disk
  SourceLookup sources_;
  bool cmd_set_ = false;  // in this stage
  // Indexes into the configuration, and its size: a hostile Dockerfile has many of everything.
  std::map<std::string, std::size_t, std::less<>> env_index_;
  std::set<std::string, std::less<>> ports_;
  std::set<std::string, std::less<>> volumes_;
  std::size_t variable_bytes_ = 0;
  std::size_t config_bytes_ = 0;
  wire::SourcePosition at_;
  std::shared_ptr<const EnvList> environment_;  // as of the last change
  std::vector<BuildStep> steps_;
};

}  // namespace firebreak::image
