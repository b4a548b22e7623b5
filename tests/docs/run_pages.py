#!/usr/bin/env python3
"""Runs what the pages tell their readers to run:
  tests/docs/run_pages.py [--keep] [PAGE...]
Every fenced block of README.md, docs/ (decisions excepted) and skills/ is checked by what its info string says (README.md here has the
rules); those that are commands run in one bash a page, in a directory of their own, against a real server that this program starts.
Prints one line a page and "N passed, N failed", and writes results as GoogleTest does (GTEST_OUTPUT)."""
import argparse
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.sax.saxutils

sys.dont_write_bytecode = True
FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
sys.path.insert(0, str(FOLDER))

# pylint: disable=wrong-import-position
import pages
import pages_test
import plots_test
import references_test
import tables_test
from server import Server

PAGE_SECONDS = 240

# The page is sourced, so that line numbers are those of the page.
PRELUDE = """
_page_step() { exec >"$PAGE_OUTPUT/$1.out" 2>&1; echo "$1" >"$PAGE_OUTPUT/last"; }
set -E -e -o pipefail
trap 'echo "$LINENO" >"$PAGE_OUTPUT/failed"' ERR
source "$1"
"""


@dataclasses.dataclass
class Outcome:
    page: str
    problems: list         # "page:line: what"
    ran: int
    skipped: list          # "page:line: reason"
    seconds: float


def all_pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "skills").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found if "adr" not in path.relative_to(ROOT).parts]


class Page:
    def __init__(self, name):
        self.name = name
        self.text = (ROOT / name).read_text(encoding="utf-8")
        self.blocks, found = pages.blocks_of(self.text)
        self.problems = [f"{name}:{line}: {what}" for line, what in found]
        self.problems += [f"{name}:{block.line}: {error}" for block in self.blocks if block.is_run() and (error := self.syntax_error(block))]

    @staticmethod
    def syntax_error(block):
        """An open quote or heredoc would swallow the blocks that follow."""
        if block.info != "sh":
            return ""
        done = subprocess.run(["bash", "-n"], input=block.text(), capture_output=True, text=True, timeout=30, check=False)
        return done.stderr.strip()

    def skipped(self):
        return [f"{self.name}:{block.line}: {block.reason}" for block in self.blocks if block.reason]

    def run(self, directory, server, keep):
        """Runs the blocks; returns how many, and appends to the problems."""
        place = {"/var/lib/firebreak": str(server.directory), "http://127.0.0.1:7070": server.url, "127.0.0.1:7443": server.endpoint}
        for block in self.blocks:
            block.lines = [replaced(line, place) for line in block.lines]
        script, steps = pages.script_of(self.blocks)
        if not steps:
            return 0
        output, work = directory / "output", directory / "work"
        output.mkdir(parents=True)
        work.mkdir()
        for block in self.blocks:
            if block.run:
                (output / f"{block.line}.py").write_text("\n" * block.line + block.text())
        file = directory / pathlib.Path(self.name).name
        file.write_text(script)
        (directory / "prelude").write_text(PRELUDE)
        status = run_bash(directory, file, work, environment(server, output, directory))
        self.problems += self.failures(output, steps, status)
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
        return sum(block.is_run() for block in self.blocks)

    def failures(self, output, steps, status):
        found = []
        last = read(output / "last").strip()
        for step in steps:
            text = read(output / f"{step.name}.out")
            problem = step.problem(text)
            if step.name == last and status != 0:
                line = read(output / "failed").strip() or str(step.line)
                problem = f"it took more than {PAGE_SECONDS} s" if status is None else f"a command failed (status {status})"
                found.append(f"{self.name}:{line}: {problem}{shown(text)}")
                break
            if problem:
                found.append(f"{self.name}:{step.line}: {problem}{shown(text)}")
            if step.name == last:
                if status == 0 and step is not steps[-1]:
                    found.append(f"{self.name}:{step.line}: the page's commands end here, before the last block")
                break
        return found or ([f"{self.name}: bash ended with {status} before the first block"] if status else [])


def replaced(line, place):
    for text, real in place.items():
        line = line.replace(text, real)
    return line


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""


def shown(output):
    lines = output.rstrip("\n").split("\n")[-15:]
    return "".join(f"\n        | {line[:300]}" for line in lines if output.strip())


def environment(server, output, home):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FIREBREAK_", "AWS_", "GTEST_")) and not key.lower().endswith("_proxy")}
    return {**kept, "PATH": f"{os.environ['FIREBREAK_BUILD_DIR']}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home),
            "FIREBREAK_DATA_DIR": str(server.directory), "PAGE_OUTPUT": str(output)}


def run_bash(directory, file, work, env):
    """The exit status; None when it took too long. Whatever it left running in its session's group ends with it."""
    with open(directory / "bash.log", "wb") as log:
        bash = subprocess.Popen(["bash", str(directory / "prelude"), str(file)], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log, start_new_session=True)
        try:
            return bash.wait(PAGE_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(bash.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            bash.wait()


def test_ourselves():
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromModule(module) for module in (pages_test, plots_test, references_test, tables_test))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
    return [f"{test.id()}: {trace.splitlines()[-1]}" for test, trace in result.failures + result.errors]


def run_all(names, directory, keep):
    outcomes = []
    server = Server(directory / "data")
    try:
        for name in names:
            began = time.monotonic()
            page = Page(name)
            ran = 0 if page.problems else page.run(directory / name.replace("/", "-"), server, keep)
            server.clean()
            outcomes.append(Outcome(name, page.problems, ran, page.skipped(), time.monotonic() - began))
            tell(outcomes[-1])
        if any(outcome.problems for outcome in outcomes):
            print(f"the server's log ends with\n{server.log()}", flush=True)
    finally:
        server.stop()
    return outcomes


def tell(outcome):
    print(f"[ {' FAILED ' if outcome.problems else '     OK '} ] {outcome.page}: {outcome.ran} blocks run, {len(outcome.skipped)} not run "
          f"({outcome.seconds:.1f} s)", flush=True)
    for problem in outcome.problems:
        print(f"    {problem}", flush=True)


def write_xml(path, outcomes):
    rows = []
    for outcome in outcomes:
        text = xml.sax.saxutils.quoteattr("; ".join(outcome.problems)[:2000])
        inside = f"\n<failure message={text}/>" if outcome.problems else ""
        rows.append(f'<testcase name="{outcome.page}" classname="pages">{inside}\n</testcase>')
    failures = sum(bool(outcome.problems) for outcome in outcomes)
    pathlib.Path(path).write_text("\n".join([f'<testsuites tests="{len(outcomes)}" failures="{failures}">', *rows, "</testsuites>", ""]),
                                  encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the directory with scripts and outputs")
    parser.add_argument("pages", nargs="*", help="as README.md, docs/api.md; default: all")
    options = parser.parse_args()
    # Time-outs of others end with what this program started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    outcomes = [Outcome("the parser and the plots", test_ourselves(), 0, [], time.monotonic() - began)]
    tell(outcomes[0])
    directory = pathlib.Path(tempfile.mkdtemp(prefix="fb-docs-"))
    try:
        outcomes += run_all(options.pages or all_pages(), directory, options.keep)
    finally:
        if options.keep:
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    skipped = [line for outcome in outcomes for line in outcome.skipped]
    if skipped:
        print("not run:\n" + "\n".join(f"    {line}" for line in skipped))
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        write_xml(output[4:], outcomes)
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
