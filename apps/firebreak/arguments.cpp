#include "arguments.h"

#include <charconv>

namespace firebreak::cli {
namespace {

template <class T>
bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && !text.empty();
}

template <class T, class Target>
std::function<bool(const std::string&)> number_setter(Target& target) {
  return [&target](const std::string& text) {
    T value{};
    if (!read_number(text, value)) return false;
    target = value;
    return true;
  };
}

bool set_boolean(bool& target, const std::string& text) {
  target = text == "true" || text == "1" || text == "yes" || text == "on";
  return target || text == "false" || text == "0" || text == "no" || text == "off";
}

constexpr const char* kWhole = "a whole number";

}  // namespace

Binding::Binding(std::string& target)
    : set([&target](const std::string& text) {
        target = text;
        return true;
      }),
      default_text(target) {}

Binding::Binding(std::optional<std::string>& target)
    : set([&target](const std::string& text) {
        target = text;
        return true;
      }) {}

Binding::Binding(std::vector<std::string>& target)
    : set([&target](const std::string& text) {
        target.push_back(text);
        return true;
      }),
      repeats(true) {}

Binding::Binding(bool& target)
    : set([&target](const std::string& text) { return set_boolean(target, text); }),
      type("true or false"),
      default_text(target ? "true" : "false") {}

Binding::Binding(std::uint32_t& target)
    : set(number_setter<std::uint32_t>(target)),
      type(kWhole),
      default_text(std::to_string(target)) {}

Binding::Binding(std::uint64_t& target)
    : set(number_setter<std::uint64_t>(target)),
      type(kWhole),
      default_text(std::to_string(target)) {}

Binding::Binding(std::optional<std::uint64_t>& target)
    : set(number_setter<std::uint64_t>(target)), type(kWhole) {}

Binding::Binding(std::optional<double>& target)
    : set(number_setter<double>(target)), type("a number") {}

Option& Option::range(double low, double high, std::string repair) {
  least = low;
  most = high;
  range_repair = std::move(repair);
  return *this;
}

Option& Option::one_of(std::vector<std::string> values) {
  choices = std::move(values);
  return *this;
}

Option& Option::pair() {
  is_pair = true;
  return *this;
}

Option& Option::required(std::string repair) {
  is_required = true;
  required_repair = std::move(repair);
  return *this;
}

Option& Option::needs(std::string other) {
  needed.push_back(std::move(other));
  return *this;
}

Option& Option::excludes(std::string other, std::string repair) {
  excluded.push_back({std::move(other), std::move(repair)});
  return *this;
}

Option& Option::environment(std::string name) {
  variable = std::move(name);
  return *this;
}

Option& Option::fallback(std::string text) {
  otherwise = std::move(text);
  return *this;
}

Option& Option::kind(ValueKind what) {
  value_kind = what;
  return *this;
}

Command& Command::add(std::string called, std::string does) {
  commands.push_back(std::make_unique<Command>(std::move(called), std::move(does)));
  commands.back()->parent = this;
  return *commands.back();
}

Option& Command::option(std::string_view names, Binding variable, std::string value_name,
                        std::string what) {
  Option& option = *options.emplace_back(std::make_unique<Option>(std::move(variable)));
  const auto comma = names.find(',');
  if (comma != std::string_view::npos) option.short_name = names.substr(0, comma);
  option.long_name = names.substr(comma == std::string_view::npos ? 0 : comma + 1);
  option.value_name = std::move(value_name);
  option.help = std::move(what);
  return option;
}

Option& Command::flag(std::string_view names, bool& target, std::string what) {
  return option(names, target, "", std::move(what));
}

Option& Command::word(std::string called, Binding variable, std::string what) {
  Option& word = *words.emplace_back(std::make_unique<Option>(std::move(variable)));
  word.value_name = std::move(called);
  word.help = std::move(what);
  return word;
}

Option& Command::rest(std::string called, std::vector<std::string>& target, std::string what) {
  Option& all = word(std::move(called), target, std::move(what)).kind(ValueKind::command);
  all.is_rest = true;
  return all;
}

Command& Command::group(std::string title) {
  heading = std::move(title);
  return *this;
}

Command& Command::usage(std::string what) {
  usage_words = std::move(what);
  return *this;
}

Command& Command::about(std::string paragraphs) {
  text = std::move(paragraphs);
  return *this;
}

Command& Command::example(std::string line, std::string says) {
  examples.push_back({std::move(line), std::move(says)});
  return *this;
}

Command& Command::also(std::vector<std::string> names) {
  other_names = std::move(names);
  return *this;
}

Command& Command::hide() {
  hidden = true;
  return *this;
}

Command& Command::check(std::function<Result<>()> rule) {
  rules.push_back(std::move(rule));
  return *this;
}

Command& Command::run(std::function<int()> what) {
  body = std::move(what);
  return *this;
}

std::string Command::path() const {
  return parent == nullptr ? name : parent->path() + " " + name;
}

Command* Command::find(std::string_view called) const {
  for (const auto& command : commands) {
    if (command->name == called) return command.get();
  }
  return nullptr;
}

Option* Command::find_option(std::string_view called) const {
  for (const auto& option : options) {
    if (!called.empty() && (option->long_name == called || option->short_name == called))
      return option.get();
  }
  for (const auto& word : words) {
    if (word->value_name == called) return word.get();
  }
  const Command* root = parent;
  while (root != nullptr && root->parent != nullptr) root = root->parent;
  return root == nullptr ? nullptr : root->find_option(called);
}

}  // namespace firebreak::cli
