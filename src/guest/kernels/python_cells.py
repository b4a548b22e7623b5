# From the text of a cell to Python: magics (%name) and commands (!command) become calls. A cell that Python can read is never
# changed. CMake puts this text in front of python_magics.py and python_kernel.py: they are one program.
import ast
import re
import tokenize

MAGIC = re.compile(r"(%%?)([A-Za-z_]\w*)(.*)", re.DOTALL)
CELL_MAGIC = re.compile(r"\s*%%([A-Za-z_]\w*)([^\n]*)\n?")
ASSIGNED = re.compile(r"=\s*(?=[%!])")
FEW = 16  # places of one line that are tried as the value of an assignment


class UsageError(Exception):
    """A magic that does not exist, or that is used as it cannot be."""


UsageError.__module__ = "builtins"  # tracebacks name no module then


def parse(code, name, flags=0):
    """The tree of a cell; every line keeps its number."""
    flags |= ast.PyCF_ONLY_AST
    try:
        return compile(code, name, "exec", flags, True)
    except SyntaxError as error:
        failure = error
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    translated, places, problem = translate(lines)
    if places:
        try:
            tree = compile("\n".join(translated), name, "exec", flags, True)
            if problem is None:
                return place(tree, lines, places)
            failure = UsageError("line %d: %s" % problem)
        except SyntaxError as error:
            failure = error
            if problem is not None and problem[0] < (error.lineno or 0):
                failure = UsageError("line %d: %s" % problem)  # what is below is for that magic
            elif error.lineno in places:
                error.text, error.offset, error.end_offset = lines[error.lineno - 1], None, None
    raise failure.with_traceback(None)


def place(tree, lines, places):
    """Tracebacks show lines as they were written: a call is as wide as its line."""
    for node in ast.walk(tree):
        number = getattr(node, "lineno", None)
        if number in places:
            line = lines[number - 1].encode("utf-8", "surrogateescape")
            node.col_offset = len(line) - len(line.lstrip())
            node.end_lineno = number
            node.end_col_offset = len(line.rstrip())
    return tree


def translate(lines):
    """The lines with calls in place of magics, the numbers of these lines, and (number, what is wrong) of a magic."""
    out = list(lines)
    places = set()
    problem = None
    at = 0
    while at < len(out):
        line = out[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        start = escape_in(line)
        if start is None:
            at = end_of_statement(out, at)
            continue
        end = at + 1
        while end < len(out) and continues(out[end - 1]):
            end += 1
        escaped = [line[start:]] + out[at + 1 : end]
        message = complaint(escaped[0])
        if message and not problem:
            problem = at + 1, message
        out[at] = line[:start] + as_call(escaped, assigned=bool(line[:start].strip()))
        out[at + 1 : end] = [""] * (end - at - 1)
        places.add(at + 1)
        at = end
    return out, places, problem


def continues(line):
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def escape_in(line):
    """Where in the first line of a statement its magic or command begins; None if it has none."""
    start = len(line) - len(line.lstrip())
    if is_escape(line[start:]):
        return start
    for count, found in enumerate(ASSIGNED.finditer(line)):
        if count == FEW:
            break
        if is_escape(line[found.end() :]) and is_target(line[: found.start()]):
            return found.end()
    return None


def is_escape(text):
    if text.startswith("!"):
        return bool(text.strip("! \t")) and not text.startswith("!=")
    return MAGIC.match(text) is not None


def is_target(text):
    """Whether an assignment can begin like this: the sign after it is no comparison, argument or part of a string."""
    try:
        body = ast.parse(text.strip() + " = 0").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(body) == 1 and isinstance(body[0], (ast.Assign, ast.AnnAssign))


def end_of_statement(lines, at):
    """The line after the statement that begins at `at`; the end of the cell if Python cannot tell."""
    following = iter(range(at, len(lines)))

    def read_line():
        number = next(following, None)
        return "" if number is None else lines[number] + "\n"

    try:
        for token in tokenize.generate_tokens(read_line):
            if token.type == tokenize.NEWLINE:
                return at + token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    return len(lines)


def complaint(escaped):
    """What is wrong with a magic within a cell; None if nothing is."""
    found = MAGIC.match(escaped)
    if found is None:
        return None
    signs, name, _ = found.groups()
    if signs == "%%":
        return "%%%%%s must be in the first line of its cell" % name if name in CELL_MAGICS else unknown_magic("%%" + name)
    if name in LINE_MAGICS:
        return None
    return unknown_magic("%" + name)


def unknown_magic(name):
    other = "%" + name if name[1] != "%" else name[1:]
    there = CELL_MAGICS if other.startswith("%%") else LINE_MAGICS
    if other.lstrip("%") in there:
        return "there is no magic %s, but there is %s" % (name, other)
    known = ["%" + one for one in sorted(LINE_MAGICS)] + ["%%" + one for one in sorted(CELL_MAGICS)]
    return "there is no magic %s; there are %s, and !command runs a command" % (name, ", ".join(known))


def as_call(escaped, assigned):
    if escaped[0].startswith("!"):
        way = "lines" if assigned or escaped[0].startswith("!!") else "shell"
        return "__firebreak__.%s(%r)" % (way, "\n".join(escaped).lstrip("!").strip())
    text = " ".join([line[:-1] for line in escaped[:-1]] + escaped[-1:])
    _, name, line = MAGIC.match(text).groups()
    return "__firebreak__.magic(%r, %r)" % (name, line.strip())


def split_cell_magic(code):
    """(name, its line, the line's number, the lines after it) of a cell that begins with %%; None for others."""
    found = CELL_MAGIC.match(code)
    if found is None:
        return None
    name = found.group(1)
    number = code.count("\n", 0, found.start(1)) + 1
    if name not in CELL_MAGICS:
        raise UsageError("line %d: %s" % (number, unknown_magic("%%" + name)))
    return name, found.group(2).strip(), number, code[found.end() :]
