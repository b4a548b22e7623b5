"""Tables of the pages against the code: the reasons of errors, and the options of the server. Run by run_pages.py, or by itself:
python3 -m unittest tables_test"""
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def reasons_in_code():
    found = set()
    for folder in ("src", "apps"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".h") and "_test" not in path.name:
                found |= set(re.findall(r'Reason\{"(\w+)"\}', path.read_text(encoding="utf-8")))
    return found


def reasons_in_page():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = page.split("| reason | code | means |\n", 1)[1].split("\n\n", 1)[0]
    return {word for row in table.splitlines()[1:] for word in re.findall(r"`(\w+)`", row.split("|")[1])}


class Tables(unittest.TestCase):
    def test_the_page_has_every_reason_and_no_other(self):
        self.assertEqual(sorted(reasons_in_page()), sorted(reasons_in_code()))

    def test_the_page_about_operations_has_the_options_of_the_program(self):
        program = pathlib.Path(os.environ.get("FIREBREAK_BUILD_DIR", ROOT / "build" / "release")) / "firebreak"
        table = subprocess.run([program, "server-options"], capture_output=True, text=True, check=True).stdout
        page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
        self.assertIn(table, page, "put the output of 'firebreak server-options' into docs/operations.md")


if __name__ == "__main__":
    unittest.main()
