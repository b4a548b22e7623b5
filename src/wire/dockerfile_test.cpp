// What a Dockerfile says, form by form. Each case is a text and a short notation of the result:
// "sh" and "exec" for the two forms of a command, <NAME|content> for a here-document.
#include "wire/dockerfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += "{" + word + "}";
  return out;
}

std::string shown(const CommandLine& command) {
  return (command.exec ? "exec" : "sh") + list(command.words);
}

std::string shown(const std::vector<Heredoc>& heredocs) {
  std::string out;
  for (const Heredoc& heredoc : heredocs)
    out += std::string(" <") + (heredoc.strip_tabs ? "-" : "") + (heredoc.expand ? "" : "'") +
           heredoc.name + "|" + heredoc.content + ">";
  return out;
}

struct Shown {
  std::string operator()(const ArgInstruction& arg) const {
    std::string out = "ARG";
    for (const auto& item : arg.items)
      out += " {" + item.name + (item.value ? "=" + *item.value : "") + "}";
    return out;
  }
  static std::string pairs(const std::vector<KeyValue>& items) {
    std::string out;
    for (const auto& [key, value] : items) out += " {" + key + "=" + value + "}";
    return out;
  }
  std::string operator()(const EnvInstruction& env) const { return "ENV" + pairs(env.items); }
  std::string operator()(const LabelInstruction& label) const {
    return "LABEL" + pairs(label.items);
  }
  std::string operator()(const RunInstruction& run) const {
    std::string out = "RUN " + shown(run.command) + shown(run.heredocs);
    if (run.heredoc_is_command) out += " script";
    if (!run.mounts.empty()) out += " mounts" + list(run.mounts);
    return out;
  }
  std::string operator()(const CopyInstruction& copy) const {
    std::string out = (copy.add ? "ADD " : "COPY ") + list(copy.sources) + shown(copy.files) +
                      " to {" + copy.destination + "}";
    const auto option = [&out](const char* name, const std::string& value) {
      if (!value.empty()) out += std::string(" ") + name + "=" + value;
    };
    option("from", copy.from);
    option("chown", copy.chown);
    option("chmod", copy.chmod);
    option("checksum", copy.checksum);
    option("exclude", list(copy.excludes));
    if (copy.unpack) out += *copy.unpack ? " unpack" : " keep";
    if (copy.link) out += " link";
    return out;
  }
  std::string operator()(const WorkdirInstruction& i) const { return "WORKDIR {" + i.path + "}"; }
  std::string operator()(const UserInstruction& i) const { return "USER {" + i.user + "}"; }
  std::string operator()(const ExposeInstruction& i) const { return "EXPOSE " + list(i.ports); }
  std::string operator()(const CmdInstruction& i) const { return "CMD " + shown(i.command); }
  std::string operator()(const EntrypointInstruction& i) const {
    return "ENTRYPOINT " + shown(i.command);
  }
  std::string operator()(const ShellInstruction& i) const { return "SHELL " + list(i.shell); }
  std::string operator()(const StopSignalInstruction& i) const {
    return "STOPSIGNAL {" + i.signal + "}";
  }
  std::string operator()(const HealthcheckInstruction& i) const {
    if (i.none) return "HEALTHCHECK none";
    const auto ms = [](std::chrono::nanoseconds time) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    };
    return "HEALTHCHECK " + shown(i.command) + " " + ms(i.interval) + " " + ms(i.timeout) + " " +
           ms(i.start_period) + " " + ms(i.start_interval) + " " + std::to_string(i.retries);
  }
  std::string operator()(const VolumeInstruction& i) const { return "VOLUME " + list(i.paths); }
  std::string operator()(const OnbuildInstruction& i) const {
    return "ONBUILD {" + i.trigger + "}";
  }
  std::string operator()(const MaintainerInstruction& i) const {
    return "MAINTAINER {" + i.name + "}";
  }
};

