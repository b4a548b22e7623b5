#include "wire/dockerfile_instruction.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"

namespace firebreak::wire {
namespace {

const std::vector<std::string_view>& keywords() {
  static const std::vector<std::string_view> kKeywords{
      "ADD",    "ARG",   "CMD",         "COPY",  "ENTRYPOINT", "ENV",
      "EXPOSE", "FROM",  "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD",
      "RUN",    "SHELL", "STOPSIGNAL",  "USER",  "VOLUME",     "WORKDIR"};
  return kKeywords;
}

bool is_stage_name(std::string_view name) {
  if (name.empty() || name[0] < 'a' || name[0] > 'z') return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::unexpected<Error> InstructionParser::bad(std::size_t offset, std::string_view what,
                                              Repair repair) const {
  return lines_.fail_at(line_.position(offset), what, std::move(repair));
}

std::unexpected<Error> InstructionParser::bad(std::size_t offset, Error error) const {
  error.code = Code::invalid;
  return lines_.fail_at(line_.position(offset), std::move(error));
}

std::unexpected<Error> InstructionParser::unknown_instruction() const {
  Repair repair;
  if (const auto meant = nearest_word(split_.keyword, keywords()); !meant.empty())
    repair.text = "did you mean " + std::string(meant) + "?";
  return bad(0, "unknown instruction '" + split_.keyword.substr(0, 40) + "'", std::move(repair));
}

Result<InstructionParser::Parsed> InstructionParser::parse() {
  split_ = split_instruction(text_, 0, lines_.escape());
  if (std::ranges::find(keywords(), split_.keyword) == keywords().end())
    return unknown_instruction();
  if (split_.keyword == "FROM") return from();
  FB_TRY_ASSIGN(auto typed, body());
  return Instruction{.at = line_.position(0), .text = line_.text, .body = std::move(typed)};
}

Result<decltype(Instruction::body)> InstructionParser::body() {
  const std::string& keyword = split_.keyword;
  if (keyword == "RUN") return run();
  if (keyword == "COPY" || keyword == "ADD") return copy(keyword == "ADD");
  if (keyword == "HEALTHCHECK") return healthcheck();
  if (keyword == "ONBUILD") return onbuild();
  FB_TRY(read_flags({}));
  if (keyword == "ARG") return arg();
  if (keyword == "EXPOSE") return expose();
  if (keyword == "SHELL") return shell();
  if (keyword == "VOLUME") return volume();
  if (keyword == "ENV" || keyword == "LABEL") {
    FB_TRY_ASSIGN(auto items, pairs());
    if (keyword == "ENV") return EnvInstruction{.items = std::move(items)};
    return LabelInstruction{.items = std::move(items)};
  }
  if (keyword == "CMD" || keyword == "ENTRYPOINT") {
    FB_TRY_ASSIGN(CommandLine command, start_command());
    if (keyword == "CMD") return CmdInstruction{.command = std::move(command)};
    return EntrypointInstruction{.command = std::move(command)};
  }
  if (keyword == "MAINTAINER") {
    if (rest().empty()) return bad(0, "MAINTAINER needs a name");
    return MaintainerInstruction{.name = std::string(rest())};
  }
  if (keyword == "WORKDIR") {
    FB_TRY_ASSIGN(std::string path, single("a path"));
    return WorkdirInstruction{.path = std::move(path)};
  }
  if (keyword == "USER") {
    FB_TRY_ASSIGN(std::string user, single("a user"));
    return UserInstruction{.user = std::move(user)};
  }
  FB_TRY_ASSIGN(std::string signal, single("a signal"));
  return StopSignalInstruction{.signal = std::move(signal)};
}

// ----------------------------------------------------------------------------------------------
// parts

Result<> InstructionParser::read_flags(std::initializer_list<FlagRule> rules) {
  for (const Word& word : split_.flags) {
    const auto equals = word.text.find('=');
    const std::string name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto rule = std::ranges::find(rules, name, &FlagRule::name);
    if (rule == rules.end()) {
      std::vector<std::string_view> names;
      for (const FlagRule& known : rules) names.push_back(known.name);
      Repair repair;
      if (const auto meant = nearest_word(name, names); !meant.empty())
        repair.text = "did you mean --" + std::string(meant) + "?";
      return bad(word.at, split_.keyword + " has no flag --" + name.substr(0, 40),
                 std::move(repair));
    }
    const bool has_value = equals != std::string::npos;
    if (!has_value && rule->kind != FlagKind::boolean)
      return bad(word.at, "--" + name + " needs a value: --" + name + "=VALUE");
    Flag& flag = flags_[name];
    if (!flag.values.empty() && rule->kind != FlagKind::list)
      return bad(word.at, "--" + name + " is given twice");
    flag.values.push_back(has_value ? word.text.substr(equals + 1) : "true");
    flag.at = word.at;
  }
  return {};
}

std::string InstructionParser::flag(std::string_view name) const {
  const auto found = flags_.find(name);
  return found == flags_.end() ? std::string() : found->second.values.back();
}

Result<bool> InstructionParser::boolean_flag(std::string_view name) const {
  const std::string value = lowered(flag(name));
  if (!has_flag(name) || value == "false") return false;
  if (value == "true") return true;
  return bad(flags_.find(name)->second.at, "--" + std::string(name) + " is true or false");
}

Result<> InstructionParser::check_word(std::string_view word, std::size_t at) const {
  const auto checked = check_expansion(word, {.escape = lines_.escape()});
  if (!checked) return bad(at, checked.error());
  return {};
}

// JSON array, or words between blanks. Of JSON the offsets are those of the array.
Result<std::vector<Word>> InstructionParser::words_or_json(bool& json) {
  auto strings = json_strings(rest());
  if (!strings) return bad(split_.rest_at, strings.error());
  json = strings->has_value();
  if (!json) return split_blanks(text_, split_.rest_at);
  std::vector<Word> words;
  for (std::string& text : **strings)
    words.push_back({.text = std::move(text), .at = split_.rest_at});
  return words;
}

Result<CommandLine> InstructionParser::command_line(std::size_t from) {
  const std::string_view text = text_.substr(from);
  auto strings = json_strings(text);
  if (!strings) return bad(from, strings.error());
  if (*strings) return CommandLine{.exec = true, .words = **std::move(strings)};
  if (text.starts_with("[\"") || text.starts_with("['") || text.starts_with("[ \""))
    lines_.note(line_.position(from),
                "this is not valid JSON, so the shell gets it as it is; an "
                "array needs double quotes, commas and a ']'");
  return CommandLine{.exec = false, .words = {std::string(text)}};
}

Result<> InstructionParser::read_heredocs() {
  for (HeredocWord& word : find_heredocs(text_, split_.rest_at)) {
    FB_TRY(lines_.read_heredoc(word.heredoc, line_.position(word.at)));
    heredocs_.push_back(std::move(word.heredoc));
  }
  return {};
}

Result<std::string> InstructionParser::single(std::string_view what) {
  if (rest().empty()) return bad(0, split_.keyword + " needs " + std::string(what));
  FB_TRY(check_word(rest(), split_.rest_at));
  return std::string(rest());
}

// ----------------------------------------------------------------------------------------------
// instructions

Result<Stage> InstructionParser::from() {
  FB_TRY(read_flags({{.name = "platform", .kind = FlagKind::text}}));
  const std::vector<Word> words = split_blanks(text_, split_.rest_at);
  if (words.empty()) return bad(0, "FROM needs an image or the name of an earlier stage");
  Stage stage{.at = line_.position(0),
              .text = line_.text,
              .base = words[0].text,
              .platform = flag("platform"),
              .name = {},
              .instructions = {}};
  FB_TRY(check_word(stage.base, words[0].at));
  FB_TRY(check_word(stage.platform, split_.rest_at));
  if (words.size() == 1) return stage;
  if (words.size() != 3 || to_upper(words[1].text) != "AS")
    return bad(words[1].at, "after the image only 'AS NAME' may follow");
  stage.name = lowered(words[2].text);
  if (!is_stage_name(stage.name))
    return bad(words[2].at,
               "the name of a stage begins with a letter and has letters, digits, "
               "'-', '_' and '.' only");
  return stage;
}

Result<ArgInstruction> InstructionParser::arg() {
  ArgInstruction arg;
  for (const Word& word : split_quoted(text_, split_.rest_at, lines_.escape())) {
    const auto equals = word.text.find('=');
    ArgInstruction::Item item{.name = word.text.substr(0, equals), .value = std::nullopt};
    if (item.name.empty()) return bad(word.at, "an ARG without a name");
    if (equals != std::string::npos) {
      item.value = word.text.substr(equals + 1);
      FB_TRY(check_word(*item.value, word.at + equals + 1));
    }
    arg.items.push_back(std::move(item));
  }
  if (arg.items.empty()) return bad(0, "ARG needs a name, or NAME=DEFAULT");
  return arg;
}

// ENV and LABEL: NAME=VALUE ..., or the old form of one NAME and the rest of the line.
Result<std::vector<KeyValue>> InstructionParser::pairs() {
  const std::vector<Word> words = split_quoted(text_, split_.rest_at, lines_.escape());
  if (words.empty()) return bad(0, split_.keyword + " needs NAME=VALUE");
  std::vector<KeyValue> items;
  if (!words[0].text.contains('=')) {
    const std::size_t end = std::min(text_.find_first_of(kBlanks, words[0].at), text_.size());
    const std::size_t value = std::min(text_.find_first_not_of(kBlanks, end), text_.size());
    const std::string_view name = text_.substr(words[0].at, end - words[0].at);
    if (value == text_.size())
      return bad(words[0].at, split_.keyword + " needs a value: " + std::string(name) + "=VALUE");
    items.emplace_back(name, text_.substr(value));
    FB_TRY(check_word(items[0].first, words[0].at));
    FB_TRY(check_word(items[0].second, value));
    return items;
  }
  for (const Word& word : words) {
    const auto equals = word.text.find('=');
    if (equals == std::string::npos)
      return bad(word.at, "'=' is missing in '" + word.text.substr(0, 40) + "'",
                 Repair{"a value with blanks needs double quotes"});
    if (equals == 0) return bad(word.at, "a name is missing before '='");
    items.emplace_back(word.text.substr(0, equals), word.text.substr(equals + 1));
    FB_TRY(check_word(items.back().first, word.at));
    FB_TRY(check_word(items.back().second, word.at + equals + 1));
  }
  return items;
}

Result<CommandLine> InstructionParser::start_command() {
  if (rest().empty())
    return bad(0, split_.keyword + " needs a command", Repair{"an empty array, [], takes it away"});
  return command_line(split_.rest_at);
}

Result<ExposeInstruction> InstructionParser::expose() {
  ExposeInstruction expose;
  for (Word& word : split_blanks(text_, split_.rest_at)) {
    FB_TRY(check_word(word.text, word.at));
    expose.ports.push_back(std::move(word.text));
  }
  if (expose.ports.empty()) return bad(0, "EXPOSE needs a port");
  return expose;
}

Result<ShellInstruction> InstructionParser::shell() {
  auto strings = json_strings(rest());
  if (!strings) return bad(split_.rest_at, strings.error());
  if (!*strings || (*strings)->empty())
    return bad(split_.rest_at == text_.size() ? 0 : split_.rest_at,
               R"(SHELL needs a JSON array: ["/bin/bash", "-c"])");
  return ShellInstruction{.shell = **std::move(strings)};
}

Result<VolumeInstruction> InstructionParser::volume() {
  bool json = false;
  FB_TRY_ASSIGN(auto words, words_or_json(json));
  VolumeInstruction volume;
  for (Word& word : words) {
    if (trim(word.text).empty()) return bad(word.at, "the path of a VOLUME is empty");
    FB_TRY(check_word(word.text, word.at));
    volume.paths.emplace_back(trim(word.text));
  }
  if (volume.paths.empty()) return bad(0, "VOLUME needs a path");
  return volume;
}

Result<std::chrono::nanoseconds> InstructionParser::duration_flag(std::string_view name) const {
  if (!has_flag(name)) return std::chrono::nanoseconds(0);
  const auto duration = parse_duration(flag(name));
  if (!duration || (duration->count() != 0 && *duration < std::chrono::milliseconds(1)))
    return bad(flags_.find(name)->second.at,
               "--" + std::string(name) + " is a time of at least 1ms, such as 30s or 1m30s");
  return *duration;
}

Result<HealthcheckInstruction> InstructionParser::healthcheck() {
  const std::vector<Word> words = split_blanks(text_, split_.rest_at);
  if (words.empty()) return bad(0, "HEALTHCHECK needs CMD and a command, or NONE");
  HealthcheckInstruction check;
  const std::string kind = to_upper(words[0].text);
  if (kind == "NONE") {
    if (words.size() > 1) return bad(words[1].at, "nothing may follow HEALTHCHECK NONE");
    FB_TRY(read_flags({}));
    check.none = true;
    return check;
  }
  FB_TRY(read_flags({{.name = "interval", .kind = FlagKind::text},
                     {.name = "timeout", .kind = FlagKind::text},
                     {.name = "start-period", .kind = FlagKind::text},
                     {.name = "start-interval", .kind = FlagKind::text},
                     {.name = "retries", .kind = FlagKind::text}}));
  if (kind != "CMD") return bad(words[0].at, "HEALTHCHECK is followed by CMD or NONE");
  if (words.size() == 1) return bad(words[0].at, "HEALTHCHECK CMD needs a command");
  FB_TRY_ASSIGN(check.command, command_line(words[1].at));
  if (check.command.words.empty()) return bad(words[1].at, "HEALTHCHECK CMD needs a command");
  FB_TRY_ASSIGN(check.interval, duration_flag("interval"));
  FB_TRY_ASSIGN(check.timeout, duration_flag("timeout"));
  FB_TRY_ASSIGN(check.start_period, duration_flag("start-period"));
  FB_TRY_ASSIGN(check.start_interval, duration_flag("start-interval"));
  if (has_flag("retries")) {
    const auto retries = parse_u64(flag("retries"));
    if (!retries || *retries > 1'000'000)
      return bad(flags_.find("retries")->second.at, "--retries is a number, 0 or more");
    check.retries = static_cast<std::uint32_t>(*retries);
  }
  return check;
}

// The trigger is kept as text: it means what it means in the build that uses the image.
Result<OnbuildInstruction> InstructionParser::onbuild() {
  FB_TRY(read_flags({}));
  if (rest().empty()) return bad(0, "ONBUILD needs an instruction");
  const std::size_t begin = split_.rest_at;
  const std::string keyword = split_instruction(text_, begin, lines_.escape()).keyword;
  if (keyword == "ONBUILD" || keyword == "FROM" || keyword == "MAINTAINER")
    return bad(begin, keyword + " may not follow ONBUILD");
  LogicalLine inner{.text = std::string(rest()), .pieces = {}};
  for (const LogicalLine::Piece& piece : line_.pieces)
    if (piece.offset > begin)
      inner.pieces.push_back({.offset = piece.offset - begin, .at = piece.at});
  inner.pieces.insert(inner.pieces.begin(), {.offset = 0, .at = line_.position(begin)});
  InstructionParser parser(lines_, inner);
  FB_TRY(parser.parse());
  OnbuildInstruction onbuild{.trigger = inner.text};
  for (const Heredoc& heredoc : parser.heredocs_)
    onbuild.trigger += "\n" + heredoc.content + heredoc.name;
  return onbuild;
}

}  // namespace firebreak::wire
