// Help of a command, and the word that a misspelt one was meant to be.
#include <algorithm>

#include <fmt/format.h>

#include "arguments.h"
#include "base/text.h"
#include "base/words.h"

namespace firebreak::cli {
namespace {

constexpr std::size_t kWidth = 90;
constexpr std::size_t kIndent = 30;  // of the texts beside options

// Words of `text` in lines of at most `width`, the second and later ones indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t used = indent;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (used > indent && used + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

std::string row(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  out += out.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ')
                                  : std::string(kIndent - out.size(), ' ');
  return out + wrapped(text, kIndent) + "\n";
}

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string details(const Option& option) {
  std::string out = option.help;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (!option.choices.empty()) {
    std::string all;
    for (const std::string& choice : option.choices) all += (all.empty() ? "" : ", ") + choice;
    add("one of: " + all);
  }
  if (option.least) add(number(*option.least) + " to " + number(*option.most));
  if (option.binding.repeats && !option.long_name.empty()) add("may be repeated");
  if (!option.otherwise.empty())
    add("default: " + option.otherwise);
  else if (!option.is_flag() && !option.binding.default_text.empty())
    add("default: " + option.binding.default_text);
  if (!option.variable.empty() && option.names_variable) add("environment: " + option.variable);
  for (const std::string& other : option.needed) add("with " + other);
  return out;
}

std::string names_of(const Option& option) {
  std::string out = option.short_name.empty() ? "    " : option.short_name + ", ";
  out += option.long_name;
  if (!option.is_flag()) out += " " + option.value_name;
  return out;
}

std::string usage_of(const Command& command) {
  std::string out = command.path();
  if (!command.options.empty()) out += " [OPTIONS]";
  if (!command.usage_words.empty()) return out + " " + command.usage_words;
  for (const auto& word : command.words) {
    std::string one = word->value_name;
    if (word->binding.repeats) one += "...";
    if (word->is_rest) one = "-- " + one;
    out += word->is_required ? " " + one : " [" + one + "]";
  }
  return out;
}

std::string commands_of(const Command& command) {
  std::vector<std::string> headings;
  for (const auto& one : command.commands) {
    if (!one->hidden && std::ranges::find(headings, one->heading) == headings.end())
      headings.push_back(one->heading);
  }
  std::string out;
  for (const std::string& heading : headings) {
    out += "\n" + (heading.empty() ? "Commands" : heading) + ":\n";
    for (const auto& one : command.commands) {
      if (!one->hidden && one->heading == heading) out += row(one->name, one->help);
    }
  }
  return out;
}

}  // namespace

std::string help_text(const Command& command) {
  std::string out = command.help + ".\n\nUsage: ";
  out += command.commands.empty() || command.body ? usage_of(command)
                                                  : command.path() + " [OPTIONS] COMMAND";
  if (command.body && !command.commands.empty()) out += "\n       " + command.path() + " COMMAND";
  out += "\n";
  if (!command.text.empty()) out += "\n" + command.text + "\n";
  if (!command.words.empty()) out += "\nArguments:\n";
  for (const auto& word : command.words) out += row(word->value_name, details(*word));
  out += commands_of(command);
  out += "\nOptions:\n";
  for (const auto& option : command.options) out += row(names_of(*option), details(*option));
  out += row("-h, --help", "Print this help and exit");
  if (!command.examples.empty()) out += "\nExamples:\n";
  std::size_t widest = 0;
  for (const auto& example : command.examples) widest = std::max(widest, example.line.size());
  widest = std::min(widest, kWidth / 2);
  for (const auto& [line, says] : command.examples) {
    out += "  " + line;
    if (!says.empty())
      out += std::string(line.size() < widest ? widest - line.size() : 0, ' ') + "  # " + says;
    out += "\n";
  }
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view near = nearest_word(word, {known.begin(), known.end()});
  return near.empty() ? "" : "did you mean '" + std::string(near) + "'?";
}

}  // namespace firebreak::cli
