# What magics and commands of cells do (docs/contexts.md "Magics"). One program with python_cells.py and python_kernel.py.
# Python 3.8 and later; modules that few cells need are loaded by them.
import ast
import linecache
import os
import re
import string
import sys
import time

MAX_ARGUMENT = 100000  # bytes; the system takes 128 KiB
SHORTEST_TIMING = 0.2  # seconds
MAX_INFO = 60
DOLLAR = re.compile(r"\$(\$?[\w.]+)")
TIMING_OPTION = re.compile(r"-([nr])\s*(\d+)(?:\s+|$)|-([qo])(?:\s+|$)")
TIMED = """
def _firebreak_timed(_firebreak_loops, _firebreak_clock):
    pass
    _firebreak_begin = _firebreak_clock()
    for _firebreak_loop in _firebreak_loops:
        pass
    return _firebreak_clock() - _firebreak_begin
"""


class Scope:
    """Where a magic stands: its cell and line, and the names that code there sees."""

    def __init__(self, frame=None, line=1):
        self.space, self.name, self.line = kernel.space, kernel.cell, line
        if frame is not None:
            self.name, self.line = frame.f_code.co_filename, frame.f_lineno
            if frame.f_locals is not self.space:
                self.space = dict(frame.f_globals)
                self.space.update(frame.f_locals)

    def parse(self, code):
        """The tree of code that stands in the line of the magic."""
        tree = parse("\n" * (self.line - 1) + code, self.name, kernel.flags)
        return place(tree, linecache.getlines(self.name), {self.line})


# Commands


def interpolate(text, scope):
    """With the values of {expression} and $name. If one cannot be had, all is the shell's, whose signs they may be."""
    space = dict(scope.space)
    formatter = string.Formatter()
    parts = []
    try:
        for literal, expression, after_colon, conversion in formatter.parse(text):
            parts.append(interpolate_dollars(literal, space))
            if expression is None:
                continue
            if after_colon:
                expression += ":" + after_colon  # there are no formats: it is a slice
            value = formatter.convert_field(eval(expression, space), conversion)
            parts.append(format(value))
    except Exception:
        return text
    return "".join(parts)


def interpolate_dollars(text, space):
    def value(found):
        name = found.group(1)
        if text.count("'", found.end()) % 2 == 1:
            return found.group(0)  # in single quotes
        return name if name.startswith("$") else format(eval(name, space))

    return DOLLAR.sub(value, text)


class Lines(list):
    """What a command printed; as one string with newlines (n) or spaces (s)."""

    l = property(list)
    n = property("\n".join)
    s = property(" ".join)


def call_with_text(program, text, **more):
    """A process of a shell that runs `text`."""
    import subprocess

    data = text.encode("utf-8", "surrogateescape")
    if len(data) < MAX_ARGUMENT:
        return subprocess.Popen([program, "-c", text], **more)
    fd = os.memfd_create("cell")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        return subprocess.Popen([program, "/proc/self/fd/%d" % fd], pass_fds=[fd], **more)
    finally:
        os.close(fd)


def shell_program():
    import shutil

    return shutil.which("bash") or "/bin/sh"


def run_text(program, text, out=None, err=None):
    """Runs a script; returns what it wrote to streams that are not ours."""
    kernel.flush()
    with call_with_text(program, text, stdout=out, stderr=err) as process:
        try:
            taken = process.communicate()
        except BaseException:
            process.kill()
            raise
    find_what_is_new()
    kernel.space["_exit_code"] = process.returncode
    return ["" if data is None else data.decode("utf-8", "replace") for data in taken]


def run_shown(program, text):
    """Runs a script with the output of this interpreter, also where code has put something in place of sys.stdout."""
    from subprocess import PIPE

    out = None if sys.stdout is sys.__stdout__ else PIPE
    err = None if sys.stderr is sys.__stderr__ else PIPE
    for taken, stream in zip(run_text(program, text, out, err), (sys.stdout, sys.stderr)):
        if taken:
            stream.write(taken)


def find_what_is_new():
    """Modules that a command installed can be imported."""
    import importlib
    import site

    importlib.invalidate_caches()
    home = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    if home and home not in sys.path and os.path.isdir(home):
        site.addsitedir(home)


def output_lines(command):
    from subprocess import PIPE, STDOUT

    return Lines(run_text(shell_program(), command, PIPE, STDOUT)[0].splitlines())


def pip_magic(line, scope):
    import shlex

    run_shown(shell_program(), "%s -m pip %s" % (shlex.quote(sys.executable), line))


def shell_magic(name):
    return lambda line, scope: run_shown(shell_program(), name + " " + line)


