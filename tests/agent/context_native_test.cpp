// Contexts without a guest: the real agent, and interpreters of this host.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "context_fixture.h"

namespace firebreak::testing_agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(ContextNative, PythonKeepsStateAndGivesTheLastValue) {
  const std::string id = create("python", R"(,"id":"mine","env":{"A":"b"},"cwd":"/usr")");
  EXPECT_EQ(id, "mine");
  Ran ran = run(id, "x = 6 * 7\nx");
  EXPECT_EQ(ran.value(), "42");
  EXPECT_EQ(ran.order, "sid");
  EXPECT_TRUE(ran.items[0].at("main").as_bool());
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_EQ(ran.done.at("execution_count").as_int64(), 1);
  ran = run(id, "_ + x");
  EXPECT_EQ(ran.value(), "84");
  EXPECT_EQ(ran.done.at("execution_count").as_int64(), 2);
  EXPECT_EQ(
      run(id, "import os; (os.environ['A'], os.environ['FROM'], os.getcwd(), __name__)").value(),
      "('b', 'tenant', '/usr', '__main__')");
  EXPECT_EQ(run(id, "None").order, "sd");
  EXPECT_EQ(run(id, "os.environ['MPLBACKEND']").value(), "'Agg'");
  EXPECT_EQ(data_->call("POST", "/contexts", R"({"language":"python","id":"mine"})").status, 409);
  EXPECT_EQ(data_->call("GET", "/contexts").json().at("contexts").as_array().size(), 1U);
  EXPECT_EQ(data_->call("GET", "/execs").json().at("execs").as_array().size(), 0U);
  EXPECT_EQ(status(id).at("state").as_string(), "idle");
  EXPECT_EQ(data_->call("DELETE", "/contexts/mine").status, 200);
  EXPECT_EQ(data_->call("GET", "/contexts/mine").status, 404);
}

TEST_F(ContextNative, WhatIsNotInstalledIsNamed) {
  Reply reply = data_->call("POST", "/contexts", R"({"language":"cobol"})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("python"));
  reply = data_->call("POST", "/contexts", R"({"language":"python","env":{"PATH":"/nowhere"}})");
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.body, HasSubstr("python3 is not installed; installed: bash"));
  EXPECT_EQ(data_->call("POST", "/contexts", R"({"language":"bash","cwd":"/nowhere"})").status,
            400);
  EXPECT_EQ(data_->call("POST", "/contexts", "{}").status, 400);
  EXPECT_EQ(data_->call("GET", "/contexts").json().at("contexts").as_array().size(), 0U);
}

TEST_F(ContextNative, AnInterpreterThatCannotStartSaysWhy) {
  std::ofstream(dir_ + "/python3") << "#!/bin/sh\necho broken here >&2\nexit 3\n";
  ASSERT_EQ(::chmod((dir_ + "/python3").c_str(), 0755), 0);
  const Reply reply =
      data_->call("POST", "/contexts", R"({"language":"python","env":{"PATH":")" + dir_ + "\"}}");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("broken here"));
  EXPECT_EQ(data_->call("GET", "/contexts").json().at("contexts").as_array().size(), 0U);
}

TEST_F(ContextNative, ModulesAreLoadedBeforeItIsReady) {
  std::ofstream(dir_ + "/fb_one.py") << "print('printed')\nimport os\npid = os.getpid()\n";
  const std::string where = R"(,"cwd":"/","env":{"PYTHONPATH":")" + dir_ + R"("},"modules":)";
  const std::string id = create("python", where + R"(["colorsys","fb_one","xml.dom"])");
  const Ran ran =
      run(id,
          "import sys, os\n[m in sys.modules for m in ('colorsys', 'fb_one', "
          "'xml.dom')], 'fb_one' in globals(), sys.modules['fb_one'].pid == os.getpid()");
  EXPECT_EQ(ran.value(), "([True, True, True], False, True)");
  EXPECT_EQ(ran.state(), "fresh");
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(run(id, "os._exit(1)").status(), "died");
  EXPECT_EQ(run(id, "import sys; 'fb_one' in sys.modules").value(), "False");

  std::ofstream(dir_ + "/fb_exits.py") << "import sys; sys.exit(3)";
  std::ofstream(dir_ + "/fb_broken.py") << "x = = 1";
  const std::pair<const char*, const char*> failures[] = {
      {"fb_nope", "cannot import fb_nope: ModuleNotFoundError: No module named 'fb_nope'"},
      {"fb_exits", "cannot import fb_exits: SystemExit: 3"},
      {"fb_broken", "SyntaxError: invalid syntax"}};
  for (const auto& [name, why] : failures) {
    const Reply reply = data_->call(
        "POST", "/contexts", R"({"language":"python")" + where + R"(["fb_one",")" + name + "\"]}");
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(why));
  }
  std::string many = "[\"m\"";
  for (int i = 0; i < 64; ++i) many += ",\"m\"";
  for (const std::string& wrong : {many + "]", std::string(R"([""])"), std::string(R"([1])"),
                                   "[\"" + std::string(201, 'm') + "\"]"})
    EXPECT_EQ(
        data_->call("POST", "/contexts", R"({"language":"python","modules":)" + wrong + "}").status,
        400)
        << wrong;
  EXPECT_EQ(data_->call("POST", "/contexts", R"({"language":"bash","modules":["m"]})").status, 400);
  EXPECT_EQ(data_->call("GET", "/contexts").json().at("contexts").as_array().size(), 1U);
}

