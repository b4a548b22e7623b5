#include "image/stage_planner.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "image/file_mode.h"
#include "image/signal_name.h"
#include "wire/path_pattern.h"

namespace firebreak::image {
namespace {

constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// A process gets at most 128 KiB for one variable; with all of them this is generous.
constexpr std::size_t kMaxEnvironment = std::size_t{64} * 1024;
constexpr std::size_t kMaxArgument = std::size_t{128} * 1024 - 1;  // of a program, by the kernel
constexpr std::size_t kMaxConfig = std::size_t{256} * 1024;        // labels and volumes
constexpr std::size_t kMaxPorts = 20'000;
constexpr std::size_t kMaxNotes = 100;
constexpr std::array<std::string_view, 10> kProxyArgs{
    "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY",
    "ftp_proxy",  "NO_PROXY",   "no_proxy",    "ALL_PROXY",   "all_proxy"};

const std::vector<std::string> kDefaultShell{"/bin/sh", "-c"};

bool is_proxy_arg(std::string_view name) {
  return std::ranges::find(kProxyArgs, name) != kProxyArgs.end();
}

bool is_url(std::string_view source) {
  return source.starts_with("http://") || source.starts_with("https://") ||
         source.starts_with("git://") || source.starts_with("git@") ||
         source.starts_with("ssh://") || source.starts_with("ftp://");
}

struct PortRange {
  std::uint16_t first;
  std::uint16_t last;
};

std::optional<PortRange> parse_ports(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_u64(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_u64(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last > 65535 || *first > *last) return std::nullopt;
  return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

template <class List>
std::size_t bytes_of(const List& variables) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : variables) bytes += name.size() + value.size() + 2;
  return bytes;
}

}  // namespace

// ----------------------------------------------------------------------------------------------
// scope

std::unexpected<Error> PlanScope::fail_at(wire::SourcePosition at, std::string_view what,
                                          Code code) const {
  return fail_at(at, fail(code, std::string(what)).error());
}

std::unexpected<Error> PlanScope::fail_at(wire::SourcePosition at, std::string_view what,
                                          Repair repair) const {
  return fail_at(at, fail(Code::invalid, std::string(what), std::move(repair)).error());
}

std::unexpected<Error> PlanScope::fail_at(wire::SourcePosition at, Error error) const {
  return fail(std::move(error),
              options.file_name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column));
}

Result<> PlanScope::spend(std::size_t bytes, wire::SourcePosition at) {
  if (bytes > bytes_left)
    return fail_at(at, "the variables of this Dockerfile make too much text", Code::exhausted);
  bytes_left -= bytes;
  return {};
}

Result<std::string> PlanScope::expand(std::string_view text, const wire::VariableLookup& lookup,
                                      wire::SourcePosition at) {
  auto value = wire::expand(text, lookup, {.escape = escape});
  if (!value) return fail_at(at, value.error());
  FB_TRY(spend(value->size(), at));
  return value;
}

StagePlanner::StagePlanner(PlanScope& scope, ImageConfig config, ArgScope args, CaMark ca,
                           SourceLookup sources)
    : scope_(scope),
      config_(std::move(config)),
      args_(std::move(args)),
      ca_(std::move(ca)),
      sources_(std::move(sources)),
      ports_(config_.exposed_ports.begin(), config_.exposed_ports.end()),
      volumes_(config_.volumes.begin(), config_.volumes.end()) {
  for (std::size_t i = 0; i < config_.env.size(); ++i) env_index_[config_.env[i].first] = i;
  if (!env_index_.contains("PATH")) {
    env_index_["PATH"] = config_.env.size();
    config_.env.emplace_back("PATH", kDefaultPath);
  }
  variable_bytes_ = bytes_of(config_.env) + bytes_of(args_);
  config_bytes_ = bytes_of(config_.labels);
  for (const std::string& volume : config_.volumes) config_bytes_ += volume.size();
}

Result<> StagePlanner::add(const wire::Instruction& instruction, wire::SourcePosition at,
                           bool trigger) {
  at_ = at;
  FB_TRY_ASSIGN(Action action,
                std::visit([this](const auto& body) { return act(body); }, instruction.body));
  steps_.push_back({.at = at,
                    .text = (trigger ? "ONBUILD " : "") + instruction.text,
                    .trigger = trigger,
                    .action = std::move(action)});
  return {};
}

// ENV always hides an ARG of the same name.
std::optional<std::string> StagePlanner::lookup(std::string_view name) const {
  if (const auto found = env_index_.find(name); found != env_index_.end())
    return config_.env[found->second].second;
  const auto arg = args_.find(name);
  return arg == args_.end() ? std::nullopt : std::optional(arg->second);
}

