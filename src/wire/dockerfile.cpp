#include "wire/dockerfile.h"

#include "wire/dockerfile_instruction.h"
#include "wire/dockerfile_lines.h"

namespace firebreak::wire {

std::string Heredoc::text() const {
  if (!strip_tabs) return content;
  std::string out;
  bool line_begins = true;
  for (const char c : content) {
    if (line_begins && c == '\t') continue;
    out.push_back(c);
    line_begins = c == '\n';
  }
  return out;
}

namespace {

Result<> check_text(std::string_view text, std::string_view name, const DockerfileLimits& limits) {
  const std::string prefix = std::string(name) + ": ";
  if (text.size() > limits.max_bytes)
    return fail(Code::exhausted, prefix + "larger than " + std::to_string(limits.max_bytes) +
                                     " bytes; this is hardly a Dockerfile");
  if (text.contains('\0'))
    return fail(Code::invalid, prefix + "holds a NUL byte; this is not a text file");
  return {};
}

Result<> add(Dockerfile& file, InstructionParser::Parsed parsed, const DockerfileLines& lines,
             const DockerfileLimits& limits) {
  if (auto* stage = std::get_if<Stage>(&parsed)) {
    if (file.stages.size() == limits.max_stages)
      return lines.fail_at(stage->at, "more than " + std::to_string(limits.max_stages) + " stages",
                           Code::exhausted);
    file.stages.push_back(std::move(*stage));
    return {};
  }
  auto& instruction = std::get<Instruction>(parsed);
  if (!file.stages.empty()) {
    file.stages.back().instructions.push_back(std::move(instruction));
    return {};
  }
  if (!std::holds_alternative<ArgInstruction>(instruction.body))
    return lines.fail_at(instruction.at, "before the first FROM there may only be ARG");
  file.global_args.push_back(std::move(instruction));
  return {};
}

}  // namespace

Result<Dockerfile> parse_dockerfile(std::string_view text, std::string_view name,
                                    const DockerfileLimits& limits) {
  FB_TRY(check_text(text, name, limits));
  Dockerfile file;
  DockerfileLines lines(text, name);
  std::size_t count = 0;
  for (;;) {
    FB_TRY_ASSIGN(const auto line, lines.next());
    if (!line) break;
    if (++count > limits.max_instructions)
      return lines.fail_at(line->position(0),
                           "more than " + std::to_string(limits.max_instructions) + " instructions",
                           Code::exhausted);
    FB_TRY_ASSIGN(auto parsed, InstructionParser(lines, *line).parse());
    FB_TRY(add(file, std::move(parsed), lines, limits));
  }
  if (file.stages.empty()) {
    const bool empty = file.global_args.empty();
    return fail(Code::invalid, std::string(name) +
                                   (empty ? ": it is empty" : ": there is no FROM") +
                                   "; a Dockerfile begins with FROM and an image");
  }
  file.escape = lines.escape();
  file.notes = lines.take_notes();
  return file;
}

Result<Instruction> parse_trigger(std::string_view text) {
  FB_TRY(check_text(text, "ONBUILD", {}));
  DockerfileLines lines(text, "ONBUILD");
  FB_TRY_ASSIGN(const auto line, lines.next());
  if (!line) return fail(Code::invalid, "ONBUILD: the instruction is empty");
  FB_TRY_ASSIGN(auto parsed, InstructionParser(lines, *line).parse());
  FB_TRY_ASSIGN(const auto more, lines.next());
  if (more || std::holds_alternative<Stage>(parsed))
    return fail(Code::invalid, "ONBUILD: not one instruction");
  return std::get<Instruction>(std::move(parsed));
}

}  // namespace firebreak::wire
