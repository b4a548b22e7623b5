// What a Dockerfile may not say: each error names its line and column, and how to repair it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/dockerfile.h"

namespace firebreak::wire {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Wrong {
  std::string text;
  std::string place;  // "LINE:COLUMN"
  std::string said;
};

void check(const std::vector<Wrong>& cases) {
  for (const Wrong& wrong : cases) {
    const auto file = parse_dockerfile(wrong.text);
    ASSERT_FALSE(file) << wrong.text;
    EXPECT_EQ(file.error().code, Code::invalid) << wrong.text;
    EXPECT_THAT(file.error().message, StartsWith("Dockerfile:" + wrong.place + ": ")) << wrong.text;
    EXPECT_THAT(file.error().message, HasSubstr(wrong.said)) << wrong.text;
  }
}

TEST(DockerfileErrors, Structure) {
  check({
      {"RUN a", "1:1", "before the first FROM"},
      {"ARG A\nENV B=1\nFROM x", "2:1", "before the first FROM"},
      {"FROM x\nRNU a", "2:1", "did you mean RUN?"},
      {"FROM x\nENTRYPONT a", "2:1", "did you mean ENTRYPOINT?"},
      {"FROM x\n\n  EXPORT 80", "3:3", "unknown instruction 'EXPORT'; did you mean EXPOSE?"},
      {"FROM x\napt-get install", "2:1", "unknown instruction 'APT-GET'"},
      {"FROM x\nRUN a \\\n  b\nINCLUDE y", "4:1", "unknown instruction 'INCLUDE'"},
      {"# escape=x\nFROM a", "1:1", "escape character is"},
      {"# escape=`\n# escape=`\nFROM a", "2:1", "twice"},
      {"# syntax=a\n  # syntax=b\nFROM a", "2:3", "twice"},
  });
  for (const char* text : {"", "\n\n", "# only a comment\n", "\\"}) {
    const auto file = parse_dockerfile(text);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, HasSubstr("it is empty"));
  }
  EXPECT_THAT(parse_dockerfile("ARG A").error().message, HasSubstr("there is no FROM"));
  EXPECT_THAT(parse_dockerfile(std::string("FROM a\0b", 8)).error().message, HasSubstr("NUL"));
  EXPECT_THAT(parse_dockerfile("FROM", "dir/Other").error().message, StartsWith("dir/Other:1:1: "));
}

TEST(DockerfileErrors, Limits) {
  const auto code = [](std::string_view text, const DockerfileLimits& limits) {
    const auto file = parse_dockerfile(text, "Dockerfile", limits);
    return file ? std::string("ok") : std::string(to_string(file.error().code));
  };
  EXPECT_EQ(code("FROM a\nRUN b", {.max_bytes = 12}), "ok");
  EXPECT_EQ(code("FROM a\nRUN bb", {.max_bytes = 12}), "exhausted");
  EXPECT_EQ(code("FROM a\nRUN b", {.max_instructions = 2}), "ok");
  EXPECT_EQ(code("FROM a\nRUN b\nRUN b", {.max_instructions = 2}), "exhausted");
  EXPECT_EQ(code("FROM a\nFROM b", {.max_stages = 2}), "ok");
  EXPECT_EQ(code("FROM a\nFROM b\nFROM c", {.max_stages = 2}), "exhausted");
}

TEST(DockerfileErrors, From) {
  check({
      {"FROM", "1:1", "needs an image"},
      {"FROM a b", "1:8", "'AS NAME'"},
      {"FROM a AS", "1:8", "'AS NAME'"},
      {"FROM a AS b c", "1:8", "'AS NAME'"},
      {"FROM a WITH b", "1:8", "'AS NAME'"},
      {"FROM a AS 1b", "1:11", "begins with a letter"},
      {"FROM a AS b/c", "1:11", "begins with a letter"},
      {"FROM a:${V", "1:6", "'}' is missing"},
      {"FROM --platfrom=x a", "1:6", "did you mean --platform?"},
      {"FROM --platform a", "1:6", "needs a value"},
      {"FROM --platform=a --platform=b c", "1:19", "twice"},
  });
}

