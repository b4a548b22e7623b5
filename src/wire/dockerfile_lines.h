// The lines of a Dockerfile as its instructions see them: parser directives taken, comments gone,
// continued lines joined, and where each byte came from. Owned by one parse; single thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/dockerfile.h"

namespace firebreak::wire {

struct LogicalLine {
  std::string text;  // no blanks at either end, not empty
  struct Piece {
    std::size_t offset;  // in text
    SourcePosition at;
  };
  std::vector<Piece> pieces;  // one per line of the file, in order

  SourcePosition position(std::size_t offset) const;
};

class DockerfileLines {
 public:
  DockerfileLines(std::string_view text, std::string_view name);

  // nullopt at the end of the file.
  Result<std::optional<LogicalLine>> next();
  // Takes the lines up to the one that is the document's name.
  Result<> read_heredoc(Heredoc& heredoc, SourcePosition begin);

  char escape() const { return escape_; }
  void note(SourcePosition at, std::string text);
  std::vector<DockerfileNote> take_notes() { return std::move(notes_); }
  std::unexpected<Error> fail_at(SourcePosition at, std::string_view what,
                                 Code code = Code::invalid) const;
  std::unexpected<Error> fail_at(SourcePosition at, std::string_view what, Repair repair) const;
  // What is wrong there, with its own reason and repair.
  std::unexpected<Error> fail_at(SourcePosition at, Error error) const;

 private:
  struct PhysicalLine {
    std::string_view text;  // without its end
    std::string_view whole;
    std::uint32_t number;
  };

  std::optional<PhysicalLine> take();
  Result<> directive(const PhysicalLine& line);
  Result<> set_directive(std::string_view key, std::string_view value, SourcePosition at);
  // Cuts the escape character at the end, if the line goes on.
  bool continues(std::string_view& line) const;

  std::string_view rest_;
  std::string name_;
  std::uint32_t number_ = 0;  // of the line taken last
  char escape_ = '\\';
  bool directives_over_ = false;
  std::vector<std::string> seen_directives_;
  std::vector<DockerfileNote> notes_;
};

}  // namespace firebreak::wire
