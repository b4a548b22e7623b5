"""Runs unittest's cases and reports them the way GoogleTest does: lines for people, and XML for tools/run-tests where
GTEST_OUTPUT=xml:FILE names it.

  python3 -m gtest_unittest [FILE_test.py...]      in the tests' folder; without files all of them

GTEST_FILTER=*TEXT* takes the cases whose name contains the text.
"""
import os
import pathlib
import re
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


def name_of(test):
    """Class and method, as GoogleTest's suite and case."""
    if isinstance(test, unittest.TestCase):
        return ".".join(test.id().split(".")[-2:])
    return re.sub(r"(\w+) \((?:.*\.)?(\w+)\)", r"\2.\1", test.id())  # "setUpClass (module.Class)"


class Report(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.root = ElementTree.Element("testsuites")
        self.began = time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        print(f"[ RUN      ] {name_of(test)}", flush=True)

    def record(self, test, word, kind=None, text=""):
        suite, _, case = name_of(test).rpartition(".")
        element = ElementTree.SubElement(self.root, "testcase", name=case, classname=suite)
        if not isinstance(test, unittest.TestCase):
            print(f"[ RUN      ] {name_of(test)}", flush=True)
        if kind:
            ElementTree.SubElement(element, kind, message=text)
            print(text, flush=True)
        print(f"[{word}] {name_of(test)} ({(time.monotonic() - self.began) * 1000:.0f} ms)", flush=True)

    def addSuccess(self, test):
        self.record(test, "       OK ")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "  SKIPPED ", "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "  FAILED  ", "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "  FAILED  ", "failure", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "  FAILED  ", "failure", f"{subtest.id()}\n{(self.failures or self.errors)[-1][1]}")


def main():
    sys.path.insert(0, os.getcwd())
    files = sys.argv[1:] or sorted(str(path) for path in pathlib.Path().glob("*_test.py"))
    if not files:
        sys.exit(f"there is no *_test.py in {os.getcwd()}")
    loader = unittest.TestLoader()
    wanted = os.environ.get("GTEST_FILTER", "*")
    loader.testNamePatterns = [wanted] if wanted != "*" else None
    report = Report()
    loader.loadTestsFromNames([pathlib.Path(file).stem for file in files]).run(report)
    failed = len(report.failures) + len(report.errors)
    print(f"{report.testsRun} cases, {failed} failed, {len(report.skipped)} skipped")
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        ElementTree.ElementTree(report.root).write(output[4:])
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
