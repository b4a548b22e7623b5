"""What can only be said when the other files have run, and what is made rather than written. Runs last: files go by name."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from world import ROOT, world  # first: it says where the SDK is

PACKAGE = ROOT / "sdk/python"
# Terminals and tunnels are WebSockets, which httpx does not speak; spawn(pty=...) and http() do what they are for.
LEFT_OUT = {"getMicrovmsIdPty", "getMicrovmsIdTunnel"}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)


class WholeTest(unittest.TestCase):
    def test_every_call_of_the_api_was_made_and_answered_as_the_document_says(self):
        if len(world().called) < 20:
            self.skipTest("the other files of this folder did not run before")
        every = {operation["operationId"] for methods in world().document["paths"].values() for operation in methods.values()}
        self.assertEqual(every - LEFT_OUT - world().called, set())
        self.assertEqual(sorted(set(world().wrong)), [])

    def test_generated_files_are_up_to_date(self):
        for command in ((ROOT / "tools/sdk-types", world().server.url, "--check"), (ROOT / "tools/sdk-sync", "--check")):
            done = run(*command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_types(self):
        with tempfile.TemporaryDirectory() as cache:
            done = run(sys.executable, "-m", "mypy", "--cache-dir", cache, "src", cwd=PACKAGE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_installs_from_the_tree(self):
        with tempfile.TemporaryDirectory() as scratch:
            # pip builds in the folder itself, and that is the tree.
            shutil.copytree(PACKAGE, pathlib.Path(scratch, "sdk"))
            target = pathlib.Path(scratch, "target")
            done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--target", target,
                       pathlib.Path(scratch, "sdk"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((target / "firebreak_sdk/py.typed").exists())
            program = "import firebreak_sdk, importlib.metadata as m; print(firebreak_sdk.__file__, m.version('firebreak-sdk'), firebreak_sdk.__version__)"
            done = run(sys.executable, "-c", program, cwd=scratch, env={**world().environment, "PYTHONPATH": str(target)})
            self.assertRegex(done.stdout, rf"^{re.escape(str(target))}/firebreak_sdk/__init__.py (\S+) \1$", done.stderr)

    def test_what_is_published_is_built(self):
        with tempfile.TemporaryDirectory() as dist:
            done = run(ROOT / "tools/sdk-package", dist)
            self.assertEqual(done.returncode, 0, done.stderr)
            kinds = sorted(re.sub(r"[\d.]+", "-", path.name.removeprefix("firebreak"), count=1) for path in pathlib.Path(dist).iterdir())
            self.assertEqual(kinds, ["-sdk--tgz", "_sdk---py3-none-any.whl", "_sdk--tar.gz"])

    def test_no_page_names_the_package_of_somebody_else(self):
        pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("sdk/**/*.md"), *ROOT.glob("skills/**/*.md")]
        self.assertGreater(len(pages), 20)
        for page in pages:
            self.assertNotRegex(page.read_text(), r"(pip|npm|uv|poetry)\s+(install|add|i)\s+(-\S+\s+)*firebreak(?!-sdk)\b", page.name)


class PagesTest(unittest.TestCase):
    """The Python blocks of a page run in order as one program, as a reader would type them."""

    def run_page(self, page):
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        self.assertTrue(blocks, page.name)
        program, expected = "", []
        for block in blocks:
            program += block + "\n"
            expected += re.findall(r"# => (.*)$", block, re.MULTILINE)
        with tempfile.TemporaryDirectory() as scratch:
            done = run(sys.executable, "-c", program, cwd=scratch, env=world().environment)
        self.assertEqual(done.returncode, 0, f"{page.name}\n{done.stdout}\n{done.stderr}")
        position = 0
        for text in expected:
            position = done.stdout.find(text, position)
            self.assertGreaterEqual(position, 0, f"{page.name} does not print {text!r}:\n{done.stdout}")

    def test_the_page_about_python(self):
        self.run_page(ROOT / "docs/sdk-python.md")

    def test_the_skill(self):
        self.run_page(ROOT / "skills/firebreak/SKILL.md")


if __name__ == "__main__":
    unittest.main()