std::string shown(const Dockerfile& file) {
  std::string out;
  const auto line = [&out](const std::string& text) { out += (out.empty() ? "" : "\n") + text; };
  for (const Instruction& arg : file.global_args) line(std::visit(Shown(), arg.body));
  for (const Stage& stage : file.stages) {
    line("FROM " + stage.base + (stage.name.empty() ? "" : " as " + stage.name) +
         (stage.platform.empty() ? "" : " on " + stage.platform));
    for (const Instruction& instruction : stage.instructions)
      line(std::visit(Shown(), instruction.body));
  }
  return out;
}

std::string parsed(std::string_view text) {
  const auto file = parse_dockerfile(text);
  return file ? shown(*file) : "error: " + file.error().message;
}

// Of the instructions after "FROM x".
std::string instructions(const std::string& text) {
  std::string all = parsed("FROM x\n" + text);
  const std::string from = "FROM x\n";
  return all.starts_with(from) ? all.substr(from.size()) : all;
}

struct Form {
  std::string text;
  std::string meaning;
};

void check(const std::vector<Form>& forms) {
  for (const Form& form : forms) EXPECT_EQ(instructions(form.text), form.meaning) << form.text;
}

TEST(Dockerfile, From) {
  const std::vector<Form> forms{
      {"FROM debian", "FROM debian"},
      {"from debian", "FROM debian"},
      {"  FROM   debian:12  ", "FROM debian:12"},
      {"FROM debian AS Base", "FROM debian as base"},
      {"FROM debian as b-1_x.y", "FROM debian as b-1_x.y"},
      {"FROM --platform=linux/amd64 debian", "FROM debian on linux/amd64"},
      {"FROM --platform=$BUILDPLATFORM debian AS b", "FROM debian as b on $BUILDPLATFORM"},
      {"FROM registry.example.org:5000/a/b@sha256:0123",
       "FROM registry.example.org:5000/a/b@sha256:0123"},
      {"FROM scratch", "FROM scratch"},
      {"ARG V=12\nFROM debian:${V:-11}", "ARG {V=12}\nFROM debian:${V:-11}"},
      {"ARG A\nARG B=1 C=\"x y\"\nFROM a\nFROM b",
       "ARG {A}\nARG {B=1} {C=\"x y\"}\nFROM a\nFROM b"},
      {"FROM a AS one\nRUN x\nFROM one AS two\nCOPY --from=one /a /b",
       "FROM a as one\nRUN sh{x}\nFROM one as two\nCOPY {/a} to {/b} from=one"},
      {"FROM --platform='linux/amd64' -- debian", "FROM debian on linux/amd64"},
  };
  for (const Form& form : forms) EXPECT_EQ(parsed(form.text), form.meaning) << form.text;
}