TEST(DockerfileErrors, Words) {
  check({
      {"FROM a\nENV", "2:1", "needs NAME=VALUE"},
      {"FROM a\nENV A", "2:5", "needs a value: A=VALUE"},
      {"FROM a\nENV A=1 B", "2:9", "'=' is missing in 'B'"},
      {"FROM a\nENV A=b c", "2:9", "needs double quotes"},
      {"FROM a\nENV A=1 \\\n  =2", "3:3", "a name is missing"},
      {"FROM a\nENV A=1 \\\n  B='x", "3:5", "single quote"},
      {"FROM a\nENV A=\"x", "2:7", "double quote"},
      {"FROM a\nENV A it's", "2:7", "single quote"},
      {"FROM a\nENV A=${}", "2:7", "name of a variable"},
      {"FROM a\nENV A=${B:=c}", "2:7", "unknown modifier '='"},
      {"FROM a\nENV A=${B^}", "2:7", "unknown modifier '^'"},
      {"FROM a\nENV --x=1 A=2", "2:5", "ENV has no flag --x"},
      {"FROM a\nLABEL", "2:1", "needs NAME=VALUE"},
      {"FROM a\nLABEL x", "2:7", "needs a value"},
      {"FROM a\nARG", "2:1", "needs a name"},
      {"FROM a\nARG =1", "2:5", "without a name"},
      {"FROM a\nARG A=${B", "2:7", "'}' is missing"},
      {"FROM a\nWORKDIR", "2:1", "needs a path"},
      {"FROM a\nWORKDIR ${A", "2:9", "'}' is missing"},
      {"FROM a\nUSER", "2:1", "needs a user"},
      {"FROM a\nSTOPSIGNAL", "2:1", "needs a signal"},
      {"FROM a\nMAINTAINER", "2:1", "needs a name"},
      {"FROM a\nEXPOSE", "2:1", "needs a port"},
      {"FROM a\nVOLUME", "2:1", "needs a path"},
      {"FROM a\nVOLUME [\"\"]", "2:8", "is empty"},
      {"FROM a\nVOLUME []", "2:1", "needs a path"},
      {"FROM a\nVOLUME [1]", "2:8", "not a string"},
      {"FROM a\nSHELL", "2:1", "JSON array"},
      {"FROM a\nSHELL bash -c", "2:7", "JSON array"},
      {"FROM a\nSHELL []", "2:7", "JSON array"},
  });
}

