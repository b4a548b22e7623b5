// One line of a Dockerfile, with its here-documents, as a typed instruction or a FROM. Used by
// dockerfile.cpp; single thread.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/dockerfile_lines.h"
#include "wire/dockerfile_words.h"

namespace firebreak::wire {

class InstructionParser {
 public:
  // Both outlive it. Here-documents are read from `lines`.
  InstructionParser(DockerfileLines& lines, const LogicalLine& line)
      : lines_(lines), line_(line), text_(line.text) {}

  using Parsed = std::variant<Stage, Instruction>;
  Result<Parsed> parse();

 private:
  enum class FlagKind { text, boolean, list };
  struct FlagRule {
    std::string_view name;
    FlagKind kind;
  };
  struct Flag {
    std::vector<std::string> values;
    std::size_t at = 0;
  };

  std::unexpected<Error> bad(std::size_t offset, std::string_view what, Repair repair = {}) const;
  std::unexpected<Error> bad(std::size_t offset, Error error) const;
  std::string_view rest() const { return text_.substr(split_.rest_at); }

  Result<> read_flags(std::initializer_list<FlagRule> rules);
  bool has_flag(std::string_view name) const { return flags_.contains(name); }
  std::string flag(std::string_view name) const;
  Result<bool> boolean_flag(std::string_view name) const;
  // What may hold variables must at least be well formed.
  Result<> check_word(std::string_view word, std::size_t at) const;
  Result<std::vector<Word>> words_or_json(bool& json);
  Result<CommandLine> command_line(std::size_t from);

  Result<Stage> from();
  Result<decltype(Instruction::body)> body();
  Result<ArgInstruction> arg();
  Result<std::vector<KeyValue>> pairs();
  Result<RunInstruction> run();
  Result<> refuse_run_flags() const;
  Result<CopyInstruction> copy(bool add);
  Result<> sources_and_destination(CopyInstruction& copy);
  Result<std::string> single(std::string_view what);
  Result<CommandLine> start_command();
  Result<ExposeInstruction> expose();
  Result<ShellInstruction> shell();
  Result<HealthcheckInstruction> healthcheck();
  Result<std::chrono::nanoseconds> duration_flag(std::string_view name) const;
  Result<VolumeInstruction> volume();
  Result<OnbuildInstruction> onbuild();
  Result<> read_heredocs();
  std::unexpected<Error> unknown_instruction() const;

  DockerfileLines& lines_;
  const LogicalLine& line_;
  std::string_view text_;
  InstructionLine split_;
  std::map<std::string, Flag, std::less<>> flags_;
  std::vector<Heredoc> heredocs_;
};

}  // namespace firebreak::wire
