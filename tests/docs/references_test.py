"""What SECURITY.md and docs/security name exists: test cases, fuzz targets, files of tests. And every link between pages leads
somewhere. Run by run_pages.py, or by itself: python3 -m unittest references_test"""
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "SECURITY.md", *sorted((ROOT / "docs" / "security").glob("*.md"))]


def sources(*endings):
    for folder in ("src", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in endings and "node_modules" not in path.parts:
                yield path


def cases():
    """(suite, case) of every GoogleTest case."""
    found = set()
    for path in sources(".cpp", ".h"):
        found |= set(re.findall(r"\b\w*TEST\w*\(\s*(\w+)\s*,\s*(\w+)\s*[,)]", path.read_text(encoding="utf-8")))
    return found


def pages():
    top = list(ROOT.glob("*.md"))
    return top + [path for folder in ("docs", "src", "tests") for path in (ROOT / folder).rglob("*.md") if "node_modules" not in path.parts]


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


class References(unittest.TestCase):
    def test_cases_that_the_pages_of_hazards_name_exist(self):
        known = cases()
        suites = {suite for suite, _ in known}
        for page in PAGES:
            for suite, case in re.findall(r"`([A-Z]\w+)\.(\*|[A-Z]\w+)(?:/\w+)?`", page.read_text(encoding="utf-8")):
                exists = suite in suites if case == "*" else (suite, case) in known
                self.assertTrue(exists, f"{page.relative_to(ROOT)}: there is no test {suite}.{case}")

    def test_fuzz_targets_and_files_exist(self):
        files = {path.name for path in sources(".cpp", ".py", ".js", ".mjs")}
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            named = {f"fuzz_{name}.cpp" for name in re.findall(r"`fuzz ([a-z0-9_]+)`", text)} | set(re.findall(r"`(\w+_test\.cpp)`", text))
            named |= {f"{name}.test.js" for name in re.findall(r"`conformance/([a-z]+)`", text)}
            self.assertEqual(sorted(named - files), [], f"{page.relative_to(ROOT)} names what does not exist")

    def test_titles_of_client_tests_exist(self):
        text = "".join(path.read_text(encoding="utf-8") for path in sources(".mjs"))
        page = ROOT / "docs" / "security" / "api-and-tenants.md"
        for line in page.read_text(encoding="utf-8").splitlines():
            for title in re.findall(r'"([^"]+)"', line.split(" | ")[-1] if line.startswith("|") else ""):
                self.assertIn(title, text, f"{page.name}: no client test has the title {title!r}")

    def test_links_between_pages_lead_somewhere(self):
        for page in pages():
            text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", link):
                    continue
                file, _, anchor = link.partition("#")
                target = pathlib.Path(os.path.normpath(page.parent / file)) if file else page
                self.assertTrue(target.exists(), f"{page.relative_to(ROOT)}: {link} leads nowhere")
                if anchor and target.suffix == ".md":
                    self.assertIn(anchor, anchors(target), f"{page.relative_to(ROOT)}: {link} leads nowhere")


if __name__ == "__main__":
    unittest.main()