TEST(DockerfileErrors, Commands) {
  check({
      {"FROM a\nRUN", "2:1", "needs a command"},
      {"FROM a\nRUN []", "2:5", "needs a command"},
      {"FROM a\nRUN [\"a\", 1]", "2:5", "not a string"},
      {"FROM a\nRUN [[\"a\"]]", "2:5", "not a string"},
      {"FROM a\nRUN [\"a\\u0000b\"]", "2:5", "NUL"},
      {"FROM a\nCMD", "2:1", "an empty array"},
      {"FROM a\nENTRYPOINT", "2:1", "an empty array"},
      {"FROM a\nCMD --x y", "2:5", "CMD has no flag --x"},
      {"FROM a\nCMD [null]", "2:5", "not a string"},
      {"FROM a\nRUN --network=host x", "2:5", "egress setting"},
      {"FROM a\nRUN --network=none x", "2:5", "egress setting"},
      {"FROM a\nRUN --security=insecure x", "2:5", "remove the flag"},
      {"FROM a\nRUN --device=x y", "2:5", "remove the flag"},
      {"FROM a\nRUN --mount=type=ssh x", "2:5", "type=secret"},
      {"FROM a\nRUN --mount=type=nfs,target=/x y", "2:5", "unknown type 'nfs'"},
      {"FROM a\nRUN --mount=type=tmpfs y", "2:5", "target=/path"},
      {"FROM a\nRUN --mont=type=tmpfs y", "2:5", "did you mean --mount?"},
      {"FROM a\nHEALTHCHECK", "2:1", "CMD and a command, or NONE"},
      {"FROM a\nHEALTHCHECK CMD", "2:13", "needs a command"},
      {"FROM a\nHEALTHCHECK CMD []", "2:17", "needs a command"},
      {"FROM a\nHEALTHCHECK NONE x", "2:18", "nothing may follow"},
      {"FROM a\nHEALTHCHECK --interval=1s NONE", "2:13", "no flag"},
      {"FROM a\nHEALTHCHECK curl x", "2:13", "CMD or NONE"},
      {"FROM a\nHEALTHCHECK --interval=5 CMD x", "2:13", "such as 30s"},
      {"FROM a\nHEALTHCHECK --interval=1us CMD x", "2:13", "at least 1ms"},
      {"FROM a\nHEALTHCHECK --timeout=-1s CMD x", "2:13", "such as 30s"},
      {"FROM a\nHEALTHCHECK --retries=-1 CMD x", "2:13", "0 or more"},
      {"FROM a\nONBUILD", "2:1", "needs an instruction"},
      {"FROM a\nONBUILD ONBUILD RUN x", "2:9", "may not follow"},
      {"FROM a\nONBUILD FROM x", "2:9", "may not follow"},
      {"FROM a\nONBUILD MAINTAINER x", "2:9", "may not follow"},
      {"FROM a\nONBUILD RNU x", "2:9", "did you mean RUN?"},
      {"FROM a\nONBUILD \\\n  ENV A", "3:7", "needs a value"},
  });
}

TEST(DockerfileErrors, CopyAndHeredocs) {
  check({
      {"FROM a\nCOPY", "2:1", "source and a destination"},
      {"FROM a\nCOPY a", "2:1", "source and a destination"},
      {"FROM a\nCOPY [\"a\"]", "2:1", "source and a destination"},
      {"FROM a\nADD []", "2:1", "source and a destination"},
      {"FROM a\nCOPY --from=$X a b", "2:6", "takes no variables"},
      {"FROM a\nCOPY --parents a b", "2:6", "not supported"},
      {"FROM a\nCOPY --link=maybe a b", "2:6", "true or false"},
      {"FROM a\nCOPY --chwon=a b c", "2:6", "did you mean --chown?"},
      {"FROM a\nCOPY --chown a b", "2:6", "needs a value"},
      {"FROM a\nCOPY --from=a --from=b c d", "2:15", "twice"},
      {"FROM a\nADD --from=a b c", "2:5", "ADD has no flag --from"},
      {"FROM a\nCOPY --checksum=a b c", "2:6", "COPY has no flag --checksum"},
      {"FROM a\nCOPY \"a b\" c", "2:6", "double quote"},
      {"FROM a\nCOPY a ${B", "2:8", "'}' is missing"},
      {"FROM a\nCOPY --chown=${B a b", "2:6", "'}' is missing"},
      {"FROM a\nRUN <<EOF\nb\n", "2:5", "there is no line 'EOF'"},
      {"FROM a\nRUN cat <<A <<B\nA\n", "2:13", "there is no line 'B'"},
      {"FROM a\nRUN <<EOF\n EOF", "2:5", "there is no line 'EOF'"},
      {"FROM a\nCOPY a <<EOF\nEOF", "2:8", "destination cannot be"},
      {"FROM a\nCOPY << EOF /x\nEOF", "2:1", "without a blank"},
      {"FROM a\nCOPY <<a/b /x\na/b", "2:6", "cannot be one"},
      {"FROM a\nCOPY <<.. /x\n..", "2:6", "cannot be one"},
      {"FROM a\nCOPY <<EOF /x\n${\nEOF", "2:6", "quote its name"},
  });
}

}  // namespace
}  // namespace firebreak::wire
