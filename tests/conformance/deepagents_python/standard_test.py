"""DeepAgents' standard sandbox suite is pytest's: it runs as one program, and its failures are shown.

The quick run takes one case of each operation; with FIREBREAK_LONG=1 it takes all: a case starts Python in an emulated guest, often twice.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

QUICK = ("test_write_new_file", "test_read_with_offset_and_limit", "test_edit_single_occurrence", "test_ls_lists_files", "test_glob_no_matches",
         "test_grep_literal", "test_upload_download_roundtrip", "test_download_error_is_directory", "test_download_error_file_not_found",
         "test_upload_relative_path_returns_invalid_path", "test_execute_large_stdout_payload", "test_no_overrides")


class StandardTest(unittest.TestCase):
    def test_langchains_standard_tests_of_sandboxes_pass(self):
        suite = pathlib.Path(__file__).with_name("standard_suite.py")
        whole = os.environ.get("FIREBREAK_LONG") == "1"
        chosen = [] if whole else ["-k", " or ".join(QUICK)]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", *chosen, str(suite)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        passed = re.search(r"(\d+) passed", done.stdout)
        self.assertGreaterEqual(int(passed.group(1)), 70 if whole else len(QUICK), done.stdout[-500:])