TEST_F(ContextNative, ModulesOfNodeAreLoadedBeforeItIsReady) {
  std::filesystem::create_directories(dir_ + "/node_modules/@fb/one");
  std::ofstream(dir_ + "/node_modules/@fb/one/index.js") << "exports.pid = process.pid;";
  const std::string cwd = R"(,"cwd":")" + dir_ + R"(","modules":)";
  const std::string id = create("node", cwd + R"(["@fb/one","zlib"])");
  EXPECT_EQ(run(id, "Object.keys(require.cache).some(name => name.includes('@fb/one'))").value(),
            "true");
  EXPECT_EQ(run(id, "require('@fb/one').pid === process.pid").value(), "true");
  const Reply reply =
      data_->call("POST", "/contexts", R"({"language":"node")" + cwd + R"(["fb-nope"]})");
  EXPECT_EQ(reply.status, 503) << reply.body;
  EXPECT_THAT(reply.body, HasSubstr("cannot load fb-nope: Error: Cannot find module 'fb-nope'"));
}

TEST_F(ContextNative, PythonErrorsAreDataWithoutOurFrames) {
  const std::string id = create("python");
  Ran ran = run(id, "def f():\n    return 1 / 0\nprint('before')\nf()");
  EXPECT_EQ(ran.status(), "error");
  EXPECT_EQ(ran.order, "soxd");
  EXPECT_EQ(ran.error.at("name").as_string(), "ZeroDivisionError");
  EXPECT_EQ(ran.error.at("message").as_string(), "division by zero");
  EXPECT_THAT(ran.traceback(), HasSubstr("File \"<cell 1>\", line 4, in <module>\n    f()\n"));
  EXPECT_THAT(ran.traceback(), HasSubstr("    return 1 / 0\n"));
  EXPECT_THAT(ran.traceback(), Not(HasSubstr("firebreak")));
  ran = run(id, "x = (");
  EXPECT_EQ(ran.error.at("name").as_string(), "SyntaxError");
  EXPECT_THAT(ran.traceback(), Not(HasSubstr("firebreak")));
  ran = run(id, "async def g(): raise ValueError('deep') from KeyError('k')\nawait g()");
  EXPECT_EQ(ran.error.at("name").as_string(), "ValueError");
  EXPECT_THAT(ran.traceback(), HasSubstr("KeyError: 'k'"));
  EXPECT_THAT(ran.traceback(), Not(HasSubstr("asyncio")));
  ran = run(id, "input('? ')");
  EXPECT_EQ(ran.error.at("name").as_string(), "EOFError");
  EXPECT_EQ(run(id, "import sys; sys.exit()").status(), "ok");
  ran = run(id, "sys.exit('enough')");
  EXPECT_EQ(ran.error.at("name").as_string(), "SystemExit");
  EXPECT_EQ(ran.error.at("message").as_string(), "enough");
  EXPECT_EQ(run(id, "sys.stdin.read()").value(), "''");
  EXPECT_EQ(run(id, "f").status(), "ok") << "the state is still there";
  EXPECT_EQ(run(id, "def r(n): return r(n + 1)\nr(0)").error.at("name").as_string(),
            "RecursionError");
}

