#include "image/builder.h"

#include <algorithm>
#include <chrono>

#include <sys/stat.h>

#include "wire/crypto.h"

namespace firebreak::image {
namespace {

using Clock = std::chrono::steady_clock;

// More would be slow to open, and is more than other builders take.
constexpr std::size_t kMaxLayers = 127;

std::uint64_t ms_since(Clock::time_point from) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - from).count());
}

std::string seconds_text(std::uint64_t ms) {
  return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
}

std::uint64_t allocated(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_blocks) * 512 : 0;
}

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() > 200 ? line.substr(0, 200) + "..." : line;
}

bool writes(const BuildStep& step) {
  return !std::holds_alternative<ConfigStep>(step.action);
}

bool is_layer(const BuildStep& step) {
  return std::holds_alternative<LayerStep>(step.action);
}

Error at_step(const Error& error, const BuildStep& step) {
  Error out = error;
  out.message =
      "line " + std::to_string(step.at.line) + ", " + first_line(step.text) + ": " + error.message;
  return out;
}

}  // namespace

net::Task<Result<BuiltDisk>> Builder::run(Deadline deadline) {
  auto built = co_await run_stages(deadline);
  // A failed stage's: what it fetched need not be fetched again.
  if (machine_) co_await keep_caches(*machine_, deadline);
  if (source_) co_await source_->end();
  if (machine_) co_await machine_->end();
  source_.reset();
  machine_.reset();
  co_return built;
}

net::Task<Result<BuiltDisk>> Builder::run_stages(Deadline deadline) {
  for (const std::string& note : order_.plan.notes) say("note: " + note);
  for (const PlannedStage& stage : order_.plan.stages)
    steps_ += 1 + static_cast<std::size_t>(std::ranges::count_if(stage.steps, writes));
  for (std::size_t i = 0; i < order_.plan.stages.size(); ++i) {
    FB_CO_TRY_ASSIGN(Stage stage, co_await run_stage(i, deadline));
    done_.push_back(std::move(stage));
  }
  co_return BuiltDisk{.disk = done_.back().disk,
                      .key = done_.back().key,
                      .config = order_.plan.stages.back().config,
                      .ca = order_.plan.stages.back().ca,
                      .steps = std::move(reports_)};
}

net::Task<Result<Builder::Stage>> Builder::run_stage(std::size_t index, Deadline deadline) {
  const PlannedStage& planned = order_.plan.stages[index];
  Stage stage;
  switch (planned.base.kind) {
    case FileSource::Kind::stage:
      stage = done_[planned.base.stage];
      break;
    case FileSource::Kind::image: {
      const FoundBase& base = order_.bases.at(planned.base.image);
      stage = {.disk = base.disk, .key = base.image.key};
      break;
    }
    case FileSource::Kind::nothing:
    case FileSource::Kind::context:
      stage = {.disk = {.base = order_.scratch, .layers = {}, .id = "scratch"}, .key = "scratch"};
      break;
  }
  say("[" + std::to_string(++step_) + "/" + std::to_string(steps_) + "] " +
      first_line(planned.text));
  reports_.push_back({.text = planned.text, .cached = true});
  for (const BuildStep& step : planned.steps) {
    if (!writes(step)) continue;
    if (auto done = co_await run_step(step, stage, deadline); !done)
      co_return std::unexpected(at_step(done.error(), step));
  }
  // What comes later may take files from it.
  if (machine_) {
    co_await keep_caches(*machine_, deadline);
    if (source_) co_await source_->end();
    source_ = std::move(machine_);
    source_unused_ = std::ranges::all_of(planned.steps, is_layer);
  }
  co_return stage;
}

net::Task<Result<>> Builder::run_step(const BuildStep& step, Stage& stage, Deadline deadline) {
  const auto began = Clock::now();
  say("[" + std::to_string(++step_) + "/" + std::to_string(steps_) + "] " + first_line(step.text));
  FB_CO_TRY_ASSIGN(StepInput input, co_await input_of(step, deadline));
  const std::string key = layer_key(stage.key, step_inputs(step), input.content);
  // A machine that runs has its own layers below: only it can go on.
  if (order_.use_cache && !machine_) {
    FB_CO_TRY_ASSIGN(auto found, cache_.find(order_.owner, key, stage.disk, hold_));
    if (found) {
      say("    cached");
      stage = {.disk = *std::move(found), .key = key};
      reports_.push_back({.text = step.text,
                          .cached = true,
                          .took_ms = ms_since(began),
                          .bytes = allocated(stage.disk.layers.back())});
      co_return Result<>();
    }
  }
  if (stage.disk.layers.size() >= kMaxLayers)
    co_return fail(Code::exhausted,
                   "an image has at most " + std::to_string(kMaxLayers) + " layers",
                   Repair{"put several commands into one RUN"});
  if (const auto* layer = std::get_if<LayerStep>(&step.action)) {
    FB_CO_TRY_ASSIGN(input.layer, co_await check(*layer, deadline));
  }
  FB_CO_TRY_ASSIGN(BuildMachine * machine, co_await machine_on(stage.disk, deadline));
  FB_CO_TRY(co_await std::visit(
      [&](const auto& action) { return act(*machine, action, input, deadline); }, step.action));
  FB_CO_TRY_ASSIGN(const DiskChain with, cache_.begin(order_.owner, stage.disk, hold_));
  FB_CO_TRY(co_await machine->cut(with, deadline));
  FB_CO_TRY(cache_.put(order_.owner, key, stage.disk, with));
  stage = {.disk = with, .key = key};
  const StepReport report{.text = step.text,
                          .cached = false,
                          .took_ms = ms_since(began),
                          .bytes = allocated(with.layers.back())};
  say("    " + seconds_text(report.took_ms) + ", " + std::to_string(report.bytes >> 10) + " KiB");
  reports_.push_back(report);
  co_return Result<>();
}