def script_magic(program):
    def run(line, number, body):
        import shutil
        import subprocess

        if line:
            raise UsageError("%%%%%s takes no arguments" % program)
        if shutil.which(program) is None:
            raise UsageError("%s is not installed" % program)
        run_shown(program, body)
        if kernel.space["_exit_code"] != 0:
            raise subprocess.CalledProcessError(kernel.space["_exit_code"], "%%" + program)

    return run


# Time


def duration(seconds):
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return ("%dh " % hours if hours else "") + "%dmin %ds" % (minutes, rest)
    for unit, size in (("ns", 1e-9), ("\u00b5s", 1e-6), ("ms", 1e-3), ("s", 1)):
        value = float("%.3g" % (seconds / size))
        if value < 1000:
            break
    return "%g %s" % (value, unit)


def run_timed(step):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    try:
        return step()
    finally:
        wall = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        shown = tuple(duration(one) for one in (user, system, user + system, wall))
        print("CPU times: user %s, sys: %s, total: %s\nWall time: %s" % shown)


def time_magic(line, scope):
    return run_timed(kernel.step_of(scope.parse(line), scope))


def time_cell(line, number, body):
    return run_timed(kernel.step_of_cell("\n" * (number - 1) + line + "\n" + body))


class Timing:
    def __init__(self, runs, loops):
        self.loops, self.repeat = loops, len(runs)
        self.all_runs = runs
        self.timings = [run / loops for run in runs]
        self.best, self.worst = min(self.timings), max(self.timings)
        self.average = sum(self.timings) / len(runs)
        self.stdev = (sum((one - self.average) ** 2 for one in self.timings) / len(runs)) ** 0.5

    def __repr__(self):
        return "%s \u00b1 %s per loop (mean \u00b1 std. dev. of %d run%s, %s loop%s each)" % (
            duration(self.average),
            duration(self.stdev),
            self.repeat,
            "s" * (self.repeat != 1),
            format(self.loops, ","),
            "s" * (self.loops != 1),
        )


def timing_options(line):
    options = {}
    found = TIMING_OPTION.match(line)
    while found:
        options[found.group(1) or found.group(3)] = int(found.group(2) or 1)
        line = line[found.end() :]
        found = TIMING_OPTION.match(line)
    return options, line


def time_statements(options, setup, statements, scope):
    if not statements:
        raise UsageError("%timeit needs a statement")
    tree = ast.parse(TIMED)
    function = tree.body[0]
    function.body[2].body = statements
    function.body[:1] = setup or function.body[:1]
    made = {}
    exec(compile(tree, scope.name, "exec", kernel.flags & ~TOP_LEVEL_AWAIT, True), scope.space, made)

    def measure(loops):
        return made[function.name](iter(range(loops)), time.perf_counter)

    import gc

    collecting = gc.isenabled()
    gc.disable()
    try:
        loops = options.get("n", 0)
        if loops == 0:
            loops = 1
            while measure(loops) < SHORTEST_TIMING and loops < 10**9:
                loops *= 10
        timing = Timing([measure(loops) for _ in range(max(1, options.get("r", 7)))], loops)
    finally:
        if collecting:
            gc.enable()
    if "q" not in options:
        print(timing)
    return timing if "o" in options else None


def timeit_magic(line, scope):
    options, statement = timing_options(line)
    return time_statements(options, [], scope.parse(statement).body, scope)


def timeit_cell(line, number, body):
    options, setup = timing_options(line)
    scope = Scope(line=number)
    statements = parse("\n" * number + body, scope.name, kernel.flags).body
    return time_statements(options, scope.parse(setup).body, statements, scope)


# Files, environment, names


def unquoted(text):
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def cd_magic(line, scope):
    try:
        before = os.getcwd()
    except OSError:
        before = None  # it was removed
    to = unquoted(line) or "~"
    if to == "-":
        to = os.environ.get("OLDPWD", ".")
    os.chdir(os.path.expanduser(to))
    if before is not None:
        os.environ["OLDPWD"] = before
    print(os.getcwd())


def env_magic(line, scope):
    if not line:
        return dict(os.environ)
    assigned = re.match(r"([^\s=]+)(?:\s*=\s*|\s+)(.*)", line)
    if assigned is None:
        if line not in os.environ:
            raise UsageError("there is no variable %s in the environment" % line)
        return os.environ[line]
    name, value = assigned.groups()
    os.environ[name] = value
    print("env: %s=%s" % (name, value))