TEST(Dockerfile, LinesAndComments) {
  check({
      {"RUN a", "RUN sh{a}"},
      {"RUN a\r\nRUN b\r\n", "RUN sh{a}\nRUN sh{b}"},
      {"RUN a \\\n b", "RUN sh{a  b}"},
      {"RUN a \\\nb", "RUN sh{a b}"},
      {"RUN a\\\nb", "RUN sh{ab}"},
      {"RUN a \\\r\n  b", "RUN sh{a   b}"},
      {"RUN a \\  \t\n b", "RUN sh{a  b}"},
      {"RUN a \\\n# comment\n b", "RUN sh{a  b}"},
      {"RUN a \\\n   # comment \\\n b", "RUN sh{a  b}"},
      {"RUN a \\\n\n b", "RUN sh{a  b}"},
      {"RUN a \\\n\n\n\n b \\\n\n c", "RUN sh{a  b  c}"},
      {"RUN a \\", "RUN sh{a}"},
      {"RUN a \\\n", "RUN sh{a}"},
      {"RUN a \\\n# last", "RUN sh{a}"},
      {"RUN echo a\\\\\nRUN b", "RUN sh{echo a\\\\}\nRUN sh{b}"},
      {"# comment\nRUN a # not a comment", "RUN sh{a # not a comment}"},
      {"   # indented comment\n\n\t\nRUN a", "RUN sh{a}"},
      {"RUN a && \\\n    b && \\\n    # why\n    c", "RUN sh{a &&     b &&     c}"},
      {"\\\nRUN a", "RUN sh{a}"},
      {"RUN\\\n a", "RUN sh{a}"},
      {"R\\\nUN a", "RUN sh{a}"},
      {"RUN \\\n  a", "RUN sh{a}"},
      {"run A", "RUN sh{A}"},
      {"Run\ta", "RUN sh{a}"},
      {"RUN echo '#' && echo \\# x", "RUN sh{echo '#' && echo \\# x}"},
      {"RUN echo \xe4\xf6\xfc", "RUN sh{echo \xe4\xf6\xfc}"},
      {"RUN for i in 1 2; do \\\n echo $i; \\\ndone", "RUN sh{for i in 1 2; do  echo $i; done}"},
  });
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "FROM a\nRUN b"),
            "FROM a\nRUN sh{b}");
  EXPECT_EQ(parsed("\n\n# x\nFROM a"), "FROM a");
}

TEST(Dockerfile, Directives) {
  EXPECT_EQ(parsed("# escape=`\nFROM a\nRUN b `\n c \\\nRUN d"),
            "FROM a\nRUN sh{b  c \\}\nRUN sh{d}");
  EXPECT_EQ(parsed("#escape = `\nFROM a\nRUN b `\n c"), "FROM a\nRUN sh{b  c}");
  EXPECT_EQ(parsed("# ESCAPE=`\nFROM a\nRUN b `\n c"), "FROM a\nRUN sh{b  c}");
  EXPECT_EQ(parsed("# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN b `\n c"),
            "FROM a\nRUN sh{b  c}");
  // After anything else it is a comment.
  EXPECT_EQ(parsed("\n# escape=`\nFROM a\nRUN b \\\n c"), "FROM a\nRUN sh{b  c}");
  EXPECT_EQ(parsed("# a comment\n# escape=`\nFROM a\nRUN b \\\n c"), "FROM a\nRUN sh{b  c}");
  EXPECT_EQ(parsed("# unknown=1\n# escape=`\nFROM a\nRUN b \\\n c"), "FROM a\nRUN sh{b  c}");
  EXPECT_EQ(parsed("FROM a\n# escape=`\nRUN b \\\n c"), "FROM a\nRUN sh{b  c}");
}

TEST(Dockerfile, Notes) {
  const auto file = parse_dockerfile(
      "# syntax=docker/dockerfile:1.7\nFROM a\nRUN b \\\n\n c\nCMD ['x']\nCMD [\"x\"]\nRUN [ -f x "
      "]");
  ASSERT_TRUE(file);
  ASSERT_EQ(file->notes.size(), 3);
  EXPECT_EQ(file->notes[0].at, (SourcePosition{1, 1}));
  EXPECT_THAT(file->notes[0].text, testing::HasSubstr("syntax"));
  EXPECT_EQ(file->notes[1].at, (SourcePosition{4, 1}));
  EXPECT_EQ(file->notes[2].at, (SourcePosition{6, 5}));
  EXPECT_THAT(file->notes[2].text, testing::HasSubstr("JSON"));
}

TEST(Dockerfile, Positions) {
  const auto file = parse_dockerfile("# c\n\nFROM a\n  RUN b \\\n    c\n\tENV A=1");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->stages[0].at, (SourcePosition{3, 1}));
  EXPECT_EQ(file->stages[0].instructions[0].at, (SourcePosition{4, 3}));
  EXPECT_EQ(file->stages[0].instructions[0].text, "RUN b     c");
  EXPECT_EQ(file->stages[0].instructions[1].at, (SourcePosition{6, 2}));
}

