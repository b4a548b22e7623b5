// A Dockerfile as typed instructions: parsed whole, without I/O, with the position of each part.
// The text comes from a stranger. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/dockerfile_expand.h"

namespace firebreak::wire {

// Both count from 1; the column counts bytes.
struct SourcePosition {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  friend auto operator<=>(const SourcePosition&, const SourcePosition&) = default;
};

struct DockerfileLimits {
  std::size_t max_bytes = std::size_t{1} << 20;
  std::size_t max_instructions = 2000;
  std::size_t max_stages = 128;
};

using KeyValue = std::pair<std::string, std::string>;

struct Heredoc {
  std::string name;
  std::string content;      // as written, line ends included
  bool expand = true;       // the name was not quoted
  bool strip_tabs = false;  // <<-
  friend bool operator==(const Heredoc&, const Heredoc&) = default;
  // What a reader of it gets: without leading tabs if so marked.
  std::string text() const;
};

struct CommandLine {
  bool exec = false;               // JSON array: no shell
  std::vector<std::string> words;  // of the shell form: one, the whole text
  friend bool operator==(const CommandLine&, const CommandLine&) = default;
};

// Values of words that may hold variables are as written: quotes and escapes are still in them, and
// expand() makes them what they mean.
struct ArgInstruction {
  struct Item {
    std::string name;
    std::optional<std::string> value;
    friend bool operator==(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
};
struct EnvInstruction {
  std::vector<KeyValue> items;
};
struct LabelInstruction {
  std::vector<KeyValue> items;
};
struct RunInstruction {
  CommandLine command;
  std::vector<Heredoc> heredocs;
  bool heredoc_is_command = false;  // `RUN <<EOF`: the document is the command
  std::vector<std::string> mounts;  // values of --mount, for parse_mount
};
// COPY and ADD.
struct CopyInstruction {
  bool add = false;
  std::vector<std::string> sources;
  std::vector<Heredoc> files;  // sources given in place
  std::string destination;
  std::string from;  // COPY: stage, number of a stage, or image; never holds variables
  std::string chown;
  std::string chmod;
  std::string checksum;        // ADD
  std::optional<bool> unpack;  // ADD: unpack an archive, or do not
  std::vector<std::string> excludes;
  bool link = false;
};
struct WorkdirInstruction {
  std::string path;
};
struct UserInstruction {
  std::string user;
};
struct ExposeInstruction {
  std::vector<std::string> ports;
};
struct CmdInstruction {
  CommandLine command;
};
struct EntrypointInstruction {
  CommandLine command;
};
struct ShellInstruction {
  std::vector<std::string> shell;
};
struct StopSignalInstruction {
  std::string signal;
};
struct HealthcheckInstruction {
  bool none = false;
  CommandLine command;
  std::chrono::nanoseconds interval{};  // 0: the default
  std::chrono::nanoseconds timeout{};
  std::chrono::nanoseconds start_period{};
  std::chrono::nanoseconds start_interval{};
  std::uint32_t retries = 0;
};
struct VolumeInstruction {
  std::vector<std::string> paths;
};
struct OnbuildInstruction {
  std::string trigger;  // an instruction with its here-documents, for parse_trigger
};
struct MaintainerInstruction {
  std::string name;
};

struct Instruction {
  SourcePosition at;
  std::string text;  // one line, for the build log
  std::variant<ArgInstruction, EnvInstruction, LabelInstruction, RunInstruction, CopyInstruction,
               WorkdirInstruction, UserInstruction, ExposeInstruction, CmdInstruction,
               EntrypointInstruction, ShellInstruction, StopSignalInstruction,
               HealthcheckInstruction, VolumeInstruction, OnbuildInstruction, MaintainerInstruction>
      body;
};

struct Stage {
  SourcePosition at;
  std::string text;
  std::string base;      // stage or image; may hold global ARGs
  std::string platform;  // may hold global ARGs
  std::string name;      // in lower case; may be empty
  std::vector<Instruction> instructions;
};

struct DockerfileNote {
  SourcePosition at;
  std::string text;
};

struct Dockerfile {
  char escape = '\\';
  std::vector<Instruction> global_args;  // before the first FROM; all are ARG
  std::vector<Stage> stages;             // at least one
  std::vector<DockerfileNote> notes;     // what is accepted and yet worth saying
};

// Code::invalid, "NAME:LINE:COLUMN: what is wrong and how to repair it".
Result<Dockerfile> parse_dockerfile(std::string_view text, std::string_view name = "Dockerfile",
                                    const DockerfileLimits& limits = {});
// The one instruction of an ONBUILD. Its position is (1, 1): it has no file.
Result<Instruction> parse_trigger(std::string_view text);

struct Mount {
  enum class Type { bind, cache, tmpfs, secret };
  enum class Sharing { shared, locked, exclusive };
  Type type = Type::bind;
  std::string from;    // bind, cache: stage or image; empty: the context, or an empty directory
  std::string source;  // path below `from`; of a secret: its id
  std::string target;
  std::string id;  // of a cache or a secret
  bool read_only = false;
  bool required = false;           // secret
  std::optional<std::string> env;  // secret: as this variable; empty: named like the secret
  Sharing sharing = Sharing::shared;
  std::uint64_t size = 0;  // tmpfs, bytes; 0: no own limit
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  friend bool operator==(const Mount&, const Mount&) = default;
};
// The value of --mount; variables are looked up in each option.
Result<Mount> parse_mount(std::string_view options, const VariableLookup& lookup,
                          const ExpandRules& rules = {});
// The `from` of a --mount without anything else: what it depends on.
std::string mount_source(std::string_view options);

}  // namespace firebreak::wire
