// RUN, COPY and ADD: the instructions with here-documents and the most flags.
#include <algorithm>

#include "wire/dockerfile_instruction.h"

namespace firebreak::wire {

Result<> InstructionParser::refuse_run_flags() const {
  const auto place = [this](std::string_view name) { return flags_.find(name)->second.at; };
  if (has_flag("network") && flag("network") != "default")
    return bad(place("network"),
               "RUN --network is not supported: the whole build has one network "
               "policy",
               Repair{"set it with the build's egress setting"});
  if (has_flag("security") && flag("security") != "sandbox")
    return bad(place("security"),
               "RUN --security is not supported, and not needed: each build has "
               "a machine of its own",
               Repair{"remove the flag"});
  if (has_flag("device"))
    return bad(place("device"),
               "RUN --device is not supported: build machines have no devices to "
               "give",
               Repair{"remove the flag"});
  return {};
}

Result<RunInstruction> InstructionParser::run() {
  FB_TRY(read_flags({{.name = "mount", .kind = FlagKind::list},
                     {.name = "network", .kind = FlagKind::text},
                     {.name = "security", .kind = FlagKind::text},
                     {.name = "device", .kind = FlagKind::list}}));
  FB_TRY(refuse_run_flags());
  if (rest().empty()) return bad(0, "RUN needs a command");
  RunInstruction run;
  if (has_flag("mount")) {
    const Flag& mounts = flags_.find("mount")->second;
    for (const std::string& options : mounts.values) {
      // With variables in it, only the build knows what it says.
      if (!options.contains('$')) {
        const auto none = [](std::string_view) { return std::optional<std::string>(); };
        const auto mount = parse_mount(options, none, {.escape = lines_.escape()});
        if (!mount) return bad(mounts.at, mount.error());
      }
      run.mounts.push_back(options);
    }
  }
  FB_TRY_ASSIGN(run.command, command_line(split_.rest_at));
  if (run.command.exec) {
    if (run.command.words.empty()) return bad(split_.rest_at, "RUN needs a command, not []");
    return run;
  }
  FB_TRY(read_heredocs());
  run.heredocs = heredocs_;
  run.heredoc_is_command = !run.heredocs.empty() && as_heredoc(rest()).has_value();
  return run;
}

Result<CopyInstruction> InstructionParser::copy(bool add) {
  if (add) {
    FB_TRY(read_flags({{.name = "chown", .kind = FlagKind::text},
                       {.name = "chmod", .kind = FlagKind::text},
                       {.name = "link", .kind = FlagKind::boolean},
                       {.name = "exclude", .kind = FlagKind::list},
                       {.name = "checksum", .kind = FlagKind::text},
                       {.name = "keep-git-dir", .kind = FlagKind::boolean},
                       {.name = "unpack", .kind = FlagKind::boolean}}));
  } else {
    FB_TRY(read_flags({{.name = "from", .kind = FlagKind::text},
                       {.name = "chown", .kind = FlagKind::text},
                       {.name = "chmod", .kind = FlagKind::text},
                       {.name = "link", .kind = FlagKind::boolean},
                       {.name = "exclude", .kind = FlagKind::list},
                       {.name = "parents", .kind = FlagKind::boolean}}));
  }
  CopyInstruction copy;
  copy.add = add;
  copy.from = flag("from");
  copy.chown = flag("chown");
  copy.chmod = flag("chmod");
  copy.checksum = flag("checksum");
  if (has_flag("exclude")) copy.excludes = flags_.find("exclude")->second.values;
  FB_TRY_ASSIGN(copy.link, boolean_flag("link"));
  FB_TRY_ASSIGN(const bool unpack, boolean_flag("unpack"));
  if (has_flag("unpack")) copy.unpack = unpack;
  FB_TRY_ASSIGN(const bool parents, boolean_flag("parents"));
  if (parents)
    return bad(flags_.find("parents")->second.at, "COPY --parents is not supported",
               Repair{"write one COPY for each directory"});
  if (copy.from.contains('$'))
    return bad(flags_.find("from")->second.at, "--from takes no variables",
               Repair{"name the image in 'FROM $IMAGE AS NAME' and copy from "
                      "NAME"});
  for (const std::string_view name : {"chown", "chmod", "checksum"})
    if (has_flag(name)) FB_TRY(check_word(flag(name), flags_.find(name)->second.at));
  FB_TRY(sources_and_destination(copy));
  return copy;
}

Result<> InstructionParser::sources_and_destination(CopyInstruction& copy) {
  bool json = false;
  FB_TRY_ASSIGN(auto words, words_or_json(json));
  if (words.size() < 2)
    return bad(0, split_.keyword + " needs at least one source and a destination");
  if (!json) FB_TRY(read_heredocs());
  const Word& last = words.back();
  if (!json && as_heredoc(last.text))
    return bad(last.at, "the destination cannot be a here-document");
  copy.destination = last.text;
  FB_TRY(check_word(copy.destination, last.at));
  words.pop_back();
  auto file = heredocs_.begin();
  for (Word& word : words) {
    if (!json && as_heredoc(word.text)) {
      if (file == heredocs_.end())
        return bad(word.at, "quotes in this line hide the here-document");
      copy.files.push_back(*file++);
      continue;
    }
    FB_TRY(check_word(word.text, word.at));
    copy.sources.push_back(std::move(word.text));
  }
  if (file != heredocs_.end()) return bad(0, "write <<" + file->name + " without a blank after <<");
  for (const Heredoc& inline_file : copy.files) {
    const ExpandRules rules{.quotes = false, .max_bytes = std::size_t{1} << 20};
    if (inline_file.name.contains('/') || inline_file.name == "." || inline_file.name == "..")
      return bad(split_.rest_at, "the name of a here-document becomes a file name, and '" +
                                     inline_file.name + "' cannot be one");
    if (!inline_file.expand) continue;
    if (const auto checked = check_expansion(inline_file.content, rules); !checked)
      return bad(split_.rest_at,
                 "in here-document " + inline_file.name + ": " + checked.error().message,
                 Repair{"quote its name, <<'" + inline_file.name + "', to keep the text as it is"});
  }
  return {};
}

}  // namespace firebreak::wire