TEST_F(ContextNative, PythonAwaitsAtTheTopAndTasksGoOnBetweenRuns) {
  const std::string id = create("python");
  EXPECT_EQ(run(id,
                "import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 'ok'\n"
                "await f()")
                .value(),
            "'ok'");
  run(id,
      "seen = []\nasync def tick():\n  for i in range(3):\n    seen.append(i)\n"
      "    await asyncio.sleep(0.01)\ntask = asyncio.ensure_future(tick())\n"
      "await asyncio.sleep(0)");
  data_->until([] { return false; }, 300ms);
  EXPECT_EQ(run(id, "seen").value(), "[0, 1, 2]");
  EXPECT_EQ(run(id, "asyncio.run(f())").value(), "'ok'");
}

TEST_F(ContextNative, PythonRichResultsInOrderWithOutput) {
  const std::string id = create("python");
  Ran ran = run(id, R"(
class Rich:
    def __repr__(self): return 'rich'
    def _repr_html_(self): return '<b>é</b>'
    def _repr_png_(self): return b'\x89PNG'
    def _repr_svg_(self): return None
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_markdown_(self): raise RuntimeError('broken')
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'plain', 'text/latex': '$x$', 'application/x-own': 'own'}
print('first', end='')
display('shown', Bundle())
print('second', end='')
Rich()
)");
  EXPECT_EQ(ran.out, "firstsecond");
  EXPECT_THAT(ran.err, HasSubstr("_repr_markdown_ of Rich failed"));
  // What was flushed before an item comes before it; what came after may overtake it.
  EXPECT_THAT(ran.order, testing::StartsWith("so"));
  EXPECT_THAT(ran.order, testing::EndsWith("id"));
  EXPECT_LT(ran.order.find('o'), ran.order.find('i'));
  std::vector<std::string> items;
  for (const json::object& item : ran.items)
    items.push_back(json::serialize(item.at("index")) + " " + ran.text(item, "type") + " " +
                    json::serialize(item.at("data")));
  EXPECT_THAT(items,
              ElementsAre("1 text \"'shown'\"", "2 text \"plain\"", "2 latex \"$x$\"",
                          "2 application/x-own \"own\"", "3 text \"rich\"", "3 html \"<b>é</b>\"",
                          "3 png \"iVBORw==\"", "3 json {\"a\":[1,null]}"));
  EXPECT_FALSE(ran.items[0].at("main").as_bool());
  EXPECT_TRUE(ran.items[4].at("main").as_bool());
}

// No plotting library is on this host: a stand-in with the same surface.
TEST_F(ContextNative, OpenFiguresBecomePictures) {
  const std::string id = create("python");
  run(id, R"(
import sys, types
figure = types.ModuleType('matplotlib.figure')
class Figure:
    def savefig(self, to, format, bbox_inches): to.write(b'picture' + bytes([self.number + 48]))
figure.Figure = Figure
pyplot = types.ModuleType('matplotlib.pyplot')
figures = {}
def new(number=None):
    if number in figures: return figures[number]
    f = Figure(); f.number = len(figures) + 1; figures[f.number] = f
    return f
def close(what):
    if what == 'all': figures.clear()
    else: figures.pop(what.number, None)
pyplot.figure, pyplot.close, pyplot.get_fignums = new, close, lambda: list(figures)
sys.modules['matplotlib.figure'], sys.modules['matplotlib.pyplot'] = figure, pyplot
)");
  const Ran ran = run(id, "a = pyplot.figure(); b = pyplot.figure(); a");
  ASSERT_EQ(ran.items.size(), 4U) << "one figure is the value, the other was left open";
  EXPECT_EQ(ran.text(ran.items[1], "type"), "png");
  EXPECT_TRUE(ran.items[1].at("main").as_bool());
  EXPECT_EQ(ran.text(ran.items[1], "data"), "cGljdHVyZTE=");
  EXPECT_EQ(ran.text(ran.items[3], "data"), "cGljdHVyZTI=");
  EXPECT_FALSE(ran.items[3].at("main").as_bool());
  EXPECT_EQ(run(id, "figures").value(), "{}");
}

TEST_F(ContextNative, OutputOfChildrenAndOfCIsCapturedAndStreams) {
  const std::string id = create("python");
  const Ran ran = run(id,
                      "import os, ctypes, subprocess\nprint('py')\nos.system('echo child')\n"
                      "ctypes.CDLL(None).puts(b'from c')\nsubprocess.run('echo err >&2', "
                      "shell=True)\nprint('thread') if False else None");
  EXPECT_EQ(ran.out, "py\nchild\nfrom c\n");
  EXPECT_EQ(ran.err, "err\n");
  const auto stream = start(id, "import time\nprint('now')\ntime.sleep(60)");
  EXPECT_TRUE(until_body(stream, "now\n"));
  EXPECT_EQ(status(id).at("state").as_string(), "busy");
  EXPECT_EQ(data_->call("POST", "/contexts/" + id + "/run", R"({"code":"1"})").status, 409);
  data_->call("POST", "/contexts/" + id + "/interrupt");
  EXPECT_EQ(finish(stream).status(), "interrupted");
}