Result<std::string> StagePlanner::expand(std::string_view text) {
  return scope_.expand(text, [this](std::string_view name) { return lookup(name); }, at_);
}

Result<> StagePlanner::grow(std::size_t& counter, std::size_t more, std::size_t less,
                            std::size_t limit, std::string_view what) const {
  counter = counter + more - less;
  if (counter <= limit) return {};
  return scope_.fail_at(at_,
                        std::string(what) + " hold more than " + std::to_string(limit) + " bytes",
                        Code::exhausted);
}

Result<> StagePlanner::set_env(const std::string& name, std::string value) {
  if (name.empty() || name.contains('='))
    return bad("'" + name.substr(0, 40) + "' cannot be the name of a variable");
  environment_.reset();
  const auto [index, added] = env_index_.try_emplace(name, config_.env.size());
  if (added) config_.env.emplace_back(name, "");
  std::string& slot = config_.env[index->second].second;
  FB_TRY(grow(variable_bytes_, value.size() + (added ? name.size() + 2 : 0), slot.size(),
              kMaxEnvironment, "ENV and ARG together"));
  slot = std::move(value);
  return {};
}

Result<> StagePlanner::set_arg(const std::string& name, std::string value) {
  environment_.reset();
  const auto [slot, added] = args_.try_emplace(name);
  FB_TRY(grow(variable_bytes_, value.size() + (added ? name.size() + 2 : 0), slot->second.size(),
              kMaxEnvironment, "ENV and ARG together"));
  slot->second = std::move(value);
  return {};
}

std::shared_ptr<const EnvList> StagePlanner::environment() {
  if (environment_) return environment_;
  EnvList env = config_.env;
  for (const auto& [name, value] : args_)
    if (!env_index_.contains(name)) env.emplace_back(name, value);
  environment_ = std::make_shared<const EnvList>(std::move(env));
  return environment_;
}

std::shared_ptr<const EnvList> StagePlanner::proxies() const {
  EnvList env;
  for (const auto& [name, value] : scope_.options.args)
    if (is_proxy_arg(name) && !lookup(name)) env.emplace_back(name, value);
  return std::make_shared<const EnvList>(std::move(env));
}

RunStep::Trust StagePlanner::trust() const {
  const std::string& present = scope_.options.guest_ca;
  if (!present.empty() && present != ca_.sha256) return RunStep::Trust::lent;
  return ca_.sha256.empty() ? RunStep::Trust::own : RunStep::Trust::in_image;
}

Result<std::vector<std::string>> StagePlanner::with_shell(const wire::CommandLine& command) const {
  std::vector<std::string> argv;
  if (!command.exec) argv = config_.shell.empty() ? kDefaultShell : config_.shell;
  argv.insert(argv.end(), command.words.begin(), command.words.end());
  for (const std::string& word : argv)
    if (word.size() > kMaxArgument)
      return bad("the command is longer than the " + std::to_string(kMaxArgument) +
                     " bytes that a program can be given",
                 Repair{"put it into a file"});
  return argv;
}

std::string StagePlanner::absolute(std::string_view path) const {
  if (path.starts_with('/')) return wire::clean_path(path);
  return wire::clean_path("/" + config_.workdir + "/" + std::string(path));
}

// ----------------------------------------------------------------------------------------------
// variables

Result<StagePlanner::Action> StagePlanner::act(const wire::ArgInstruction& arg) {
  for (const auto& item : arg.items) {
    const auto given = scope_.options.args.find(item.name);
    const auto global = scope_.globals.find(item.name);
    std::optional<std::string> value;
    if (given != scope_.options.args.end()) {
      scope_.used_args.insert(item.name);
      value = given->second;
    } else if (item.value) {
      FB_TRY_ASSIGN(value, expand(*item.value));
    } else if (global != scope_.globals.end()) {
      value = global->second;
    }
    if (value) FB_TRY(set_arg(item.name, *std::move(value)));
  }
  return ConfigStep();
}

// All values of one instruction see the variables as they were before it.
Result<StagePlanner::Action> StagePlanner::act(const wire::EnvInstruction& env) {
  EnvList items;
  for (const auto& [name, value] : env.items) {
    FB_TRY_ASSIGN(std::string expanded_name, expand(name));
    FB_TRY_ASSIGN(std::string expanded_value, expand(value));
    items.emplace_back(std::move(expanded_name), std::move(expanded_value));
  }
  for (auto& [name, value] : items) FB_TRY(set_env(name, std::move(value)));
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::LabelInstruction& label) {
  for (const auto& [name, value] : label.items) {
    FB_TRY_ASSIGN(const std::string expanded_name, expand(name));
    FB_TRY_ASSIGN(std::string expanded_value, expand(value));
    const auto [slot, added] = config_.labels.try_emplace(expanded_name);
    FB_TRY(grow(config_bytes_, expanded_value.size() + (added ? expanded_name.size() : 0),
                slot->second.size(), kMaxConfig, "labels and volumes"));
    slot->second = std::move(expanded_value);
  }
  return ConfigStep();
}

