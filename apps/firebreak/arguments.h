// The description of the command line: commands, their options and their words, bound to variables.
// The parser, the help, the suggestions for misspelt words and the completion of shells all read
// the same description. Built and owned by main; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::cli {

// What a value names, so that a shell can complete it.
enum class ValueKind { text, file, directory, microvm, image, policy, role, context, command };

// The variable that takes an option's value. It must outlive the parsing.
struct Binding {
  // They convert on purpose: a variable is written where a binding is asked for.
  Binding(std::string& target);
  Binding(std::optional<std::string>& target);
  Binding(std::vector<std::string>& target);
  Binding(bool& target);
  Binding(std::uint32_t& target);
  Binding(std::uint64_t& target);
  Binding(std::optional<std::uint64_t>& target);
  Binding(std::optional<double>& target);

  std::function<bool(const std::string&)> set;  // false: this is no such value
  std::string type = "text";                    // what the value must be, for messages
  std::string default_text;                     // what the variable held before
  bool repeats = false;
};

// An option, a flag, or a word that stands in its place. Setters first, then what they set.
struct Option {
  explicit Option(Binding variable) : binding(std::move(variable)) {}

  // Numbers from `low` to `high`, both included. `repair`: what to do instead of a value outside.
  Option& range(double low, double high, std::string repair = "");
  Option& one_of(std::vector<std::string> values);
  Option& pair();                             // NAME=VALUE, the name not empty
  Option& required(std::string repair = "");  // `repair`: said in place of the usage
  Option& needs(std::string other);           // refused without that one
  Option& excludes(std::string other, std::string repair = "");  // refused together with it
  Option& environment(std::string name);  // the variable that is used when it is not given
  Option& fallback(std::string text);     // what holds when it is not given, in words
  Option& kind(ValueKind what);

  // "--env", or the name of a word.
  const std::string& name() const { return long_name.empty() ? value_name : long_name; }
  bool is_flag() const { return value_name.empty(); }

  struct Rule {
    std::string other;
    std::string repair;
  };
  Binding binding;
  std::string short_name;  // "-e", or nothing
  std::string long_name;   // "--env"; nothing for a word
  std::string value_name;  // nothing for a flag
  std::string help;
  std::optional<double> least;
  std::optional<double> most;
  std::string range_repair;
  std::vector<std::string> choices;
  std::vector<std::string> needed;
  std::vector<Rule> excluded;
  std::string variable;
  bool names_variable = true;  // in the help
  std::string otherwise;
  std::string required_repair;
  ValueKind value_kind = ValueKind::text;
  bool is_required = false;
  bool is_pair = false;
  bool is_rest = false;  // of words: takes everything from here on, whatever it looks like
  bool given = false;    // after the parsing: it was, or its environment variable is set
  bool from_environment = false;
};

struct Command {
  Command(std::string called, std::string does) : name(std::move(called)), help(std::move(does)) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& add(std::string called, std::string does);
  // `names` is "--long" or "-s,--long".
  Option& option(std::string_view names, Binding variable, std::string value_name,
                 std::string what);
  Option& flag(std::string_view names, bool& target, std::string what);
  Option& word(std::string called, Binding variable, std::string what);
  // The command that runs elsewhere: all words from here on, also those that begin with a dash.
  Option& rest(std::string called, std::vector<std::string>& target, std::string what);

  Command& group(std::string title);       // under which the parent's help lists it
  Command& usage(std::string words);       // what follows [OPTIONS], if it is not the words' names
  Command& about(std::string paragraphs);  // paragraphs of its help
  Command& example(std::string line, std::string says);
  Command& also(std::vector<std::string> names);   // what others call it; only suggested
  Command& hide();                                 // from help and completion
  Command& check(std::function<Result<>()> rule);  // of its options together, after parsing
  Command& run(std::function<int()> what);

  std::string path() const;  // "firebreak image ls"
  Command* find(std::string_view called) const;
  // Its own, or one of the program's; nullptr when there is none.
  Option* find_option(std::string_view called) const;

  struct Example {
    std::string line;
    std::string says;
  };
  std::string name;
  std::string help;
  std::string heading;
  std::string usage_words;
  std::string text;
  std::vector<Example> examples;
  std::vector<std::string> other_names;
  Command* parent = nullptr;
  std::vector<std::unique_ptr<Command>> commands;
  std::vector<std::unique_ptr<Option>> options;
  std::vector<std::unique_ptr<Option>> words;
  std::vector<std::function<Result<>()>> rules;
  std::function<int()> body;
  bool hidden = false;
};

struct Parsed {
  Command* command = nullptr;  // the last one named
  bool help = false;           // its help was asked for, and nothing else was checked
};

// Checks the value and sets the option's variable, as the parser does.
Result<> set_option(Option& option, const std::string& value);

// Sets the bound variables. The error says what is wrong with the words and how to repair it.
Result<Parsed> parse_words(Command& root, const std::vector<std::string>& words);

std::string help_text(const Command& command);

// "did you mean 'x'?"; empty when no word is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

// What may stand in the place of the last word, which may be empty or begun.
struct Candidate {
  std::string text;
  std::string help;
};
struct Completion {
  std::vector<Candidate> words;
  ValueKind kind = ValueKind::text;  // whose names may stand there, too
  std::string prefix;                // in front of such a name, as in "--file="
};
Completion complete_words(Command& root, std::vector<std::string> words);

}  // namespace firebreak::cli