Result<std::string> Builder::key_of(const FileSource& source) const {
  switch (source.kind) {
    case FileSource::Kind::stage:
      return done_[source.stage].key;
    case FileSource::Kind::image:
      return order_.bases.at(source.image).image.key;
    case FileSource::Kind::nothing:
    case FileSource::Kind::context:
      break;
  }
  return std::string();
}

net::Task<Result<>> Builder::choose(CopyQuery query, StepInput& input, Deadline deadline) {
  const Clock::time_point began = Clock::now();
  const Deadline until = deadline.earlier(Deadline::in(choosing_left_));
  auto work = [&] { return select_sources(*order_.context, order_.ignore, query, until); };
  FB_CO_TRY_ASSIGN(CopySelection selection, co_await net::run_blocking(choosing_, work));
  choosing_left_ -= Clock::now() - began;
  input.content += selection.digest + "\n";
  input.selected.push_back(std::move(selection));
  co_return Result<>();
}

net::Task<Result<Builder::StepInput>> Builder::input_of(const BuildStep& step, Deadline deadline) {
  StepInput input;
  if (const auto* copy = std::get_if<CopyStep>(&step.action)) {
    if (copy->from.kind == FileSource::Kind::context) {
      CopyQuery query{
          .sources = copy->sources, .excludes = copy->excludes, .in_order = copy->unpack};
      FB_CO_TRY(co_await choose(std::move(query), input, deadline));
    } else {
      FB_CO_TRY_ASSIGN(input.content, key_of(copy->from));
    }
  } else if (const auto* run = std::get_if<RunStep>(&step.action)) {
    for (const RunMount& mount : run->mounts) {
      const bool bind = mount.mount.type == wire::Mount::Type::bind;
      if (bind && mount.source.kind == FileSource::Kind::context) {
        CopyQuery query{.sources = {mount.mount.source.empty() ? "." : mount.mount.source},
                        .excludes = {}};
        FB_CO_TRY(co_await choose(std::move(query), input, deadline));
        continue;
      }
      FB_CO_TRY_ASSIGN(const std::string key, key_of(mount.source));
      input.content += key + "\n";
      input.selected.emplace_back();
    }
  }
  co_return input;
}

// ------------------------------------------------------------------------------------- machines

std::string Builder::next_machine() {
  const std::size_t number = machines_++;
  return number == 0 ? order_.name : order_.name + "-" + std::to_string(number);
}

net::Task<Result<BuildMachine*>> Builder::machine_on(const DiskChain& disk, Deadline deadline) {
  if (machine_) co_return machine_.get();
  if (source_ && source_unused_ && source_->disk() == disk) {
    machine_ = std::move(source_);
    co_return machine_.get();
  }
  FB_CO_TRY_ASSIGN(machine_, co_await BuildMachine::start(engine_, order_.machine, next_machine(),
                                                          disk, deadline));
  co_return machine_.get();
}

net::Task<Result<BuildMachine*>> Builder::source_on(const FileSource& source, Deadline deadline) {
  const DiskChain& disk = source.kind == FileSource::Kind::stage
                              ? done_[source.stage].disk
                              : order_.bases.at(source.image).disk;
  if (source_ && source_->disk() == disk) co_return source_.get();
  if (source_) co_await source_->end();
  source_.reset();
  FB_CO_TRY_ASSIGN(source_, co_await BuildMachine::start(engine_, order_.machine, next_machine(),
                                                         disk, deadline));
  co_return source_.get();
}

// ----------------------------------------------------------------------------------- instructions

net::Task<Result<>> Builder::act(BuildMachine&, const ConfigStep&, const StepInput&, Deadline) {
  co_return Result<>();
}

net::Task<Result<>> Builder::act(BuildMachine& machine, const WorkdirStep& workdir,
                                 const StepInput&, Deadline deadline) {
  co_return co_await machine.make_directory(workdir.path, workdir.user, deadline);
}