TEST(Dockerfile, ShellAndExecForms) {
  check({
      {"RUN [\"a\", \"b c\"]", "RUN exec{a}{b c}"},
      {"RUN [ \"a\" , \"b\" ]", "RUN exec{a}{b}"},
      {"RUN [\"a\",\n", "RUN sh{[\"a\",}"},
      {"RUN ['a']", "RUN sh{['a']}"},
      {"RUN [ -d /x ] || mkdir /x", "RUN sh{[ -d /x ] || mkdir /x}"},
      {"RUN [\"a\"] && b", "RUN sh{[\"a\"] && b}"},
      {"RUN [\"a\\\\b\", \"\\u00e9\"]", "RUN exec{a\\b}{\xc3\xa9}"},
      {"RUN [\"c:\\windows\"]", "RUN sh{[\"c:\\windows\"]}"},
      {"RUN [\"a\", \\\n  \"b\"]", "RUN exec{a}{b}"},
      {"CMD [\"a\"]", "CMD exec{a}"},
      {"CMD []", "CMD exec"},
      {"CMD a b", "CMD sh{a b}"},
      {"CMD   a   b  ", "CMD sh{a   b}"},
      {"ENTRYPOINT [\"a\", \"$B\"]", "ENTRYPOINT exec{a}{$B}"},
      {"ENTRYPOINT a $B", "ENTRYPOINT sh{a $B}"},
      {"ENTRYPOINT []", "ENTRYPOINT exec"},
      {"SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]",
       "SHELL {/bin/bash}{-o}{pipefail}{-c}"},
      {"RUN -- --help", "RUN sh{--help}"},
  });
}

TEST(Dockerfile, EnvAndLabel) {
  check({
      {"ENV A=1", "ENV {A=1}"},
      {"ENV A=1 B=2", "ENV {A=1} {B=2}"},
      {"ENV A=1 \\\n    B=2 \\\n    C=3", "ENV {A=1} {B=2} {C=3}"},
      {"ENV A=", "ENV {A=}"},
      {"ENV A 1", "ENV {A=1}"},
      {"ENV A 1 2  3", "ENV {A=1 2  3}"},
      {"ENV A 1=2", "ENV {A=1=2}"},
      {"ENV A b=c d=e", "ENV {A=b=c d=e}"},
      {"ENV A=\"a b\"", "ENV {A=\"a b\"}"},
      {"ENV A='a b' B=c\\ d", "ENV {A='a b'} {B=c\\ d}"},
      {"ENV A=a=b", "ENV {A=a=b}"},
      {"ENV A=\"a\\\"b c\"", "ENV {A=\"a\\\"b c\"}"},
      {"ENV PATH=/x:$PATH", "ENV {PATH=/x:$PATH}"},
      {"ENV A='it'\"'\"'s'", "ENV {A='it'\"'\"'s'}"},
      {"ENV $A=b", "ENV {$A=b}"},
      {"LABEL a=b", "LABEL {a=b}"},
      {"LABEL \"com.example.a b\"=\"c d\" x='y'", "LABEL {\"com.example.a b\"=\"c d\"} {x='y'}"},
      {"LABEL a b c", "LABEL {a=b c}"},
      {"LABEL a=\"x\\\ny\"", "LABEL {a=\"xy\"}"},
      {"LABEL a.b-c_d=e", "LABEL {a.b-c_d=e}"},
      {"ARG A", "ARG {A}"},
      {"ARG A=", "ARG {A=}"},
      {"ARG A=1 B C=\"x y\"", "ARG {A=1} {B} {C=\"x y\"}"},
      {"ARG A=${B:-c}", "ARG {A=${B:-c}}"},
  });
}