// ----------------------------------------------------------------------------------------------
// steps that change the disk

Result<StagePlanner::Action> StagePlanner::act(const wire::RunInstruction& run) {
  RunStep step{.env = environment(),
               .proxies = proxies(),
               .user = config_.user,
               .workdir = absolute("."),
               .trust = trust(),
               .guest_ca = scope_.options.guest_ca};
  for (const std::string& options : run.mounts) {
    FB_TRY_ASSIGN(RunMount planned, mount(options));
    step.mounts.push_back(std::move(planned));
  }
  wire::CommandLine command = run.command;
  if (run.heredoc_is_command) {
    std::string text = run.heredocs.front().text();
    if (text.starts_with("#!")) {
      step.script = std::move(text);
      return step;
    }
    command.words = {std::move(text)};
  } else {
    // The shell reads the documents itself, from the text as it was written.
    for (const wire::Heredoc& heredoc : run.heredocs)
      command.words.front() += "\n" + heredoc.content + heredoc.name;
  }
  FB_TRY_ASSIGN(step.argv, with_shell(command));
  return step;
}

Result<RunMount> StagePlanner::mount(const std::string& options) {
  const auto find = [this](std::string_view name) { return lookup(name); };
  auto parsed = wire::parse_mount(options, find, {.escape = scope_.escape});
  if (!parsed) return bad(parsed.error());
  RunMount planned{.mount = *std::move(parsed), .source = {}};
  wire::Mount& mount = planned.mount;
  FB_TRY(scope_.spend(mount.target.size() + mount.source.size() + mount.id.size(), at_));
  using Type = wire::Mount::Type;
  if (!mount.target.empty()) mount.target = absolute(mount.target);
  if (mount.target == "/") return bad("--mount: the target cannot be /");
  if (mount.type == Type::secret || mount.type == Type::tmpfs) return planned;
  mount.source = wire::clean_path("/" + mount.source).substr(1);
  if (!mount.from.empty()) {
    FB_TRY_ASSIGN(planned.source, sources_(mount.from));
  } else if (mount.type == Type::bind) {
    planned.source.kind = FileSource::Kind::context;
  }
  return planned;
}

Result<> StagePlanner::check_copy(const wire::CopyInstruction& copy, const CopyStep& step) const {
  for (const std::string& source : step.sources) {
    if (!is_url(source)) continue;
    if (!copy.add) return bad("COPY takes no URLs");
    return bad(
        "ADD of a URL is not supported: put the file into the context, or fetch it with RUN "
        "in the build's own network");
  }
  if (!copy.checksum.empty()) return bad("--checksum is for URLs, which are not supported");
  if (!step.chmod.empty())
    if (const auto mode = FileMode::parse(step.chmod); !mode) return bad(mode.error());
  return {};
}

Result<StagePlanner::Action> StagePlanner::act(const wire::CopyInstruction& copy) {
  CopyStep step{.excludes = copy.excludes,
                .unpack = copy.add && copy.unpack.value_or(true),
                .link = copy.link};
  step.from.kind = FileSource::Kind::context;
  if (!copy.from.empty()) {
    FB_TRY_ASSIGN(step.from, sources_(copy.from));
  }
  for (const std::string& source : copy.sources) {
    FB_TRY_ASSIGN(std::string path, expand(source));
    step.sources.push_back(std::move(path));
  }
  for (const wire::Heredoc& heredoc : copy.files) {
    InlineFile file{.name = heredoc.name, .content = heredoc.text()};
    if (heredoc.expand) {
      const auto find = [this](std::string_view name) { return lookup(name); };
      auto text =
          wire::expand(file.content, find, {.quotes = false, .max_bytes = std::size_t{2} << 20});
      if (!text) return bad(fail(text.error(), "in here-document " + heredoc.name).error());
      file.content = *std::move(text);
    }
    FB_TRY(scope_.spend(file.content.size(), at_));
    step.files.push_back(std::move(file));
  }
  FB_TRY_ASSIGN(step.chown, expand(copy.chown));
  FB_TRY_ASSIGN(step.chmod, expand(copy.chmod));
  FB_TRY_ASSIGN(const std::string destination, expand(copy.destination));
  step.destination = absolute(destination);
  const std::string_view last = std::string_view(destination).substr(destination.rfind('/') + 1);
  step.into_directory =
      last.empty() || last == "." || last == ".." || step.sources.size() + step.files.size() > 1;
  FB_TRY(check_copy(copy, step));
  return step;
}