net::Task<Result<>> Builder::act(BuildMachine& machine, const CopyStep& copy,
                                 const StepInput& input, Deadline deadline) {
  ModeAndTime as{.mode = std::nullopt, .mtime_ns = order_.mtime_ns};
  if (!copy.chmod.empty()) {
    FB_CO_TRY_ASSIGN(as.mode, FileMode::parse(copy.chmod));
  }
  if (copy.from.kind != FileSource::Kind::context)
    co_return co_await copy_from_guest(machine, copy, as, deadline);
  if (!copy.files.empty()) {
    const bool alone = copy.files.size() == 1 && input.selected.front().items.empty();
    FB_CO_TRY_ASSIGN(const auto target, co_await machine.target_of(copy, alone, deadline));
    FB_CO_TRY(co_await copy_inline(machine.agent(), copy.files, target.place, target.rename, as,
                                   deadline));
  }
  if (copy.sources.empty()) co_return Result<>();
  co_return co_await copy_from_context(machine, copy, input.selected.front(), as, deadline);
}

net::Task<Result<>> Builder::copy_from_context(BuildMachine& machine, const CopyStep& copy,
                                               const CopySelection& selection, ModeAndTime as,
                                               Deadline deadline) {
  const bool alone =
      selection.items.size() == 1 && selection.items.front().named && copy.files.empty();
  CopySelection plain;  // files up to the next archive
  for (const CopyItem& item : selection.items) {
    const ContextEntry* entry = order_.context->find(item.path);
    if (copy.unpack && item.named && entry != nullptr && entry->type == ContextEntry::Type::file) {
      FB_CO_TRY_ASSIGN(const bool archive,
                       co_await is_archive(machine.agent(), *order_.context, *entry, deadline));
      if (archive) {
        if (!plain.items.empty())
          FB_CO_TRY(
              co_await copy_files(machine, copy, std::exchange(plain, {}), alone, as, deadline));
        FB_CO_TRY(co_await unpack_archive(
            machine.agent(), *order_.context, *entry,
            {.directory = copy.destination, .staging = {}, .user = copy.chown}, deadline));
        continue;
      }
    }
    plain.items.push_back(item);
  }
  if (plain.items.empty() && !selection.items.empty()) co_return Result<>();
  co_return co_await copy_files(machine, copy, std::move(plain), alone, std::move(as), deadline);
}

net::Task<Result<>> Builder::copy_files(BuildMachine& machine, const CopyStep& copy,
                                        CopySelection files, bool alone, ModeAndTime as,
                                        Deadline deadline) {
  FB_CO_TRY_ASSIGN(const auto target, co_await machine.target_of(copy, alone, deadline));
  co_return co_await copy_context(machine.agent(), *order_.context, files, target.place,
                                  target.rename, std::move(as), deadline);
}

net::Task<Result<>> Builder::copy_from_guest(BuildMachine& machine, const CopyStep& copy,
                                             ModeAndTime as, Deadline deadline) {
  FB_CO_TRY_ASSIGN(BuildMachine * source, co_await source_on(copy.from, deadline));
  FB_CO_TRY_ASSIGN(const auto sources,
                   co_await find_guest_sources(source->agent(), copy.sources, deadline));
  const bool alone = sources.size() == 1 && !sources.front().directory;
  FB_CO_TRY_ASSIGN(const auto target, co_await machine.target_of(copy, alone, deadline));
  for (const GuestSource& from : sources) {
    FB_CO_TRY(co_await copy_guest(source->agent(), from, machine.agent(), target.place,
                                  target.rename, as.mode, copy.excludes, deadline));
  }
  co_return Result<>();
}

net::Task<Result<>> Builder::act(BuildMachine& machine, const RunStep& run, const StepInput& input,
                                 Deadline deadline) {
  machine::ExecSpec spec{.argv = run.argv, .cwd = run.workdir, .user = run.user};
  std::vector<BuildMachine::StepMount> mounts;
  FB_CO_TRY(co_await trust(machine, run, spec, mounts, deadline));
  for (const auto& [name, value] : order_.run_env) spec.env[name] = value;
  for (const auto& [name, value] : *run.proxies) spec.env[name] = value;
  for (const auto& [name, value] : *run.env) spec.env[name] = value;
  if (!run.script.empty()) {
    // In memory, where nothing of it can stay on the disk.
    constexpr const char* kScript = "/dev/firebreak-step";
    FB_CO_TRY(co_await machine.stage("script", 0, deadline));
    FB_CO_TRY_ASSIGN(const FileMode executable, FileMode::parse("0755"));
    FB_CO_TRY(co_await copy_inline(machine.agent(), {{.name = "run", .content = run.script}},
                                   {.directory = ".", .staging = "script", .user = {}}, "",
                                   {.mode = executable}, deadline));
    mounts.push_back(
        {.tree = {.staging = "script", .path = "run"}, .target = kScript, .readonly = true});
    spec.argv = {kScript};
  }
  for (std::size_t i = 0; i < run.mounts.size(); ++i) {
    const CopySelection* selected = input.selected[i].items.empty() ? nullptr : &input.selected[i];
    FB_CO_TRY(co_await prepare_mount(machine, run.mounts[i], selected, i, spec, mounts, deadline));
  }
  spec.timeout_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(
      1,
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline.at() - Deadline::Clock::now())
          .count()));
  co_return co_await machine.run(std::move(spec), std::move(mounts), order_.log, deadline);
}

}  // namespace firebreak::image