TEST(Dockerfile, CopyAndAdd) {
  check({
      {"COPY a b", "COPY {a} to {b}"},
      {"COPY a b c/", "COPY {a}{b} to {c/}"},
      {"COPY [\"a b\", \"c d\"]", "COPY {a b} to {c d}"},
      {"COPY [\"a\",\"b\",\"c/\"]", "COPY {a}{b} to {c/}"},
      {"COPY *.py /app/", "COPY {*.py} to {/app/}"},
      {"COPY --from=build /a /b", "COPY {/a} to {/b} from=build"},
      {"COPY --from=0 /a /b", "COPY {/a} to {/b} from=0"},
      {"COPY --from=nginx:latest /a /b", "COPY {/a} to {/b} from=nginx:latest"},
      {"COPY --chown=1:2 --chmod=0755 a b", "COPY {a} to {b} chown=1:2 chmod=0755"},
      {"COPY --chown=$U:${G} a b", "COPY {a} to {b} chown=$U:${G}"},
      {"COPY --chmod=u=rwX,go=rX a b", "COPY {a} to {b} chmod=u=rwX,go=rX"},
      {"COPY --link a b", "COPY {a} to {b} link"},
      {"COPY --link=false a b", "COPY {a} to {b}"},
      {"COPY --LINK=true a b", "error: Dockerfile:2:6: COPY has no flag --LINK"},
      {"COPY --exclude=*.md --exclude=b/** . /x/", "COPY {.} to {/x/} exclude={*.md}{b/**}"},
      {"COPY --parents=false a b", "COPY {a} to {b}"},
      {"COPY \\\n  a \\\n  b \\\n  c/", "COPY {a}{b} to {c/}"},
      {"COPY a\\ b c", "COPY {a\\}{b} to {c}"},
      {"COPY --chown=\"a b\":c x y", "COPY {x} to {y} chown=a b:c"},
      {"ADD a b", "ADD {a} to {b}"},
      {"ADD a.tar.gz /x", "ADD {a.tar.gz} to {/x}"},
      {"ADD --unpack=false a.tar /x", "ADD {a.tar} to {/x} keep"},
      {"ADD --unpack a.tar /x", "ADD {a.tar} to {/x} unpack"},
      {"ADD --checksum=sha256:00 https://example.org/a /x",
       "ADD {https://example.org/a} to {/x} checksum=sha256:00"},
      {"ADD --keep-git-dir https://example.org/a.git /x",
       "ADD {https://example.org/a.git} to {/x}"},
      {"COPY -- --odd /x", "COPY {--odd} to {/x}"},
      {"COPY [a] b", "COPY {[a]} to {b}"},
  });
}

