#!/usr/bin/env python3
"""What tools/test_memory.py takes for the same test: a small tree in a temporary directory, changed in one place at a time."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from test_memory import Memory  # noqa: E402


def a_test(name, label):
    return types.SimpleNamespace(name=name, labels=[label], command=[f"{name}_test"], environment={}, directory=".")


class TestMemory(unittest.TestCase):
    def setUp(self):
        os.environ.pop("FIREBREAK_GUEST_DIR", None)  # of the run that this test is part of
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.root = pathlib.Path(kept.name)
        self.build = self.root / "build/release"
        self.write("build/release/guest/vmlinux", "kernel")
        for name in ("firebreak", "unit.a_test", "server.a_test", "docs.a_test"):
            self.write(f"build/release/{name}", name).chmod(0o755)
        self.write("tests/helper.py", "1")
        self.write("docs/page.md", "1")
        self.write("src/code.cpp", "1")
        self.write(".gitignore", "/build/\n")
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.tests = {name: a_test(name, "unit" if name == "unit.a" else "vm") for name in ("unit.a", "server.a", "docs.a")}
        memory = self.memory()
        for test in self.tests.values():
            memory.keep(test, 7)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def memory(self):
        return Memory(self.root, self.build)

    def remembered(self):
        memory = self.memory()
        return {name for name, test in self.tests.items() if memory.cases(test) == 7}

    def test_nothing_changed(self):
        self.assertEqual(self.remembered(), {"unit.a", "server.a", "docs.a"})

    def test_its_own_program(self):
        self.write("build/release/server.a_test", "other")
        self.assertEqual(self.remembered(), {"unit.a", "docs.a"})

    def test_the_server(self):
        self.write("build/release/firebreak", "other")
        self.assertEqual(self.remembered(), {"unit.a"})

    def test_the_guest(self):
        self.write("build/release/guest/vmlinux", "other")
        self.assertEqual(self.remembered(), {"unit.a"})

    def test_a_script(self):
        self.write("tests/helper.py", "other")
        self.assertEqual(self.remembered(), {"unit.a"})

    def test_a_new_file_that_git_does_not_know_yet(self):
        self.write("tests/new.py", "1")
        self.assertEqual(self.remembered(), {"unit.a"})

    def test_a_page(self):
        self.write("docs/page.md", "other")
        self.assertEqual(self.remembered(), {"unit.a", "server.a"})

    def test_sources_count_by_what_is_compiled_from_them(self):
        self.write("src/code.cpp", "a comment")
        self.assertEqual(self.remembered(), {"unit.a", "server.a", "docs.a"})

    def test_other_arguments_or_environment(self):
        self.tests["unit.a"].command.append("--gtest_filter=*More*")
        self.tests["server.a"].environment["FIREBREAK_MANY"] = "50"
        self.assertEqual(self.remembered(), {"docs.a"})

    def test_what_failed_is_forgotten(self):
        self.memory().forget(self.tests["unit.a"])
        self.assertEqual(self.remembered(), {"server.a", "docs.a"})


if __name__ == "__main__":
    unittest.main()
