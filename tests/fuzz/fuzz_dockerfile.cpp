// A stranger's Dockerfile: parsed or refused with a place in it; what was parsed lies inside the
// file, its triggers are instructions, and every word can be expanded within its limit.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "wire/dockerfile.h"

namespace {

using namespace firebreak::wire;

std::optional<std::string> lookup(std::string_view name) {
  if (name.empty() || name[0] == 'U') return std::nullopt;
  return std::string(name) + "*?/\xc3\xa4\xff ";
}

void check_word(std::string_view word, char escape) {
  const ExpandRules rules{.escape = escape, .max_bytes = 4096};
  const auto value = expand(word, lookup, rules);
  if (value && value->size() > rules.max_bytes) std::abort();
  if (const auto words = expand_words(word, lookup, rules); words.has_value() != value.has_value())
    std::abort();
}

struct Checker {
  char escape;
  void operator()(const ArgInstruction& arg) const {
    if (arg.items.empty()) std::abort();
    for (const auto& item : arg.items)
      if (item.value) check_word(*item.value, escape);
  }
  void operator()(const EnvInstruction& env) const {
    for (const auto& [name, value] : env.items) {
      if (name.empty()) std::abort();
      check_word(value, escape);
    }
  }
  void operator()(const CopyInstruction& copy) const {
    if (copy.sources.empty() && copy.files.empty()) std::abort();
    for (const std::string& source : copy.sources) check_word(source, escape);
    check_word(copy.destination, escape);
  }
  void operator()(const RunInstruction& run) const {
    if (run.command.words.empty()) std::abort();
    for (const std::string& mount : run.mounts)
      (void)parse_mount(mount, lookup, {.escape = escape});
    for (const Heredoc& heredoc : run.heredocs)
      if (heredoc.text().size() > heredoc.content.size()) std::abort();
  }
  void operator()(const OnbuildInstruction& onbuild) const {
    // Another escape character may have made it an instruction where it is written.
    if (escape == '\\' && !parse_trigger(onbuild.trigger)) std::abort();
  }
  template <class Other>
  void operator()(const Other&) const {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = parse_dockerfile(text);
  (void)parse_trigger(text);
  check_word(text, '\\');
  if (!file) return 0;
  if (file->stages.empty()) std::abort();
  const auto lines = static_cast<std::uint32_t>(std::ranges::count(text, '\n') + 1);
  for (const DockerfileNote& note : file->notes)
    if (note.at.line == 0 || note.at.line > lines) std::abort();
  for (const Stage& stage : file->stages) {
    if (stage.base.empty() || stage.at.line > lines) std::abort();
    for (const Instruction& instruction : stage.instructions) {
      if (instruction.at.line == 0 || instruction.at.line > lines || instruction.text.empty())
        std::abort();
      std::visit(Checker{file->escape}, instruction.body);
    }
  }
  return 0;
}