TEST(Dockerfile, Heredocs) {
  check({
      {"RUN <<EOF\na\nb\nEOF\nRUN c", "RUN sh{<<EOF} <EOF|a\nb\n> script\nRUN sh{c}"},
      {"RUN <<EOF\nEOF", "RUN sh{<<EOF} <EOF|> script"},
      {"RUN <<'EOF'\n$a\nEOF", "RUN sh{<<'EOF'} <'EOF|$a\n> script"},
      {"RUN <<\"EOF\"\n$a\nEOF", "RUN sh{<<\"EOF\"} <'EOF|$a\n> script"},
      {"RUN <<-EOF\n\ta\n\tEOF", "RUN sh{<<-EOF} <-EOF|\ta\n> script"},
      {"RUN <<EOF\n# kept\nRUN kept\n\n \\\nEOF",
       "RUN sh{<<EOF} <EOF|# kept\nRUN kept\n\n \\\n> script"},
      {"RUN <<EOF bash\na\nEOF", "RUN sh{<<EOF bash} <EOF|a\n>"},
      {"RUN python3 <<EOF > /x\nprint(1)\nEOF", "RUN sh{python3 <<EOF > /x} <EOF|print(1)\n>"},
      {"RUN cat <<A <<B\n1\nA\n2\nB", "RUN sh{cat <<A <<B} <A|1\n> <B|2\n>"},
      {"RUN 3<<EOF cat <&3\na\nEOF", "RUN sh{3<<EOF cat <&3} <EOF|a\n>"},
      {"RUN << EOF\na\nEOF", "RUN sh{<< EOF} <EOF|a\n> script"},
      {"RUN <<eo'f'\na\neof", "RUN sh{<<eo'f'} <'eof|a\n> script"},
      {"RUN <<eo\\'f\na\neo'f", "RUN sh{<<eo\\'f} <eo'f|a\n> script"},
      {"RUN <<'one two'\na\none two", "RUN sh{<<'one two'} <'one two|a\n> script"},
      {"RUN <<$EOF\na\n$EOF", "RUN sh{<<$EOF} <$EOF|a\n> script"},
      {"RUN <<EOF\r\na\r\nEOF\r\nRUN b", "RUN sh{<<EOF} <EOF|a\r\n> script\nRUN sh{b}"},
      {"RUN --mount=type=tmpfs,target=/x <<EOF\na\nEOF",
       "RUN sh{<<EOF} <EOF|a\n> script mounts{type=tmpfs,target=/x}"},
      {"RUN \"<<EOF\"", "RUN sh{\"<<EOF\"}"},
      {"RUN '<<EOF'", "RUN sh{'<<EOF'}"},
      {"RUN cat <<<EOF", "RUN sh{cat <<<EOF}"},
      {"RUN echo $((1<<2))", "RUN sh{echo $((1<<2))}"},
      {"RUN [\"<<EOF\"]", "RUN exec{<<EOF}"},
      {"RUN a<<EOF", "RUN sh{a<<EOF}"},
      {"RUN a \\\n <<EOF\nb\nEOF", "RUN sh{a  <<EOF} <EOF|b\n>"},
      {"CMD <<EOF", "CMD sh{<<EOF}"},
      {"COPY <<EOF /x\na\nEOF", "COPY  <EOF|a\n> to {/x}"},
      {"COPY <<a.txt <<b.txt /x/\n1\na.txt\n2\nb.txt", "COPY  <a.txt|1\n> <b.txt|2\n> to {/x/}"},
      {"COPY f <<EOF g /x/\na\nEOF", "COPY {f}{g} <EOF|a\n> to {/x/}"},
      {"COPY <<-'EOF' /x\n\t$a\n\tEOF", "COPY  <-'EOF|\t$a\n> to {/x}"},
      {"ADD <<EOF /x\na\nEOF", "ADD  <EOF|a\n> to {/x}"},
      {"COPY --chmod=755 <<EOF /x\n#!/bin/sh\nEOF", "COPY  <EOF|#!/bin/sh\n> to {/x} chmod=755"},
      {"COPY <<same <<same /x/\n1\nsame\n2\nsame", "COPY  <same|1\n> <same|2\n> to {/x/}"},
      {"ONBUILD RUN <<EOF\na\nEOF\nRUN b", "ONBUILD {RUN <<EOF\na\nEOF}\nRUN sh{b}"},
      {"ONBUILD COPY <<EOF /x\na\nEOF", "ONBUILD {COPY <<EOF /x\na\nEOF}"},
  });
  EXPECT_EQ((Heredoc{"E", "\ta\n\t\tb\tc\nd\n", true, true}.text()), "a\nb\tc\nd\n");
  EXPECT_EQ((Heredoc{"E", "\ta\n", true, false}.text()), "\ta\n");
}

