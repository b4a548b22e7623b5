#include "image/build_plan.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/text.h"
#include "image/stage_planner.h"
#include "wire/crypto.h"

namespace firebreak::image {
namespace {

constexpr std::string_view kPlatform = "linux/amd64";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

class Planner {
 public:
  Planner(const wire::Dockerfile& file, const PlanOptions& options, const BaseImages& bases)
      : file_(file), bases_(bases), scope_{.options = options, .escape = file.escape} {}

  Result<BuildPlan> run() {
    FB_TRY(read_globals());
    FB_TRY(resolve_bases());
    FB_TRY_ASSIGN(const std::size_t target, find_target());
    FB_TRY(need(target));
    for (std::size_t i = 0; i <= target; ++i)
      if (draft_[i].needed) FB_TRY(plan_stage(i));
    note_unused_args();
    plan_.missing.assign(missing_.begin(), missing_.end());
    plan_.notes = std::move(scope_.notes);
    return std::move(plan_);
  }

 private:
  // A stage of the file with what is known about it.
  struct Draft {
    FileSource base;  // `stage` is an index into the file
    std::vector<wire::Instruction> triggers;
    bool needed = false;
    std::size_t planned = 0;  // index in the plan
    ArgScope args;            // after its last instruction
  };

  Result<> read_globals();
  Result<std::string> expand_global(std::string_view text, wire::SourcePosition at);
  Result<> resolve_bases();
  Result<FileSource> resolve_base(std::size_t index);
  Result<> read_triggers(std::size_t index);
  Result<std::size_t> find_target() const;
  Result<> need(std::size_t index);
  Result<> need_sources(std::size_t index, const wire::Instruction& instruction,
                        wire::SourcePosition at);
  Result<FileSource> find_source(std::size_t from_stage, const std::string& name,
                                 wire::SourcePosition at) const;
  const BaseImage* find_image(const std::string& name);
  FileSource laid_out(const std::string& name, wire::SourcePosition at);
  Result<> plan_stage(std::size_t index);
  void note_unused_args();
  void note_other_ca(const std::string& base, const CaMark& ca);