TEST_F(ContextNative, AnInterruptOfARunThatHasEndedLeavesTheNextOneAlone) {
  const std::string id = create("python");
  const auto hits = [&](const std::string& run) {
    const std::string path = "/contexts/" + id + "/runs/" + run + "/interrupt";
    return data_->call("POST", path).json().at("interrupted").as_bool();
  };
  run(id, "1");
  const auto stream = start(id, "import time\nprint('second')\ntime.sleep(60)");
  ASSERT_TRUE(until_body(stream, "second\n"));
  for (const char* other : {"1", "3", "x"}) EXPECT_FALSE(hits(other)) << other;
  EXPECT_TRUE(hits("2"));
  EXPECT_EQ(finish(stream).status(), "interrupted");
}

TEST_F(ContextNative, InterruptTimeoutRestart) {
  const std::string id = create("python");
  run(id, "x = 1\nimport time");
  auto stream = start(id, "while True: pass");
  // Of two requests at once, the one without a body may be seen first.
  ASSERT_TRUE(until_body(stream, "run"));
  data_->call("POST", "/contexts/" + id + "/interrupt");
  Ran ran = finish(stream);
  EXPECT_EQ(ran.status(), "interrupted");
  EXPECT_EQ(ran.error.at("name").as_string(), "KeyboardInterrupt");
  EXPECT_FALSE(
      data_->call("POST", "/contexts/" + id + "/interrupt").json().at("interrupted").as_bool());
  ran = run(id, "time.sleep(30)", 200);
  EXPECT_EQ(ran.status(), "timeout");
  EXPECT_EQ(run(id, "x").value(), "1") << "an interrupt was enough";
  ran = run(id, "while True:\n  try: time.sleep(30)\n  except KeyboardInterrupt: print('no')", 200);
  EXPECT_EQ(ran.status(), "timeout");
  EXPECT_EQ(ran.out, "no\n");
  ran = run(id, "x");
  EXPECT_EQ(ran.error.at("name").as_string(), "NameError") << "it had to be killed";
  EXPECT_EQ(ran.state(), "restarted");
  EXPECT_EQ(status(id).at("restarts").as_int64(), 1);
  run(id, "y = 2");
  stream = start(id, "import time\nprint('on')\ntime.sleep(30)");
  ASSERT_TRUE(until_body(stream, "on\n"));
  const Reply restarted = data_->call("POST", "/contexts/" + id + "/restart");
  EXPECT_EQ(restarted.status, 200) << restarted.body;
  EXPECT_EQ(restarted.json().at("id").as_string(), id);
  EXPECT_EQ(finish(stream).status(), "died");
  ran = run(id, "y");
  EXPECT_EQ(ran.error.at("name").as_string(), "NameError");
  EXPECT_EQ(ran.done.at("execution_count").as_int64(), 1);
  EXPECT_EQ(ran.state(), "fresh") << "it was asked for";
}

TEST_F(ContextNative, AnInterpreterThatDiesIsReplaced) {
  const std::string id = create("python");
  const Ran ran = run(id, "print('last')\nimport os, signal\nos.kill(os.getpid(), 9)");
  EXPECT_EQ(ran.status(), "died");
  EXPECT_EQ(ran.out, "last\n");
  EXPECT_EQ(ran.done.at("exit").as_object().at("signal").as_int64(), SIGKILL);
  EXPECT_EQ(ran.state(), "fresh");
  const Ran next = run(id, "1 + 1");
  EXPECT_EQ(next.value(), "2");
  EXPECT_EQ(next.state(), "restarted");
  EXPECT_EQ(run(id, "os._exit(7)").status(), "error");
  EXPECT_EQ(run(id, "import os; os._exit(7)").status(), "died");
  EXPECT_EQ(run(id, "'again'").value(), "'again'");
  // Between two runs it may die, too; the run after the next finds what the next one left.
  const std::int64_t pid = status(id).at("pid").as_int64();
  ASSERT_EQ(::kill(static_cast<pid_t>(pid), SIGKILL), 0);
  ASSERT_TRUE(data_->until([&] { return status(id).at("state").as_string() == "dead"; }, 20s));
  EXPECT_EQ(run(id, "x = 1").state(), "restarted");
  EXPECT_EQ(run(id, "x").state(), "kept");
  // Deleting ends a run and whoever waits for it.
  const auto stream = start(id, "import time; time.sleep(60)");
  EXPECT_TRUE(data_->until([&] { return !data_->reply(stream).body.empty(); }));
  EXPECT_EQ(data_->call("DELETE", "/contexts/" + id).status, 200);
  EXPECT_EQ(finish(stream).status(), "died");
}

