// Magics and commands of notebooks in Python contexts: the real agent, and interpreters of this
// host.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "context_fixture.h"

namespace firebreak::testing_agent {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MagicsNative : public ContextNative {
 protected:
  void SetUp() override {
    ContextNative::SetUp();
    id_ = create("python", R"(,"cwd":")" + dir_ + R"(","env":{"PYTHONPATH":")" + dir_ + "\"}");
  }
  Ran run(std::string_view code) { return ContextNative::run(id_, code); }
  std::string error_of(std::string_view code) {
    const Ran ran = run(code);
    EXPECT_EQ(ran.status(), "error") << code;
    return ran.text(ran.error, "name") + ": " + ran.text(ran.error, "message");
  }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }

  std::string id_;
};

TEST_F(MagicsNative, CommandsRunInTheShell) {
  Ran ran = run("print('before')\n!echo out; echo err >&2; exit 3\nprint('after')\n_exit_code");
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_EQ(ran.out, "before\nout\nafter\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.value(), "3");
  EXPECT_EQ(run("lines = !printf 'a\\nb\\n'; echo c >&2\nlines, lines.s, _exit_code").value(),
            "(['a', 'b', 'c'], 'a b c', 0)");
  EXPECT_EQ(run("!!echo shown").value(), "['shown']");
  EXPECT_EQ(run("a = b, c = !echo 1; echo 2\na, b, c").value(), "(['1', '2'], '1', '2')");
  EXPECT_EQ(run("d = {}\nd['=!'] = !echo key\nd").value(), "{'=!': ['key']}");
  EXPECT_EQ(run("n: list = !echo typed\nn").value(), "['typed']");
  EXPECT_EQ(run("!echo two \\\n  lines\\\\\n!echo more").out, "two lines\\\nmore\n");
  EXPECT_EQ(run("if lines:\n    for i in range(2):\n        !echo {i}\nelse:\n    !echo no").out,
            "0\n1\n");
  EXPECT_EQ(run("!no-such-program\n_exit_code").value(), "127");
  EXPECT_EQ(run("!sleep 60 &\n'at once'").value(), "'at once'");
  EXPECT_EQ(run("!cat; echo end of input").out, "end of input\n");
  EXPECT_EQ(run("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as to:\n"
                "    !echo captured\nto.getvalue()")
                .value(),
            "'captured\\n'");
}

TEST_F(MagicsNative, ValuesOfPythonGoIntoCommands) {
  run("x = 41\nname = 'a b'\nd = {'k': 1}\nlong = 'é' * 3");
  const std::pair<const char*, const char*> cases[] = {
      {"!echo {x} $x {x + 1}", "41 41 42\n"},
      {"!echo \"$name\" {name!r} {d['k']} {long}", "a b a b 1 ééé\n"},
      {"!echo '$x' \"$x\"", "$x 41\n"},
      {"!y=shell; echo $$y {{x}}", "shell {x}\n"},
      {"!echo {[i for i in range(x - 39)]}", "[0, 1]\n"},
      // If one of them is not of Python, all are the shell's.
      {"!y=shell; echo $y {x}", "shell {x}\n"},
      {"!echo 1 2 | awk '{print $2}'", "2\n"},
      {"!echo '{\"a\": 1}' {} x{ $x}", "{\"a\": 1} {} x{ }\n"},
      {"!for i in 1 2; do echo ${i}; done", "1\n2\n"},
      {"!echo {1/0}", "{1/0}\n"},
      {"def f(x):\n    !echo {x} $x\nf('local')", "local local\n"},
      {"class C:\n    y = 7\n    !echo {y}", "7\n"},
  };
  for (const auto& [code, out] : cases) EXPECT_EQ(run(code).out, out) << code;
}

TEST_F(MagicsNative, CommandsStreamAndAreInterrupted) {
  const auto stream = start(id_, "x = 1\n!echo now; sleep 60\nx = 2");
  ASSERT_TRUE(until_body(stream, "now\n"));
  data_->call("POST", "/contexts/" + id_ + "/interrupt");
  EXPECT_EQ(finish(stream).status(), "interrupted");
  EXPECT_EQ(run("x").value(), "1");
}

TEST_F(MagicsNative, CellsOfOtherKinds) {
  Ran ran = run("%%bash\nx={1,2}\nfor i in 1 2; do\n  echo $i {x}\ndone\nread y; echo $?");
  EXPECT_EQ(ran.out, "1 {x}\n2 {x}\n1\n");
  ran = run("\n\n%%sh\necho before\nexit 3\n");
  EXPECT_EQ(ran.status(), "error");
  EXPECT_EQ(ran.out, "before\n");
  EXPECT_EQ(ran.error.at("name").as_string(), "CalledProcessError");
  EXPECT_THAT(ran.traceback(), HasSubstr("'%%sh' returned non-zero exit status 3"));
  EXPECT_EQ(run("_exit_code").value(), "3");
  EXPECT_EQ(run("%%bash\n#" + std::string(300'000, 'x') + "\necho long").out, "long\n");
  run("part = 'name'");
  EXPECT_EQ(run("%%writefile a {part}.txt\n%cd {part}\n  é\n\n!x").out, "Writing a name.txt\n");
  EXPECT_EQ(run("open('a name.txt').read()").value(), "'%cd {part}\\n  é\\n\\n!x\\n'");
  EXPECT_EQ(run("%%file -a 'a name.txt'\nmore\n").out, "Appending to a name.txt\n");
  EXPECT_EQ(run("!wc -l < 'a name.txt'").out, "5\n");
  EXPECT_EQ(run("%%writefile a name.txt\n").out, "Overwriting a name.txt\n");
  EXPECT_EQ(run("import os; os.path.getsize('a name.txt')").value(), "0");
  ran = run("%%writefile no/such/directory\nx");
  EXPECT_EQ(ran.error.at("name").as_string(), "FileNotFoundError");
  EXPECT_EQ(ran.out, "");
  ran = run("%%capture taken\nprint('printed')\n!echo command; echo problem >&2\n7");
  EXPECT_EQ(ran.order, "sd");
  EXPECT_EQ(run("taken.stdout, taken.stderr").value(), "('printed\\ncommand\\n', 'problem\\n')");
  EXPECT_EQ(run("%%capture --no-stderr\nimport sys\nprint('x')\nprint('y', file=sys.stderr)").err,
            "y\n");
}

TEST_F(MagicsNative, DirectoriesAndEnvironment) {
  std::filesystem::create_directory(dir_ + "/below");
  EXPECT_EQ(run("%cd below").out, dir_ + "/below\n");
  EXPECT_EQ(run("%pwd").value(), "'" + dir_ + "/below'");
  EXPECT_EQ(run("%cd -\nhere = %pwd\nhere").value(), "'" + dir_ + "'");
  EXPECT_EQ(run("%ls").out, "below\n");
  EXPECT_EQ(run("to = 'made'\n%mkdir {to}\n%ls").out, "below\nmade\n");
  EXPECT_THAT(error_of("%cd nowhere"), StartsWith("FileNotFoundError: "));
  EXPECT_EQ(run("%env FB_A=b c").out, "env: FB_A=b c\n");
  EXPECT_EQ(run("%env FB_A").value(), "'b c'");
  EXPECT_EQ(run("v = 5\n%env FB_B {v}\n!echo $FB_B").out, "env: FB_B=5\n5\n");
  EXPECT_EQ(run("e = %env\ne['FB_A'], e['FROM']").value(), "('b c', 'tenant')");
  EXPECT_EQ(error_of("%env FB_C"), "UsageError: there is no variable FB_C in the environment");
}

TEST_F(MagicsNative, Timing) {
  EXPECT_THAT(run("%timeit -n 3 -r 2 sum(range(10))").out,
              EndsWith("s per loop (mean ± std. dev. of 2 runs, 3 loops each)\n"));
  Ran ran = run("calls = []\n%timeit -n2 -r3 calls.append(1)\nlen(calls)");
  EXPECT_EQ(ran.value(), "6");
  ran = run("%%timeit -n 2 -r 2 y = [1]\ny.append('''\n  text''')\ncalls.append(y)");
  EXPECT_THAT(ran.out, HasSubstr("2 runs, 2 loops each"));
  EXPECT_EQ(run("[len(y) for y in calls[6:]], calls[6][1]").value(), "([3, 3, 3, 3], '\\n  text')")
      << "each run has one setup, and the text of a string is not indented";
  EXPECT_EQ(run("t = %timeit -q -o -n 1 -r 1 1\nt.loops, t.repeat, len(t.all_runs)").value(),
            "(1, 1, 1)");
  EXPECT_THAT(run("%timeit -r 1 x = 1").out, HasSubstr("1 run, "));
  ran = run("%time z = 5\n%time z + 1");
  EXPECT_THAT(ran.out, HasSubstr("CPU times: user "));
  EXPECT_THAT(ran.out, HasSubstr("\nWall time: "));
  EXPECT_EQ(ran.value(), "6");
  ran = run("%%time\nimport asyncio\nz = await asyncio.sleep(0, 9)\n!echo {z}\nz");
  EXPECT_THAT(ran.out, StartsWith("9\nCPU times: "));
  EXPECT_EQ(ran.value(), "9");
  EXPECT_THAT(run("%%time\n%%bash\necho nested").out, StartsWith("nested\nCPU"));
}

TEST_F(MagicsNative, FilesAreRun) {
  write("script.py",
        "import sys\nargs = sys.argv\nname = __name__\ndef f(): return name\n"
        "class C: pass\nif len(args) > 2: sys.exit(int(args[2]))\n");
  write("fails.py", "x = 1\n\n1 / 0\n");
  EXPECT_EQ(run("name = 'mine'\n%run script.py 'a b' 0\nargs, name, f()").value(),
            "(['script.py', 'a b', '0'], '__main__', '__main__')");
  EXPECT_EQ(
      run("import pickle, sys\npickle.loads(pickle.dumps(C())).__class__ is C, sys.argv").value(),
      "(True, [''])");
  EXPECT_EQ(error_of("%run script.py a 4"), "SystemExit: 4");
  const Ran ran = run("print('first')\n%run fails.py");
  EXPECT_THAT(ran.traceback(),
              HasSubstr("line 2, in <module>\n    %run fails.py\n  File \"fails.py\", line 3"));
  write("shares.py", "name += '!'\n");
  EXPECT_EQ(run("name = 'mine'\n%run -i shares.py\nname").value(), "'mine!'");
  EXPECT_THAT(error_of("%run"), HasSubstr("needs the name of a file"));
}

TEST_F(MagicsNative, WhatPipInstalledIsFound) {
  // A stand-in, because no index can be reached: it writes a module of the name.
  std::filesystem::create_directory(dir_ + "/pip");
  write("pip/__init__.py", "");
  write("pip/__main__.py",
        "import sys\nprint(sys.argv[1:])\nopen(sys.argv[2] + '.py', 'w').write('v = 7')\n"
        "sys.exit(5)\n");
  const Ran ran =
      run("try: import fb_fresh\nexcept ImportError: print('not yet')\n"
          "%pip install fb_fresh \\\n  --quiet\nimport fb_fresh\nfb_fresh.v, _exit_code");
  EXPECT_EQ(ran.out, "not yet\n['install', 'fb_fresh', '--quiet']\n");
  EXPECT_EQ(ran.value(), "(7, 5)");
}

TEST_F(MagicsNative, NamesAndNotes) {
  EXPECT_EQ(run("%who").out, "There are no variables.\n");
  run("_hidden = 1\nnumbers = [1, 2]\ntext = 'x' * 100\nclass Odd:\n"
      "    def __repr__(self): raise ValueError\nodd = Odd()");
  EXPECT_EQ(run("%who").out, "Odd\tnumbers\todd\ttext\n");
  const std::string table = run("%whos").out;
  EXPECT_THAT(table, HasSubstr("numbers   list  n=2\n"));
  EXPECT_THAT(table, HasSubstr("odd       Odd   (ValueError)\n"));
  EXPECT_THAT(table, HasSubstr("text      str   'xxx"));
  Ran ran = run("%load_ext autoreload\n%autoreload 2\n%config X.y = 1\n%matplotlib inline");
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_EQ(ran.err,
            "firebreak: %load_ext has no effect here\nfirebreak: %autoreload has no effect here\n"
            "firebreak: %config has no effect here\n");
  EXPECT_THAT(run("%matplotlib widget").err, HasSubstr("figures come back as pictures"));
}

TEST_F(MagicsNative, WhatPythonCanReadIsNotTouched) {
  run("x, y, ls, cd = 7, 4, 2, 3");
  const std::pair<const char*, const char*> cases[] = {
      {"(x\n%y)", "3"},
      {"x \\\n%y", "3"},
      {"'''\n%cd /\n!ls\n%%bash\n'''", "'\\n%cd /\\n!ls\\n%%bash\\n'"},
      {"'a\\\n!ls'", "'a!ls'"},
      {"'%d' % x", "'7'"},
      {"[x\n!= y][0]", "True"},
      {"# %cd /\nx", "7"},
      {"f'{x!r}'", "'7'"},
      {"x %ls", "1"},
  };
  for (const auto& [code, value] : cases) {
    EXPECT_EQ(run(code).value(), value) << code;
    // Nor is it when another line of the cell is a command.
    const Ran ran = run("!echo magic\n" + std::string(code));
    EXPECT_EQ(ran.value(), value) << code;
    EXPECT_EQ(ran.out, "magic\n") << code;
  }
  EXPECT_EQ(run("s = f\"\"\"\n!{x}\n%who\n\"\"\"\n!echo end\ns").value(), "'\\n!7\\n%who\\n'");
  EXPECT_EQ(run("t = (1,\n  # !ls\n  2) ; u = '!'\r\n!echo $u\r\nt").value(), "(1, 2)");
}

TEST_F(MagicsNative, WhatIsNeitherPythonNorMagicIsASyntaxErrorInItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"x = (\n!ls\n", "SyntaxError: "},
      {"x = '''\n!ls\n", "SyntaxError: unterminated triple-quoted string"},
      {"!echo never\nx = = 1", "SyntaxError: invalid syntax (<cell 3>, line 2)"},
      {"x == !ls", "SyntaxError: invalid syntax (<cell 4>, line 1)"},
      {"print(x =!ls)", "SyntaxError: invalid syntax (<cell 5>, line 1)"},
      {"x = 1; !ls", "SyntaxError: invalid syntax (<cell 6>, line 1)"},
      {"!echo never\n  !echo indented", "IndentationError: unexpected indent (<cell 7>, line 2)"},
      {"!", "SyntaxError: "},
      {"!= 3", "SyntaxError: "},
      {"% x", "SyntaxError: "},
      {"%%", "SyntaxError: "},
      {"x = %", "SyntaxError: "},
      {"x = 5 %\n!ls", "SyntaxError: invalid syntax (<cell 13>, line 1)"},
      {"lambda x=!ls: x", "SyntaxError: "},
      {"await = !ls", "SyntaxError: "},
  };
  for (const auto& [code, error] : cases) {
    const Ran ran = run(code);
    EXPECT_THAT(ran.text(ran.error, "name") + ": " + ran.text(ran.error, "message"),
                StartsWith(error))
        << code;
    EXPECT_EQ(ran.out, "") << code << ": nothing of it may run";
    EXPECT_THAT(ran.traceback(), Not(HasSubstr("firebreak"))) << code;
  }
}

TEST_F(MagicsNative, UnknownMagicsAreNamedBeforeAnythingRuns) {
  const Ran ran = run("print('not run')\n%sql select\n");
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.error.at("name").as_string(), "UsageError");
  EXPECT_THAT(std::string(ran.error.at("message").as_string()),
              StartsWith("line 2: there is no magic %sql; there are %autoreload, "));
  for (const char* known : {" %pip,", " %timeit,", " %%bash,", " %%writefile,", "!command"})
    EXPECT_THAT(ran.traceback(), HasSubstr(known));
  EXPECT_THAT(error_of("\n%%sql\nselect"), HasSubstr("line 2: there is no magic %%sql; there"));
  EXPECT_THAT(error_of("%bash ls"), EndsWith("there is no magic %bash, but there is %%bash"));
  EXPECT_THAT(error_of("%%pip install x"), EndsWith("no magic %%pip, but there is %pip"));
  EXPECT_THAT(error_of("# first\n%%bash\necho {a,b}"),
              EndsWith("line 2: %%bash must be in the first line of its cell"));
  EXPECT_THAT(error_of("x = = 1\n%%bash\necho {a,b}"), StartsWith("SyntaxError"));
  EXPECT_THAT(error_of("x = 1\n%%time\nx"),
              EndsWith("line 2: %%time must be in the first line of its cell"));
}

TEST_F(MagicsNative, TracebacksShowTheCellAsItWasWritten) {
  Ran ran = run("!true\ndef f():\n    %cd /nowhere\n\n\x0c\nf()");
  EXPECT_THAT(ran.traceback(), HasSubstr("line 6, in <module>\n    f()\n"));
  EXPECT_THAT(ran.traceback(), HasSubstr("line 3, in f\n    %cd /nowhere\nFileNotFoundError"));
  ran = run("!echo a \\\n  b\n\n1 / 0");
  EXPECT_THAT(ran.traceback(), HasSubstr("line 4, in <module>\n    1 / 0\n"));
  ran = run("x = 1\n%timeit -n 1 x / 0");
  EXPECT_THAT(ran.traceback(), HasSubstr("line 2, in <module>\n    %timeit -n 1 x / 0\n"));
  EXPECT_THAT(ran.traceback(), HasSubstr("ZeroDivisionError"));
  for (const char* magic : {"%%time", "%%timeit", "%%capture"}) {
    ran = run(std::string("\n") + magic + "\n\nx / 0");
    EXPECT_THAT(ran.traceback(), HasSubstr(", line 4, in ")) << magic;
    EXPECT_THAT(ran.traceback(), HasSubstr("\n    x / 0\n")) << magic;
    EXPECT_THAT(ran.traceback(), Not(HasSubstr("firebreak>"))) << magic;
  }
  EXPECT_THAT(error_of("%%time\n\nx = ("), HasSubstr("line 3"));
}

TEST_F(MagicsNative, HostileCellsEndOnlyThemselves) {
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += "=!";
  EXPECT_THAT(error_of("x " + many), StartsWith("SyntaxError"));
  EXPECT_THAT(error_of("!true\n" + std::string(5'000, '(') + "\n!true"), StartsWith("S"));
  EXPECT_EQ(run("import builtins\ndel builtins.__firebreak__").status(), "ok");
  EXPECT_THAT(error_of("!true"), StartsWith("NameError"));
  EXPECT_EQ(run("%%bash\nkill -9 $PPID").status(), "died");
  EXPECT_EQ(run("!echo new").out, "new\n");
}

}  // namespace
}  // namespace firebreak::testing_agent
