"""What the pages' parser makes of a page. Run by run_pages.py, or by itself: python3 -m unittest pages_test"""
import textwrap
import unittest

import pages


def blocks_of(text):
    return pages.blocks_of(textwrap.dedent(text).lstrip("\n"))


class Fences(unittest.TestCase):
    def test_blocks_know_their_lines(self):
        blocks, problems = blocks_of("""
            # Title

            ```sh
            one
            two
            ```
            text
            ```json
            {"a": 1}
            ```
            """)
        self.assertEqual(problems, [])
        self.assertEqual([(b.line, b.end, b.info, b.lines) for b in blocks],
                         [(3, 6, "sh", ["one", "two"]), (8, 10, "json", ['{"a": 1}'])])

    def test_a_fence_in_a_list_loses_its_indentation(self):
        blocks, _ = pages.blocks_of("- item\n\n  ```sh\n  if true; then\n    echo\n  fi\n  ```\n")
        self.assertEqual(blocks[0].lines, ["if true; then", "  echo", "fi"])

    def test_a_longer_fence_may_hold_a_shorter_one(self):
        blocks, problems = pages.blocks_of("````text\n```\nhere\n```\n````\n")
        self.assertEqual(problems, [])
        self.assertEqual(blocks[0].lines, ["```", "here", "```"])

    def test_what_is_wrong_is_named_with_its_line(self):
        for text, line, part in (("```\nx\n```\n", 1, "does not say what it holds"),
                                 ("```ruby\nx\n```\n", 1, "'ruby'"),
                                 ("text\n```sh\nx\n", 2, "never closed"),
                                 ("```json\n{\"a\": }\n```\n", 2, "json:"),
                                 ("```toml\na = \n```\n", 1, "toml:"),
                                 ("```python\nok = 1\nno no\n```\n", 3, "python:"),
                                 ("```console\noutput\n```\n", 2, "begins with"),
                                 ("<!-- not run: -->\n```sh\nx\n```\n", 2, "needs a reason")):
            with self.subTest(text):
                problems = pages.blocks_of(text)[1]
                self.assertEqual([at for at, _ in problems], [line])
                self.assertIn(part, problems[0][1])

    def test_json_may_be_one_value_a_line(self):
        self.assertEqual(pages.blocks_of('```json\n{"a": 1}\n{"b": 2}\n```\n')[1], [])
        self.assertEqual(len(pages.blocks_of('```json\n{"a": 1}\n{"b": }\n```\n')[1]), 1)


class Marks(unittest.TestCase):
    def test_a_reason_keeps_a_block_from_running(self):
        blocks, problems = pages.blocks_of("<!-- not run: needs a terminal -->\n```sh\nx\n```\n")
        self.assertEqual(problems, [])
        self.assertEqual(blocks[0].reason, "needs a terminal")
        self.assertFalse(blocks[0].is_run())

    def test_the_mark_stands_right_before_the_fence(self):
        blocks, _ = pages.blocks_of("<!-- not run: no -->\n\n```sh\nx\n```\n")
        self.assertTrue(blocks[0].is_run())

    def test_python_is_run_where_it_is_said(self):
        blocks, _ = pages.blocks_of("```python\nx = 1\n```\n<!-- run -->\n```python\nx = 1\n```\n")
        self.assertEqual([b.is_run() for b in blocks], [False, True])


class Scripts(unittest.TestCase):
    def test_commands_keep_their_lines(self):
        blocks, _ = pages.blocks_of("text\n\n```sh\necho a\necho b   # => b\n```\n\n```sh\necho c\n```\n")
        script, steps = pages.script_of(blocks)
        self.assertEqual(script.split("\n"), ["", "", "_page_step 3", "echo a", "echo b   # => b", "", "", "_page_step 8", "echo c", ""])
        self.assertEqual([(s.line, s.wanted) for s in steps], [(3, ["b"]), (8, [])])

    def test_blocks_that_are_not_run_are_left_out(self):
        blocks, _ = pages.blocks_of("<!-- not run: no -->\n```sh\nexit 1\n```\n```text\nhello\n```\n")
        self.assertEqual(pages.script_of(blocks), ("", []))

    def test_a_transcript_is_one_step_a_command(self):
        blocks, _ = pages.blocks_of("```console\n$ echo a \\\n>   b\na b\n$ true\n$ echo c\nc\n```\n")
        script, steps = pages.script_of(blocks)
        self.assertEqual(script.split("\n"), ["", "_page_step 2; echo a \\", "  b", "", "_page_step 5; true", "_page_step 6; echo c", ""])
        self.assertEqual([(s.line, s.wanted) for s in steps], [(2, ["a b"]), (5, []), (6, ["c"])])


class Outputs(unittest.TestCase):
    def test_wanted_texts_come_in_order(self):
        self.assertIsNone(pages.order_problem(["42", "7"], "42\n7\n"))
        self.assertIn("at its place", pages.order_problem(["7", "42"], "42\n7\n"))
        self.assertIn("'8'", pages.order_problem(["8"], "42\n7\n"))

    def test_a_transcript_is_the_whole_output(self):
        for wanted, output, good in ((["a", "b"], "a\nb\n", True), (["a"], "a\nb\n", False), ([], "", True), ([], "a\n", False),
                                     (["id-...: ok"], "id-12: ok\n", True), (["a...b"], "a\nb\n", False), (["a", "...", "d"], "a\nb\nc\nd\n", True),
                                     (["a", "...", "d"], "a\nd\n", True), (["..."], "", True), (["a  "], "a\n", True)):
            with self.subTest(wanted=wanted, output=output):
                self.assertEqual(pages.transcript_problem(wanted, output) is None, good)


if __name__ == "__main__":
    unittest.main()