  const wire::Dockerfile& file_;
  const BaseImages& bases_;
  PlanScope scope_;
  std::vector<Draft> draft_;
  std::set<std::string> missing_;
  std::map<std::string, std::size_t> laid_out_;  // images with layers: their stages in the plan
  BuildPlan plan_;
};

// ARGs before the first FROM: for FROM lines, and as defaults of ARGs in stages.
Result<> Planner::read_globals() {
  const std::string target =
      scope_.options.target.empty() ? file_.stages.back().name : scope_.options.target;
  scope_.globals = {{"TARGETPLATFORM", std::string(kPlatform)},
                    {"TARGETOS", "linux"},
                    {"TARGETARCH", "amd64"},
                    {"TARGETVARIANT", ""},
                    {"BUILDPLATFORM", std::string(kPlatform)},
                    {"BUILDOS", "linux"},
                    {"BUILDARCH", "amd64"},
                    {"BUILDVARIANT", ""},
                    {"TARGETSTAGE", target.empty() ? "default" : target}};
  for (const wire::Instruction& instruction : file_.global_args) {
    for (const auto& item : std::get<wire::ArgInstruction>(instruction.body).items) {
      const auto given = scope_.options.args.find(item.name);
      if (given != scope_.options.args.end()) {
        scope_.used_args.insert(item.name);
        scope_.globals[item.name] = given->second;
      } else if (item.value) {
        FB_TRY_ASSIGN(scope_.globals[item.name], expand_global(*item.value, instruction.at));
      }
    }
  }
  return {};
}

Result<std::string> Planner::expand_global(std::string_view text, wire::SourcePosition at) {
  const auto lookup = [this](std::string_view name) -> std::optional<std::string> {
    const auto found = scope_.globals.find(name);
    return found == scope_.globals.end() ? std::nullopt : std::optional(found->second);
  };
  return scope_.expand(text, lookup, at);
}

Result<> Planner::resolve_bases() {
  draft_.resize(file_.stages.size());
  for (std::size_t i = 0; i < file_.stages.size(); ++i) {
    FB_TRY_ASSIGN(draft_[i].base, resolve_base(i));
    FB_TRY(read_triggers(i));
  }
  return {};
}

Result<FileSource> Planner::resolve_base(std::size_t index) {
  const wire::Stage& stage = file_.stages[index];
  FB_TRY_ASSIGN(const std::string base, expand_global(stage.base, stage.at));
  if (base.empty())
    return scope_.fail_at(
        stage.at, "FROM " + stage.base + ": nothing is left once its variables are replaced",
        Repair{"give "
               "the ARG a default before the first FROM"});
  FB_TRY_ASSIGN(const std::string platform, expand_global(stage.platform, stage.at));
  if (!platform.empty() && platform != kPlatform && platform != "linux/x86_64")
    return scope_.fail_at(stage.at,
                          "--platform=" + platform + ": only linux/amd64 can be built here",
                          Repair{"remove the flag"});
  for (std::size_t i = index; i-- > 0;)
    if (!file_.stages[i].name.empty() && file_.stages[i].name == lower(base))
      return FileSource{.kind = FileSource::Kind::stage, .stage = i, .image = {}};
  if (base == "scratch") return FileSource{};
  return FileSource{.kind = FileSource::Kind::image, .stage = 0, .image = base};
}

// What the base wants done in every build that stands on it. A stage's triggers are in the file.
Result<> Planner::read_triggers(std::size_t index) {
  Draft& draft = draft_[index];
  const wire::SourcePosition at = file_.stages[index].at;
  std::vector<std::string> texts;
  if (draft.base.kind == FileSource::Kind::stage) {
    for (const wire::Instruction& instruction : file_.stages[draft.base.stage].instructions)
      if (const auto* onbuild = std::get_if<wire::OnbuildInstruction>(&instruction.body))
        texts.push_back(onbuild->trigger);
  } else if (draft.base.kind == FileSource::Kind::image) {
    if (const auto found = bases_.find(draft.base.image); found != bases_.end())
      texts = found->second.config.onbuild;
  }
  for (const std::string& text : texts) {
    auto trigger = wire::parse_trigger(text);
    if (!trigger) return scope_.fail_at(at, fail(trigger.error(), "a trigger of the base").error());
    draft.triggers.push_back(*std::move(trigger));
  }
  return {};
}

Result<std::size_t> Planner::find_target() const {
  const std::string& target = scope_.options.target;
  if (target.empty()) return file_.stages.size() - 1;
  for (std::size_t i = file_.stages.size(); i-- > 0;)
    if (file_.stages[i].name == lower(target)) return i;
  if (const auto number = parse_u64(target); number && *number < file_.stages.size())
    return static_cast<std::size_t>(*number);
  std::string names;
  for (const wire::Stage& stage : file_.stages)
    if (!stage.name.empty()) names += (names.empty() ? "" : ", ") + stage.name;
  return fail(Code::invalid,
              scope_.options.file_name + ": there is no stage '" + target.substr(0, 60) + "'",
              Repair{names.empty() ? "no stage has a name" : "there are " + names});
}

// Earlier stages only, so this ends.
Result<> Planner::need(std::size_t index) {
  Draft& draft = draft_[index];
  if (draft.needed) return {};
  draft.needed = true;
  if (draft.base.kind == FileSource::Kind::stage) FB_TRY(need(draft.base.stage));
  if (draft.base.kind == FileSource::Kind::image) find_image(draft.base.image);
  for (const wire::Instruction& trigger : draft.triggers)
    FB_TRY(need_sources(index, trigger, file_.stages[index].at));
  for (const wire::Instruction& instruction : file_.stages[index].instructions)
    FB_TRY(need_sources(index, instruction, instruction.at));
  return {};
}

Result<> Planner::need_sources(std::size_t index, const wire::Instruction& instruction,
                               wire::SourcePosition at) {
  std::vector<std::string> names;
  if (const auto* copy = std::get_if<wire::CopyInstruction>(&instruction.body))
    names.push_back(copy->from);
  if (const auto* run = std::get_if<wire::RunInstruction>(&instruction.body))
    for (const std::string& options : run->mounts) names.push_back(wire::mount_source(options));
  for (const std::string& name : names) {
    if (name.empty()) continue;
    FB_TRY_ASSIGN(const FileSource source, find_source(index, name, at));
    if (source.kind == FileSource::Kind::stage) FB_TRY(need(source.stage));
    if (source.kind == FileSource::Kind::image) find_image(source.image);
  }
  return {};
}

// A stage by name or number, or else an image. `stage` of the result is an index into the file.
Result<FileSource> Planner::find_source(std::size_t from_stage, const std::string& name,
                                        wire::SourcePosition at) const {
  for (std::size_t i = from_stage; i-- > 0;)
    if (!file_.stages[i].name.empty() && file_.stages[i].name == lower(name))
      return FileSource{.kind = FileSource::Kind::stage, .stage = i, .image = {}};
  if (const auto number = parse_u64(name)) {
    if (*number >= from_stage)
      return scope_.fail_at(at, "--from=" + name +
                                    ": the stages before this one have numbers up to " +
                                    (from_stage == 0 ? "none" : std::to_string(from_stage - 1)));
    return FileSource{.kind = FileSource::Kind::stage, .stage = *number, .image = {}};
  }
  for (std::size_t i = from_stage; i < file_.stages.size(); ++i)
    if (file_.stages[i].name == lower(name))
      return scope_.fail_at(at,
                            "--from=" + name + ": a stage can only take files from one before it");
  if (name == "scratch")
    return scope_.fail_at(at, "--from=scratch: there is nothing in it to take");
  return FileSource{.kind = FileSource::Kind::image, .stage = 0, .image = name};
}

const BaseImage* Planner::find_image(const std::string& name) {
  const auto found = bases_.find(name);
  if (found != bases_.end()) return &found->second;
  missing_.insert(name);
  return nullptr;
}

// The image as a source: a disk, or the stage that makes one of its layers.
FileSource Planner::laid_out(const std::string& name, wire::SourcePosition at) {
  const BaseImage* image = find_image(name);
  if (image == nullptr || !image->layers)
    return {.kind = FileSource::Kind::image, .stage = 0, .image = name};
  const auto [found, added] = laid_out_.try_emplace(name, plan_.stages.size());
  if (added) {
    PlannedStage stage{
        .name = name, .at = at, .text = "layers of " + name, .config = image->config};
    for (const OciLayer& layer : *image->layers)
      stage.steps.push_back({.at = at,
                             .text = "layer " + layer.diff_id,
                             .action = LayerStep{.image = name, .layer = layer}});
    plan_.stages.push_back(std::move(stage));
  }
  return {.kind = FileSource::Kind::stage, .stage = found->second, .image = {}};
}

Result<> Planner::plan_stage(std::size_t index) {
  Draft& draft = draft_[index];
  const wire::Stage& stage = file_.stages[index];
  ImageConfig config;
  ArgScope args;
  CaMark ca;
  FileSource base = draft.base;
  if (base.kind == FileSource::Kind::stage) {
    const Draft& below = draft_[base.stage];
    config = plan_.stages[below.planned].config;
    args = below.args;
    ca = plan_.stages[below.planned].ca;
    base.stage = below.planned;
  } else if (base.kind == FileSource::Kind::image) {
    if (const BaseImage* image = find_image(base.image)) {
      config = image->config;
      ca = image->ca;
      note_other_ca(base.image, ca);
    }
    base = laid_out(base.image, stage.at);
  }
  config.onbuild.clear();
  wire::SourcePosition at = stage.at;
  const auto sources = [&](const std::string& name) -> Result<FileSource> {
    FB_TRY_ASSIGN(FileSource source, find_source(index, name, at));
    if (source.kind == FileSource::Kind::stage) source.stage = draft_[source.stage].planned;
    if (source.kind == FileSource::Kind::image) source = laid_out(source.image, at);
    return source;
  };
  StagePlanner planner(scope_, std::move(config), std::move(args), ca, sources);
  for (const wire::Instruction& trigger : draft.triggers)
    FB_TRY(planner.add(trigger, stage.at, true));
  for (const wire::Instruction& instruction : stage.instructions) {
    at = instruction.at;
    FB_TRY(planner.add(instruction, instruction.at, false));
  }
  draft.args = planner.args();
  draft.planned = plan_.stages.size();
  plan_.stages.push_back(
      {.name = stage.name.empty() ? "stage-" + std::to_string(index) : stage.name,
       .at = stage.at,
       .text = stage.text,
       .base = std::move(base),
       .steps = planner.take_steps(),
       .config = planner.config(),
       .ca = std::move(ca)});
  return {};
}

void Planner::note_unused_args() {
  for (const auto& [name, value] : scope_.options.args) {
    const bool proxy = lower(name).ends_with("_proxy");
    if (!proxy && !scope_.used_args.contains(name) && missing_.empty())
      scope_.notes.push_back("the build argument " + name +
                             " is not used: no needed stage has 'ARG " + name + "'");
  }
}

void Planner::note_other_ca(const std::string& base, const CaMark& ca) {
  const std::string& present = scope_.options.guest_ca;
  if (ca.sha256.empty() || present.empty() || present == ca.sha256) return;
  scope_.notes.push_back(base + " has other certificates in it (sha256 " + ca.sha256 +
                         "), which stay; RUN trusts the present ones as well");
}

// A text made of texts, so that no two lists look alike.
class KeyText {
 public:
  KeyText& add(std::string_view text) {
    put_u64(text_, text.size());
    text_ += text;
    return *this;
  }
  KeyText& add(std::uint64_t number) {
    put_u64(text_, number);
    return *this;
  }
  KeyText& add(const std::vector<std::string>& texts) {
    add(texts.size());
    for (const std::string& text : texts) add(text);
    return *this;
  }
  KeyText& add(const FileSource& source) {
    return add(static_cast<std::uint64_t>(source.kind)).add(source.image);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

struct Inputs {
  std::string operator()(const RunStep& run) const {
    KeyText key;
    key.add("run").add(run.argv).add(run.script).add(run.user).add(run.workdir);
    key.add(run.env->size());
    for (const auto& [name, value] : *run.env) key.add(name).add(value);
    key.add(run.mounts.size());
    for (const auto& [mount, source] : run.mounts) {
      // A secret's value is no part of the key, nor is what a cache holds.
      key.add(static_cast<std::uint64_t>(mount.type)).add(source);
      key.add(mount.source).add(mount.target).add(mount.id).add(mount.env.value_or("-"));
      key.add(mount.read_only ? 1 : 0).add(mount.size);
      for (const auto& number : {mount.mode, mount.uid, mount.gid})
        key.add(number ? std::uint64_t{*number} + 1 : 0);
    }
    if (!run.guest_ca.empty()) key.add("guest ca").add(run.guest_ca);
    return key.take();
  }
  std::string operator()(const CopyStep& copy) const {
    KeyText key;
    key.add("copy").add(copy.from).add(copy.sources).add(copy.destination);
    key.add(copy.into_directory ? 1 : 0).add(copy.chown).add(copy.chmod).add(copy.excludes);
    key.add(copy.unpack ? 1 : 0).add(copy.link ? 1 : 0).add(copy.files.size());
    for (const InlineFile& file : copy.files) key.add(file.name).add(file.content);
    return key.take();
  }
  std::string operator()(const WorkdirStep& workdir) const {
    return KeyText().add("workdir").add(workdir.path).add(workdir.user).take();
  }
  // By what is in it, however it is packed: a layer is only made of a blob that holds just that.
  std::string operator()(const LayerStep& layer) const {
    return KeyText().add("oci layer").add(layer.layer.diff_id).take();
  }
  std::string operator()(const ConfigStep&) const { return {}; }
};

}  // namespace

Result<BuildPlan> plan_build(const wire::Dockerfile& file, const PlanOptions& options,
                             const BaseImages& bases) {
  return Planner(file, options, bases).run();
}

std::string step_inputs(const BuildStep& step) {
  return std::visit(Inputs(), step.action);
}

std::string layer_key(std::string_view parent, std::string_view inputs, std::string_view content) {
  return wire::sha256_hex(KeyText().add("layer 1").add(parent).add(inputs).add(content).take());
}

}  // namespace firebreak::image