Result<StagePlanner::Action> StagePlanner::act(const wire::WorkdirInstruction& workdir) {
  FB_TRY_ASSIGN(const std::string path, expand(workdir.path));
  if (path.empty()) return bad("WORKDIR is empty once its variables are replaced");
  config_.workdir = absolute(path);
  return WorkdirStep{.path = config_.workdir, .user = config_.user};
}

// ----------------------------------------------------------------------------------------------
// configuration

Result<StagePlanner::Action> StagePlanner::act(const wire::UserInstruction& user) {
  FB_TRY_ASSIGN(config_.user, expand(user.user));
  if (config_.user.empty()) return bad("USER is empty once its variables are replaced");
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::ExposeInstruction& exposed) {
  const auto find = [this](std::string_view name) { return lookup(name); };
  for (const std::string& text : exposed.ports) {
    const auto words = wire::expand_words(text, find, {.escape = scope_.escape});
    if (!words) return bad(words.error());
    for (const std::string& word : *words) FB_TRY(expose(word));
  }
  return ConfigStep();
}

// [[ADDRESS:]HOST:]PORT[-PORT][/PROTOCOL]
Result<> StagePlanner::expose(const std::string& word) {
  FB_TRY(scope_.spend(word.size(), at_));
  const std::string port = word.substr(word.rfind(':') + 1);
  if (port.size() != word.size() && scope_.notes.size() < kMaxNotes)
    scope_.notes.push_back("EXPOSE " + word.substr(0, 60) + ": only the port of the image counts");
  const auto slash = port.find('/');
  std::string protocol = slash == std::string::npos ? "tcp" : port.substr(slash + 1);
  for (char& c : protocol)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto range = parse_ports(std::string_view(port).substr(0, slash));
  if (!range || (protocol != "tcp" && protocol != "udp" && protocol != "sctp"))
    return bad("'" + word.substr(0, 40) + "' is not a port",
               Repair{"write 8080, 8080/udp or 8000-8010"});
  for (unsigned number = range->first; number <= range->last; ++number) {
    std::string name = std::to_string(number) + "/" + protocol;
    FB_TRY(scope_.spend(name.size(), at_));
    if (!ports_.insert(name).second) continue;
    if (ports_.size() > kMaxPorts)
      return scope_.fail_at(at_, "more than " + std::to_string(kMaxPorts) + " ports",
                            Code::exhausted);
    config_.exposed_ports.push_back(std::move(name));
  }
  return {};
}

Result<StagePlanner::Action> StagePlanner::act(const wire::CmdInstruction& cmd) {
  FB_TRY_ASSIGN(config_.cmd, with_shell(cmd.command));
  cmd_set_ = true;
  return ConfigStep();
}

// A CMD of the base was meant for the base's entry point.
Result<StagePlanner::Action> StagePlanner::act(const wire::EntrypointInstruction& entrypoint) {
  FB_TRY_ASSIGN(config_.entrypoint, with_shell(entrypoint.command));
  if (!cmd_set_) config_.cmd.clear();
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::ShellInstruction& shell) {
  config_.shell = shell.shell;
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::StopSignalInstruction& signal) {
  FB_TRY_ASSIGN(config_.stop_signal, expand(signal.signal));
  if (!signal_number(config_.stop_signal))
    return bad("'" + config_.stop_signal.substr(0, 40) + "' is not a signal",
               Repair{"write SIGTERM or 15"});
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::HealthcheckInstruction& check) {
  Healthcheck health{.interval = check.interval,
                     .timeout = check.timeout,
                     .start_period = check.start_period,
                     .start_interval = check.start_interval,
                     .retries = check.retries};
  health.test = {check.none ? "NONE" : check.command.exec ? "CMD" : "CMD-SHELL"};
  health.test.insert(health.test.end(), check.command.words.begin(), check.command.words.end());
  config_.healthcheck = std::move(health);
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::VolumeInstruction& volume) {
  for (const std::string& text : volume.paths) {
    FB_TRY_ASSIGN(std::string path, expand(text));
    if (path.empty()) return bad("a VOLUME is empty once its variables are replaced");
    if (!volumes_.insert(path).second) continue;
    FB_TRY(grow(config_bytes_, path.size(), 0, kMaxConfig, "labels and volumes"));
    config_.volumes.push_back(std::move(path));
  }
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::OnbuildInstruction& onbuild) {
  config_.onbuild.push_back(onbuild.trigger);
  return ConfigStep();
}

Result<StagePlanner::Action> StagePlanner::act(const wire::MaintainerInstruction& maintainer) {
  config_.author = maintainer.name;
  return ConfigStep();
}

}  // namespace firebreak::image
