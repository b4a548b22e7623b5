// How an instruction's line is cut into keyword, flags and words, each instruction by its own rule.
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/dockerfile.h"

namespace firebreak::wire {

inline constexpr std::string_view kBlanks = " \t\v\f\r\n";
std::string_view trim(std::string_view text);
std::string to_upper(std::string_view text);

struct Word {
  std::string text;
  std::size_t at = 0;  // offset in the line
};

struct InstructionLine {
  std::string keyword;      // in capitals
  std::vector<Word> flags;  // "--name" or "--name=value", quotes and escapes resolved
  std::size_t rest_at = 0;  // where what follows begins; the size of the line if nothing does
};
InstructionLine split_instruction(std::string_view line, std::size_t from, char escape);

// At blanks, and nowhere else.
std::vector<Word> split_blanks(std::string_view line, std::size_t from);
// At blanks outside of quotes. Quotes and escapes stay in the words.
std::vector<Word> split_quoted(std::string_view line, std::size_t from, char escape);

// A JSON array of strings; nullopt for what is not JSON, an error for other things in the array.
Result<std::optional<std::vector<std::string>>> json_strings(std::string_view text);

struct HeredocWord {
  Heredoc heredoc;  // no content yet
  std::size_t at = 0;
};
// The <<NAME words of a line. A line whose quotes do not close has none.
std::vector<HeredocWord> find_heredocs(std::string_view line, std::size_t from);
// A word that is <<NAME and nothing else.
std::optional<Heredoc> as_heredoc(std::string_view word);

// 300ms, 1.5h, 2m30s; nullopt for anything else, and for more than a year.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

}  // namespace firebreak::wire