TEST_F(ContextNative, AHostileKernelEndsItsOwnRunOnly) {
  const std::string id = create("python");
  const std::string other = create("bash");
  const std::string find =
      "import os, stat\n"
      "fd = [f for f in range(64, 80) if os.path.exists('/proc/self/fd/%d' % f)][0]\n";
  EXPECT_EQ(
      run(id, find + "os.write(fd, b'Xgarbage!!' * 1000)\nimport time; time.sleep(30)").status(),
      "died");
  EXPECT_EQ(run(id, find + "os.write(fd, b'Iffffffff')\nimport time; time.sleep(30)").status(),
            "died");
  EXPECT_EQ(run(id, find + "os.close(fd)").status(), "died");
  EXPECT_EQ(run(id, find + "os.write(fd, b'I00100000' + b'x' * 100000)\nos._exit(0)").status(),
            "died");
  EXPECT_EQ(run(id, "'fine'").value(), "'fine'");
  EXPECT_EQ(run(other, "echo fine").out, "fine\n");
}

TEST_F(ContextNative, LargeOutputFlowsAndWaitsForItsReader) {
  const std::string id = create("python");
  data_->hold(true);
  const auto stream = start(id, "for i in range(300000): print(i)\n'x' * 900000");
  data_->until([] { return false; }, 1s);
  EXPECT_LT(data_->reply(stream).body.size(), 600'000U) << "nobody reads";
  EXPECT_EQ(status(id).at("state").as_string(), "busy");
  data_->hold(false);
  data_->release(stream);
  const Ran ran = finish(stream);
  std::string want;
  for (int i = 0; i < 300000; ++i) want += std::to_string(i) + "\n";
  EXPECT_TRUE(ran.out == want);
  EXPECT_EQ(ran.value(), "'" + std::string(900000, 'x') + "'");
  EXPECT_EQ(ran.order, "soid");
  const Ran big = run(id,
                      "class Big:\n  def __repr__(self): return 'big'\n"
                      "  def _repr_html_(self): return 'h' * 5000000\n"
                      "  def _repr_svg_(self): return 's' * 40000000\nBig()");
  ASSERT_EQ(big.items.size(), 2U);
  EXPECT_EQ(big.items[1].at("data").as_string().size(), 5'000'000U);
  EXPECT_THAT(big.err, HasSubstr("svg is too large"));
  EXPECT_EQ(big.status(), "ok");
}

TEST_F(ContextNative, ACutStreamIsTakenUpAtItsOffset) {
  const std::string id = create("python");
  const auto first = start(id,
                           "import time\nfor i in range(200):\n  print(i)\n  display(i)\n"
                           "  time.sleep(0.005)\n'end'");
  ASSERT_TRUE(until_body(first, "\n"));
  std::string seen = data_->reply(first).body;
  for (int cut = 0; cut < 5; ++cut) {
    ASSERT_TRUE(data_->connect());
    const auto stream = data_->start(
        "GET", "/contexts/" + id + "/runs/1/output?offset=" + std::to_string(seen.size()));
    data_->until([&] { return data_->reply(stream).body.size() > 2000; }, 5s);
    seen += data_->reply(stream).body;
  }
  const std::string path = "/contexts/" + id + "/runs/1/output?offset=";
  seen += data_->call("GET", path + std::to_string(seen.size())).body;
  const Ran ran = parse_run(seen);
  std::string want;
  for (int i = 0; i < 200; ++i) want += std::to_string(i) + "\n";
  EXPECT_EQ(ran.out, want);
  EXPECT_EQ(ran.items.size(), 201U);
  EXPECT_EQ(ran.value(), "'end'");
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_TRUE(ran.whole);
  EXPECT_EQ(data_->call("GET", path + std::to_string(seen.size())).body, "");
  EXPECT_EQ(data_->call("GET", path + std::to_string(seen.size() + 1)).status, 400);
  EXPECT_EQ(data_->call("GET", "/contexts/" + id + "/runs/2/output").status, 404);
}

TEST_F(ContextNative, TheWakeSignalSeedsAnew) {
  const std::string python = create("python");
  EXPECT_EQ(run(python,
                "import random, os, ssl\nrandom.seed(1); a = random.random()\n"
                "random.seed(1); os.kill(os.getpid(), 41); a == random.random()")
                .value(),
            "False");
  const std::string bash = create("bash");
  EXPECT_EQ(run(bash,
                "RANDOM=1; a=$RANDOM$RANDOM; RANDOM=1; kill -41 $$; "
                "[ $a = $RANDOM$RANDOM ] || echo differ")
                .out,
            "differ\n");
}

TEST_F(ContextNative, PythonChildrenThatForkDoNotComeBack) {
  const std::string id = create("python");
  const Ran ran = run(id, "import os\npid = os.fork()\nif pid: os.wait()\nelse: 1 / 0");
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_EQ(run(id,
                "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: "
                "r = p.map(abs, [-1, -2])\nr")
                .value(),
            "[1, 2]");
}

TEST_F(ContextNative, Bash) {
  const std::string id = create("bash");
  Ran ran = run(id, "x=5; cd /usr; f() { echo in f $x; }");
  EXPECT_EQ(ran.status(), "ok");
  EXPECT_EQ(run(id, "f; pwd; echo err >&2").out, "in f 5\n/usr\n");
  ran = run(id, "echo before; false");
  EXPECT_EQ(ran.status(), "error");
  EXPECT_EQ(ran.error.at("message").as_string(), "exit status 1");
  ran = run(id, "g() { exit 4; echo no; }; g; echo no");
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.error.at("message").as_string(), "exit status 4");
  EXPECT_EQ(run(id, "(exit 3); echo $? $x").out, "3 5\n");
  EXPECT_EQ(run(id, "cat; read y; echo $?").out, "1\n");
  EXPECT_EQ(run(id, "syntax (").status(), "error");
  for (const char* code : {"while :; do :; done; echo no", "sleep 30; echo no",
                           "h() { sleep 30; echo no; }; h; echo no"}) {
    const auto stream = start(id, code);
    data_->until([] { return false; }, 100ms);
    data_->call("POST", "/contexts/" + id + "/interrupt");
    ran = finish(stream);
    EXPECT_EQ(ran.status(), "interrupted") << code;
    EXPECT_EQ(ran.out, "") << code;
  }
  EXPECT_EQ(run(id, "echo é $x").out, "é 5\n");
  EXPECT_EQ(run(id, "sleep 30", 200).status(), "timeout");
  EXPECT_EQ(run(id, "kill -9 $$").status(), "died");
  EXPECT_EQ(run(id, "echo new $x").out, "new\n");
}