TEST(Dockerfile, SmallInstructions) {
  check({
      {"WORKDIR /a", "WORKDIR {/a}"},
      {"WORKDIR a b", "WORKDIR {a b}"},
      {"WORKDIR $A/b", "WORKDIR {$A/b}"},
      {"USER me:group", "USER {me:group}"},
      {"USER 1000", "USER {1000}"},
      {"EXPOSE 80", "EXPOSE {80}"},
      {"EXPOSE 80/tcp 53/udp $P 8000-8010", "EXPOSE {80/tcp}{53/udp}{$P}{8000-8010}"},
      {"VOLUME /a /b", "VOLUME {/a}{/b}"},
      {"VOLUME [\"/a\", \"/b c\"]", "VOLUME {/a}{/b c}"},
      {"STOPSIGNAL SIGQUIT", "STOPSIGNAL {SIGQUIT}"},
      {"STOPSIGNAL 9", "STOPSIGNAL {9}"},
      {"MAINTAINER A B <a@example.org>", "MAINTAINER {A B <a@example.org>}"},
      {"HEALTHCHECK NONE", "HEALTHCHECK none"},
      {"HEALTHCHECK none", "HEALTHCHECK none"},
      {"HEALTHCHECK CMD a b", "HEALTHCHECK sh{a b} 0 0 0 0 0"},
      {"HEALTHCHECK CMD [\"a\", \"b\"]", "HEALTHCHECK exec{a}{b} 0 0 0 0 0"},
      {"HEALTHCHECK --interval=1m30s --timeout=1.5s --start-period=1h --start-interval=5ms "
       "--retries=3 CMD a",
       "HEALTHCHECK sh{a} 90000 1500 3600000 5 3"},
      {"HEALTHCHECK --interval=0 --timeout=0s \\\n  CMD a || exit 1",
       "HEALTHCHECK sh{a || exit 1} 0 0 0 0 0"},
      {"ONBUILD RUN a", "ONBUILD {RUN a}"},
      {"onbuild  copy  . /x", "ONBUILD {copy  . /x}"},
      {"ONBUILD RUN a \\\n  b", "ONBUILD {RUN a   b}"},
      {"ONBUILD RUN --mount=type=tmpfs,target=/t a",
       "ONBUILD {RUN --mount=type=tmpfs,target=/t a}"},
      {"RUN --network=default --security=sandbox a", "RUN sh{a}"},
  });
}

TEST(Dockerfile, Triggers) {
  const auto run = parse_trigger("RUN <<EOF\na\nEOF");
  ASSERT_TRUE(run);
  EXPECT_EQ(std::visit(Shown(), run->body), "RUN sh{<<EOF} <EOF|a\n> script");
  EXPECT_FALSE(parse_trigger(""));
  EXPECT_FALSE(parse_trigger("FROM a"));
  EXPECT_FALSE(parse_trigger("RUN a\nRUN b"));
}

TEST(Dockerfile, TheWholeOfOne) {
  EXPECT_EQ(parsed(R"(# syntax=docker/dockerfile:1
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheels
WORKDIR /src
COPY requirements.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel -w /wheels -r requirements.txt

FROM python:${PYTHON}-slim
# The server.
ENV PYTHONUNBUFFERED=1 \
    PORT=8080
COPY --from=wheels /wheels /wheels
RUN pip install --no-index /wheels/*.whl \
 && rm -rf /wheels
COPY --chown=app:app app/ /app/
USER app
EXPOSE 8080
ENTRYPOINT ["python3", "-m"]
CMD ["app"]
)"),
            R"(ARG {PYTHON=3.11}
FROM python:${PYTHON}-slim as wheels
WORKDIR {/src}
COPY {requirements.txt} to {.}
RUN sh{pip wheel -w /wheels -r requirements.txt} mounts{type=cache,target=/root/.cache/pip}
FROM python:${PYTHON}-slim
ENV {PYTHONUNBUFFERED=1} {PORT=8080}
COPY {/wheels} to {/wheels} from=wheels
RUN sh{pip install --no-index /wheels/*.whl  && rm -rf /wheels}
COPY {app/} to {/app/} chown=app:app
USER {app}
EXPOSE {8080}
ENTRYPOINT exec{python3}{-m}
CMD exec{app})");
}

}  // namespace
}  // namespace firebreak::wire
