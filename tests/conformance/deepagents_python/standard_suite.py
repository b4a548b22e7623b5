"""LangChain's own tests for sandboxes of DeepAgents, unmodified, with a microVM; standard_test.py runs them."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk/python/src"))
sys.path.insert(0, str(ROOT / "tests/support"))

from firebreak_server import Server  # noqa: E402
from firebreak_sdk import Client  # noqa: E402
from firebreak_sdk.deepagents import FirebreakBackend  # noqa: E402
from langchain_tests.integration_tests import SandboxIntegrationTests  # noqa: E402


class TestFirebreak(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        server = Server()
        try:
            with Client(server.url, server.key, ca_file=server.ca_file) as client, FirebreakBackend(client=client) as backend:
                yield backend
        finally:
            server.stop()