TEST_F(ContextNative, Node) {
  const Reply made = data_->call("POST", "/contexts", R"({"language":"node"})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string id(made.json().at("id").as_string());
  EXPECT_EQ(run(id, "const x = 6 * 7; x").value(), "42");
  Ran ran = run(id, "console.log('out'); console.error('err'); x + 1");
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.value(), "43");
  EXPECT_EQ(ran.order.back(), 'd');
  EXPECT_EQ(run(id, "await new Promise(done => setTimeout(() => done('late'), 10))").value(),
            "'late'");
  ran = run(id, "function f() { null.x }\nf()");
  EXPECT_EQ(ran.error.at("name").as_string(), "TypeError");
  EXPECT_THAT(ran.traceback(), HasSubstr("<cell 4>:1"));
  EXPECT_THAT(ran.traceback(), Not(HasSubstr("node:")));
  EXPECT_EQ(run(id, "function (").error.at("name").as_string(), "SyntaxError");
  const auto stream = start(id, "await new Promise(() => {})");
  ASSERT_TRUE(until_body(stream, "run"));
  data_->call("POST", "/contexts/" + id + "/interrupt");
  EXPECT_EQ(finish(stream).status(), "interrupted");
  EXPECT_EQ(run(id, "process.stdout.write('z'.repeat(3e6)); 'end'").out.size(), 3'000'000U);
  EXPECT_EQ(run(id, "x").value(), "42");
  EXPECT_EQ(run(id, "process.exit(1)").status(), "died");
  EXPECT_EQ(run(id, "typeof x").value(), "'undefined'");
  EXPECT_EQ(run(id, "while (true) {}", 200).status(), "timeout");
  EXPECT_EQ(run(id, "'new'").value(), "'new'");
}

}  // namespace
}  // namespace firebreak::testing_agent