def write_file(line, number, body):
    line = interpolate(line, Scope())
    append = re.match(r"(-a|--append)\s+", line)
    name = os.path.expanduser(unquoted(line[append.end() :] if append else line))
    if not name:
        raise UsageError("%%writefile needs the name of a file")
    done = "Appending to" if append else "Overwriting" if os.path.exists(name) else "Writing"
    if body and not body.endswith("\n"):
        body += "\n"
    with open(name, "a" if append else "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(body)
    print(done, name)


def run_file(line, scope):
    import shlex
    import types

    words = shlex.split(line)
    shared = words[:1] == ["-i"]
    arguments = words[1:] if shared else words
    if not arguments or arguments[0].startswith("-"):
        raise UsageError("%run needs the name of a file; of options it has -i, to share the variables")
    path = os.path.expanduser(arguments[0])
    with tokenize.open(path) as file:
        code = compile(file.read(), path, "exec", 0, True)
    module = kernel.module if shared else types.ModuleType("__main__")
    if not shared:
        module.__file__ = path
    directory = os.path.dirname(os.path.abspath(path))
    arguments_before, sys.argv = sys.argv, [path] + arguments[1:]
    sys.path.insert(0, directory)
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    finally:
        sys.argv = arguments_before
        if directory in sys.path:
            sys.path.remove(directory)
        sys.modules["__main__"] = kernel.module
        if not shared:
            kernel.space.update(item for item in module.__dict__.items() if not item[0].startswith("__"))


def own_names():
    return sorted(name for name in kernel.space if not name.startswith("_"))


def who_magic(line, scope):
    print("\t".join(own_names()) or "There are no variables.")


def info_of(value):
    try:
        if not isinstance(value, type) and hasattr(value, "shape"):
            text = "shape %s" % (value.shape,)
        elif isinstance(value, (list, tuple, dict, set, frozenset, bytes, bytearray)):
            text = "n=%d" % len(value)
        else:
            text = repr(value[:MAX_INFO] if isinstance(value, str) else value)
    except Exception as error:
        text = "(%s)" % type(error).__name__
    text = " ".join(text.split())
    return text if len(text) <= MAX_INFO else text[: MAX_INFO - 3] + "..."


def whos_magic(line, scope):
    rows = [(name, type(kernel.space[name]).__name__, info_of(kernel.space[name])) for name in own_names()]
    rows.insert(0, ("Variable", "Type", "Info"))
    width, kind = (max(len(row[i]) for row in rows) for i in (0, 1))
    for row in rows:
        print("%-*s  %-*s  %s" % (width, row[0], kind, row[1], row[2]))


# The rest


def no_effect(name):
    def note(line, scope):
        sys.stderr.write("firebreak: %%%s has no effect here\n" % name)

    return note


def matplotlib_magic(line, scope):
    if line not in ("", "inline", "agg", "Agg"):
        sys.stderr.write("firebreak: figures come back as pictures, as with %matplotlib inline\n")


def capture_cell(line, number, body):
    import contextlib

    words = line.split()
    names = [word for word in words if not word.startswith("--")]
    if len(names) > 1 or not set(words) - set(names) <= {"--no-stdout", "--no-stderr"}:
        raise UsageError("%%capture takes the name of a variable, --no-stdout and --no-stderr")
    taken = Captured()
    if names:
        kernel.space[names[0]] = taken
    with contextlib.ExitStack() as stack:
        if "--no-stdout" not in words:
            stack.enter_context(contextlib.redirect_stdout(taken.out))
        if "--no-stderr" not in words:
            stack.enter_context(contextlib.redirect_stderr(taken.err))
        kernel.step_of_cell("\n" * number + body)()


class Captured:
    def __init__(self):
        import io

        self.out, self.err = io.StringIO(), io.StringIO()

    stdout = property(lambda self: self.out.getvalue())
    stderr = property(lambda self: self.err.getvalue())

    def __str__(self):
        return self.stdout

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)


LINE_MAGICS = {
    "cd": cd_magic,
    "env": env_magic,
    "matplotlib": matplotlib_magic,
    "pip": pip_magic,
    "pwd": lambda line, scope: os.getcwd(),
    "run": run_file,
    "set_env": env_magic,
    "time": time_magic,
    "timeit": timeit_magic,
    "who": who_magic,
    "whos": whos_magic,
}
LINE_MAGICS.update((name, shell_magic(name)) for name in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir"))
LINE_MAGICS.update((name, no_effect(name)) for name in ("autoreload", "config", "load_ext", "reload_ext"))
TAKEN_AS_WRITTEN = ("time", "timeit")  # their braces are Python's
CELL_MAGICS = {
    "bash": script_magic("bash"),
    "capture": capture_cell,
    "file": write_file,
    "sh": script_magic("sh"),
    "time": time_cell,
    "timeit": timeit_cell,
    "writefile": write_file,
}


class Magics:
    """What calls in translated cells reach, as __firebreak__."""

    def shell(self, command):
        run_shown(shell_program(), interpolate(command, Scope(sys._getframe(1))))

    def lines(self, command):
        return output_lines(interpolate(command, Scope(sys._getframe(1))))

    def magic(self, name, line):
        scope = Scope(sys._getframe(1))
        return LINE_MAGICS[name](line if name in TAKEN_AS_WRITTEN else interpolate(line, scope), scope)
