"""Marks what the suite and DeepAgents themselves disagree about.

The suite is older than DeepAgents 0.7, whose base class makes these answers without asking the sandbox: glob gives whole paths, and
write replaces a file. Strict: the day that the two agree, this list has to go.
"""
import pytest

BASE_CLASS_DIFFERS = ("test_glob", "test_glob_basic_pattern", "test_glob_with_directories", "test_glob_hidden_files_explicitly",
                      "test_glob_with_character_class", "test_glob_with_question_mark", "test_write_existing_file_fails")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in BASE_CLASS_DIFFERS:
            item.add_marker(pytest.mark.xfail(strict=True, reason="DeepAgents' own base class differs from the suite"))
