"""Fenced blocks of a Markdown page: what they must hold, the script that runs them, and what their output must be.
Text in, text out: nothing here reads a file or starts a process."""
import ast
import dataclasses
import json
import re
import tomllib

FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
NOT_RUN = re.compile(r"^\s*<!--\s*not run:(?P<reason>.*)-->\s*$")
RUN = re.compile(r"^\s*<!--\s*run\s*-->\s*$")
WANTED = re.compile(r"(?:^|\s)# => (?P<text>.+?)\s*$")
KINDS = ("sh", "console", "json", "python", "dockerfile", "toml", "text", "ts")


@dataclasses.dataclass
class Block:
    line: int              # of the opening fence, counted from 1
    end: int               # of the closing fence
    info: str
    lines: list            # without the fence's own indentation
    reason: str | None = None  # why it is not run
    run: bool = False      # a python block that is

    def text(self):
        return "\n".join(self.lines) + "\n"

    def is_run(self):
        return self.reason is None and (self.info in ("sh", "console") or self.run)


@dataclasses.dataclass
class Step:
    """A command, or several, whose output is looked at as a whole."""
    line: int
    name: str              # of the file that takes the output
    wanted: list           # texts, in this order (sh), or the lines of a transcript (console)
    exact: bool            # a transcript

    def problem(self, output):
        return transcript_problem(self.wanted, output) if self.exact else order_problem(self.wanted, output)


def blocks_of(text):
    """The blocks of a page and [(line, what is wrong with them)]."""
    blocks, problems, lines = [], [], text.split("\n")
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if not opening:
            at += 1
            continue
        begin, indent, mark = at, len(opening["indent"]), opening["mark"]
        closing = re.compile(rf"^ *{re.escape(mark[0])}{{{len(mark)},}}\s*$")
        at += 1
        while at < len(lines) and not closing.match(lines[at]):
            at += 1
        if at == len(lines):
            problems.append((begin + 1, "the fence is never closed"))
            break
        block = Block(begin + 1, at + 1, opening["info"].strip(), [unindented(line, indent) for line in lines[begin + 1:at]])
        before = lines[begin - 1] if begin else ""
        if skipped := NOT_RUN.match(before):
            block.reason = skipped["reason"].strip()
        block.run = bool(RUN.match(before)) and block.info == "python"
        problems += [(block.line + offset, what) for offset, what in content_problems(block)]
        blocks.append(block)
        at += 1
    return blocks, problems


def unindented(line, indent):
    return line[min(indent, len(line) - len(line.lstrip(" "))):]


def content_problems(block):
    """[(lines below the fence, what is wrong)] of what can be said without running it."""
    if not block.info:
        return [(0, f"the fence does not say what it holds; write one of {', '.join(KINDS)} after it")]
    if block.info not in KINDS:
        return [(0, f"nobody knows how to check '{block.info}'; write one of {', '.join(KINDS)}")]
    if block.reason == "":
        return [(0, "'not run' needs a reason: <!-- not run: REASON -->")]
    try:
        if block.info == "json":
            parse_json(block.text())
        elif block.info == "toml":
            tomllib.loads(block.text())
        elif block.info == "python":
            ast.parse(block.text())
        elif block.info == "console" and not (block.lines and block.lines[0].startswith("$ ")):
            return [(1, "a transcript begins with a line '$ COMMAND'")]
    except SyntaxError as error:
        return [(error.lineno or 0, f"python: {error.msg}")]
    except ValueError as error:
        return [(getattr(error, "lineno", 0), f"{block.info}: {error}")]
    return []


def parse_json(text):
    """One value, or one in each line."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise
        for line in lines:
            try:
                json.loads(line)
            except json.JSONDecodeError:
                raise error from None


# ---- running

def script_of(blocks):
    """A bash script with every command in the line that it has in the page, so that bash's own messages name it; and its steps.
    `_page_step NAME` sends the output that follows to a file of that name."""
    script, steps = {}, []
    for block in blocks:
        if not block.is_run():
            continue
        if block.info == "console":
            steps += add_transcript(script, block)
            continue
        name = str(block.line)
        script[block.line] = f"_page_step {name}"
        if block.info == "python":
            script[block.line] += f"; python3 \"$PAGE_OUTPUT/{name}.py\""
            wanted = []
        else:
            script.update({block.line + 1 + i: line for i, line in enumerate(block.lines)})
            wanted = [found["text"] for line in block.lines if (found := WANTED.search(line))]
        steps.append(Step(block.line, name, wanted, False))
    last = max(script, default=0)
    return "".join(script.get(line, "") + "\n" for line in range(1, last + 1)), steps


def add_transcript(script, block):
    steps, continued = [], False
    for line, text in enumerate(block.lines, block.line + 1):
        if continued:
            script[line] = text.removeprefix("> ")
        elif text.startswith("$ "):
            steps.append(Step(line, str(line), [], True))
            script[line] = f"_page_step {line}; {text[2:]}"
        else:
            steps[-1].wanted.append(text)
        continued = line in script and text.endswith("\\")
    return steps


def order_problem(wanted, output):
    at = 0
    for text in wanted:
        found = output.find(text, at)
        if found < 0:
            return f"the output does not contain '{text}'" + (" at its place" if text in output else "")
        at = found + len(text)
    return None


def transcript_problem(wanted, output):
    pattern = ""
    for line in wanted:
        pattern += r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", r"[^\n]*") + r"\n"
    given = "".join(line.rstrip() + "\n" for line in output.rstrip("\n").split("\n")) if output.strip() else ""
    if re.fullmatch(pattern, given):
        return None
    return "the output is not what the transcript says"
