// Words to variables, and what may follow the words that are there.
#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include <fmt/format.h>

#include "arguments.h"
#include "base/words.h"

namespace firebreak::cli {
namespace {

std::string list_of(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

std::unexpected<Error> wrong(std::string message, std::string repair) {
  return fail(Code::invalid, std::move(message), Repair{std::move(repair)});
}

std::string see_help(const Command& command) {
  return "see '" + command.path() + " --help'";
}

Result<> check_value(const Option& option, const std::string& value) {
  if (!option.choices.empty() && std::ranges::find(option.choices, value) == option.choices.end()) {
    return wrong(
        fmt::format("{} must be {}, not '{}'", option.name(), list_of(option.choices), value),
        did_you_mean(value, option.choices));
  }
  if (option.is_pair && !split_pair(value)) {
    const bool word = option.long_name.empty();
    return wrong(
        word ? fmt::format("'{}' is not {}", value, option.value_name)
             : fmt::format("{} must be {}, not '{}'", option.name(), option.value_name, value),
        "");
  }
  return {};
}

using Assign = std::function<Result<>(Option&, const std::string&)>;

// Where in the description the words have come to.
class Cursor {
 public:
  Cursor(Command& root, Assign assign)
      : root_(&root), command_(&root), assign_(std::move(assign)) {}

  Result<> take(const std::string& word);
  Result<> finish() const;

  Command& command() const { return *command_; }
  bool help() const { return help_; }
  Option* waiting() const { return waiting_; }  // the option whose value comes next
  bool only_words() const { return only_words_ || in_rest_; }
  bool may_name_command() const { return at_ == 0 && !only_words_; }
  // The word that comes next; nullptr after the last.
  Option* next_word() const {
    return at_ < command_->words.size() ? command_->words[at_].get() : nullptr;
  }

 private:
  Result<> take_long(const std::string& word);
  Result<> take_short(const std::string& word);
  Result<> take_word(const std::string& word);
  Result<> unknown_option(const std::string& name) const;
  Result<> unknown_command(const std::string& word) const;

  const Command* root_;
  Command* command_;
  Assign assign_;
  std::size_t at_ = 0;  // of the words of the command
  Option* waiting_ = nullptr;
  bool only_words_ = false;
  bool in_rest_ = false;
  bool help_ = false;
};

Result<> Cursor::take(const std::string& word) {
  if (waiting_ != nullptr) return assign_(*std::exchange(waiting_, nullptr), word);
  if (!only_words()) {
    if (word == "--") {
      only_words_ = true;
      return {};
    }
    if (word.starts_with("--")) return take_long(word);
    if (word.size() > 1 && word.front() == '-') return take_short(word);
    if (Command* found = at_ == 0 ? command_->find(word) : nullptr) {
      command_ = found;
      return {};
    }
    if (!command_->commands.empty() && command_->words.empty()) return unknown_command(word);
  }
  return take_word(word);
}

Result<> Cursor::take_word(const std::string& word) {
  Option* option = next_word();
  if (option == nullptr) {
    return wrong(fmt::format("'{}' is one word too many for '{}'", word, command_->path()),
                 see_help(*command_));
  }
  if (option->is_rest) in_rest_ = true;
  if (!option->binding.repeats) ++at_;
  return assign_(*option, word);
}

Result<> Cursor::take_long(const std::string& word) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  Option* option = command_->find_option(name);
  if (option == nullptr) {
    if (name == "--help") {
      help_ = true;
      return {};
    }
    return unknown_option(name);
  }
  if (option->is_flag()) {
    if (equals != std::string::npos) return wrong(name + " takes no value", "write it alone");
    return assign_(*option, "true");
  }
  if (equals != std::string::npos) return assign_(*option, word.substr(equals + 1));
  waiting_ = option;
  return {};
}

Result<> Cursor::take_short(const std::string& word) {
  for (std::size_t i = 1; i < word.size(); ++i) {
    const std::string name{'-', word[i]};
    Option* option = command_->find_option(name);
    if (option == nullptr) {
      if (name != "-h") return unknown_option(word.size() == 2 ? word : name);
      help_ = true;
    } else if (option->is_flag()) {
      FB_TRY(assign_(*option, "true"));
    } else if (i + 1 == word.size()) {
      waiting_ = option;
    } else {
      const bool equals = word[i + 1] == '=';
      return assign_(*option, word.substr(i + (equals ? 2 : 1)));
    }
  }
  return {};
}

Result<> Cursor::unknown_option(const std::string& name) const {
  std::vector<std::string> known{"--help"};
  for (const Command* command : std::initializer_list<const Command*>{command_, root_}) {
    for (const auto& option : command->options) known.push_back(option->long_name);
  }
  const std::string meant = did_you_mean(name, known);
  return wrong(fmt::format("unknown option '{}' of '{}'", name, command_->path()),
               meant.empty() ? see_help(*command_) : meant);
}

Result<> Cursor::unknown_command(const std::string& word) const {
  std::vector<std::string> known;
  std::string meant;
  for (const auto& command : command_->commands) {
    if (command->hidden) continue;
    known.push_back(command->name);
    if (std::ranges::find(command->other_names, word) != command->other_names.end())
      meant = command->name;
  }
  if (meant.empty()) meant = nearest_word(word, {known.begin(), known.end()});
  const std::string before = command_->parent == nullptr ? "" : command_->name + " ";
  return wrong(fmt::format("unknown command '{}{}'", before, word),
               !meant.empty()                ? "did you mean '" + before + meant + "'?"
               : command_->parent == nullptr ? "see 'firebreak help'"
                                             : see_help(*command_));
}

Result<> Cursor::finish() const {
  if (waiting_ == nullptr) return {};
  return wrong(waiting_->name() + " needs a value",
               "write " + waiting_->name() + " " + waiting_->value_name);
}

Result<> read_environment(Option& option) {
  if (option.given || option.variable.empty()) return {};
  const char* value = std::getenv(option.variable.c_str());
  if (value == nullptr || *value == '\0') return {};
  if (auto good = set_option(option, value); !good) return fail(good.error(), option.variable);
  option.from_environment = true;
  return {};
}

Result<> check_rules(const Command& command, const Option& option) {
  if (option.is_required && !option.given) {
    const std::string usage =
        option.required_repair.empty() ? see_help(command) : option.required_repair;
    return wrong(fmt::format("{} is missing after '{}'", option.name(), command.path()), usage);
  }
  if (!option.given) return {};
  for (const std::string& other : option.needed) {
    const Option* found = command.find_option(other);
    if (found == nullptr || !found->given)
      return wrong(fmt::format("{} means nothing without {}", option.name(), other),
                   "add " + other + ", or leave " + option.name() + " out");
  }
  for (const auto& [other, repair] : option.excluded) {
    const Option* found = command.find_option(other);
    if (found != nullptr && found->given && !found->from_environment)
      return wrong(fmt::format("{} and {} exclude each other", option.name(), other),
                   repair.empty() ? "leave one of them out" : repair);
  }
  return {};
}

Result<> check_command(Command& command) {
  for (const auto* list : {&command.options, &command.words}) {
    for (const auto& option : *list) FB_TRY(read_environment(*option));
  }
  // Words first: who left out the microVM is told so, not what an option needs.
  for (const auto* list : {&command.words, &command.options}) {
    for (const auto& option : *list) FB_TRY(check_rules(command, *option));
  }
  for (const auto& rule : command.rules) FB_TRY(rule());
  return {};
}

}  // namespace

Result<> set_option(Option& option, const std::string& value) {
  if (option.given && !option.binding.repeats && !option.is_flag())
    return wrong(option.name() + " was given twice", "give it once");
  FB_TRY(check_value(option, value));
  const std::string bounds =
      option.least ? fmt::format(" from {} to {}", *option.least, *option.most) : "";
  if (!option.binding.set(value)) {
    return wrong(
        fmt::format("{} must be {}{}, not '{}'", option.name(), option.binding.type, bounds, value),
        option.range_repair);
  }
  if (option.least) {
    const double number = std::strtod(value.c_str(), nullptr);
    if (!(number >= *option.least && number <= *option.most)) {
      return wrong(
          fmt::format("{} must be {}{}, not {}", option.name(), option.binding.type, bounds, value),
          option.range_repair);
    }
  }
  option.given = true;
  return {};
}

Result<Parsed> parse_words(Command& root, const std::vector<std::string>& words) {
  Cursor cursor(root, set_option);
  for (const std::string& word : words) {
    auto taken = cursor.take(word);
    if (cursor.help()) return Parsed{&cursor.command(), true};
    if (!taken) return std::unexpected(taken.error());
  }
  FB_TRY(cursor.finish());
  Command& command = cursor.command();
  if (command.parent != nullptr && !command.body) {
    std::vector<std::string> names;
    for (const auto& one : command.commands) {
      if (!one->hidden) names.push_back(one->name);
    }
    return wrong(fmt::format("'{}' needs a command: {}", command.path(), list_of(names)),
                 see_help(command));
  }
  if (&command != &root) FB_TRY(check_command(root));
  FB_TRY(check_command(command));
  return Parsed{&command, false};
}

Completion complete_words(Command& root, std::vector<std::string> words) {
  Completion found;
  const std::string begun = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  // Which server to ask is for real; nothing else is.
  Cursor cursor(root, [&root](Option& option, const std::string& value) {
    for (const auto& own : root.options) {
      if (own.get() != &option) continue;
      option.given = false;  // it may come from our own environment
      return set_option(option, value);
    }
    return Result<>();
  });
  for (const std::string& word : words) (void)cursor.take(word);
  const auto offer = [&](const std::string& text, const std::string& help) {
    if (text.starts_with(begun)) found.words.push_back({text, help});
  };
  const auto offer_values = [&](const Option& option, const std::string& prefix) {
    found.kind = option.value_kind;
    found.prefix = prefix;
    for (const std::string& choice : option.choices) offer(prefix + choice, "");
  };
  const Command& command = cursor.command();
  if (cursor.waiting() != nullptr) {
    offer_values(*cursor.waiting(), "");
    return found;
  }
  if (begun.starts_with('-') && !cursor.only_words()) {
    const auto equals = begun.find('=');
    if (equals != std::string::npos) {
      const Option* option = command.find_option(begun.substr(0, equals));
      if (option != nullptr) offer_values(*option, begun.substr(0, equals + 1));
      return found;
    }
    for (const auto& option : command.options) offer(option->long_name, option->help);
    offer("--help", "Print this command's help");
    return found;
  }
  if (cursor.may_name_command()) {
    for (const auto& one : command.commands) {
      if (!one->hidden) offer(one->name, one->help);
    }
  }
  if (const Option* word = cursor.next_word()) offer_values(*word, "");
  return found;
}

}  // namespace firebreak::cli
